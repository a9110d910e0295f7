"""Opening a store. What this module imports makes LanceDB know the embedder of a table of vectors."""

from __future__ import annotations

from pathlib import Path

from store import Store
from store.memory import Memory
from store.record import Record
from store.schema import EmbedderSpec
from store.tables import open_tables
from store.vectors import Vectors


def open_store(
    path: Path | str, *, create: bool = False, embedder: EmbedderSpec | None = None, far: float | None = None
) -> Store:
    """Open the store in a folder for reading.

    With an `embedder` memory has a vector lane, in which hits beyond `far` do not count (cosine distance; None is
    the embedder's own bound). Raises StoreError when there is no store, or one of another format.
    """
    tables = open_tables(Path(path), create=create)
    vectors = Vectors(tables, embedder, far) if embedder else None
    return Store(tables, Record(tables), Memory(tables, vectors))

"""What is kept: schemas, changes and merge, record, memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.memory import Memory
    from store.record import Record
    from store.tables import Tables


@dataclass(frozen=True, slots=True)
class Store:
    """An open store: the record is the truth, memory the copy that is searched."""

    tables: Tables
    record: Record
    memory: Memory


def open_store(path: Path | str, *, create: bool = False) -> Store:
    """Open the store in a folder for reading. Raises StoreError when there is none, or of another format."""
    # The database takes a second to import: whoever only wants the contracts does not pay for it.
    from store.memory import Memory
    from store.record import Record
    from store.tables import open_tables

    tables = open_tables(Path(path), create=create)
    return Store(tables, Record(tables), Memory(tables))


__all__ = ["Store", "open_store"]

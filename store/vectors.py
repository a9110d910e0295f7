"""Vectors of the rows of memory: a copy of a copy, made in the background and thrown away at will.

Memory does not wait for them: a row that is not embedded yet, or cannot be, is found by the other lanes, and is
counted as not indexed here (L10).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from store.arrow import FORMAT_KEY
from store.embedding import Embedder, digest, embed, embedder_of
from store.schema import STORE_FORMAT, ClassifiedFailure, EmbedderSpec, FailureClass, classify
from store.sql import quote
from store.tables import Table, Tables

VECTORS: Final = "vectors"
METADATA: Final = b"embedding_functions"
"""Where LanceDB keeps which function makes the vectors of a table."""

_TIES: Final = 8
"""Hits asked for beyond the limit (rows): equal distances come in any order."""
_ASKED: Final = 1_024
"""Vectors of searches that are remembered (count)."""


@dataclass(slots=True)
class Vectors:
    """Search by likeness of meaning. Reads only."""

    tables: Tables
    spec: EmbedderSpec
    far: float | None = None
    """Cosine distance beyond which a hit does not count; None is the embedder's own."""
    failure: str | None = None
    """Why texts could not be embedded when it was tried last; None when they could."""
    _asked: dict[str, list[float] | None] = field(default_factory=dict)
    """Vectors of the latest texts that were searched for, by digest: an event that waits is looked for again."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def embedder(self) -> Embedder:
        """The embedder, made when it is first needed."""
        return embedder_of(self.spec)

    def embed(self, texts: Sequence[str]) -> list[list[float] | None]:
        """`store.embedding.embed`, and a word about how it went in `failure`."""
        try:
            made = embed(self.spec, texts)
        except Exception as error:
            self.failure = classify(error).reason
            raise
        if texts:
            self.failure = None
        return made

    def search(self, workspace: str, text: str, limit: int) -> list[str]:
        """Ids of up to `limit + 1` rows, nearest first.

        Raises ClassifiedFailure when the text cannot be embedded.
        """
        vector = self._vector_of(text)
        if vector is None:
            raise ClassifiedFailure(FailureClass.CONTENT, "the text of the event cannot be embedded")
        table = self.table()
        if table is None:
            return []
        far = self.embedder.far if self.far is None else self.far
        hits = (
            table.search(vector, query_type="vector", vector_column_name="vector")
            .distance_type("cosine")
            .where(f"workspace = {quote(workspace)}", prefilter=True)
            .select(["row_id", "_distance"])
            .limit(limit + 1 + _TIES)
            .to_arrow()
            .to_pylist()
        )
        near = [(round(hit["_distance"], 5), hit["row_id"]) for hit in hits if hit["_distance"] <= far]
        return [row_id for _, row_id in sorted(near)[: limit + 1]]

    def behind(self) -> int:
        """Rows of memory that are not embedded (rows)."""
        table = self.table()
        embedded = 0 if table is None else int(table.count_rows())
        return max(0, int(self.tables["memory"].count_rows()) - embedded)

    def table(self) -> Table | None:
        """The table of this embedder's vectors; None while there is none."""
        table = self.tables.find(VECTORS)
        return table if table is not None and made_by(table) == self.spec else None

    def _vector_of(self, text: str) -> list[float] | None:
        key = digest(self.spec, text)
        with self._lock:
            if key in self._asked:
                return self._asked[key]
        [vector] = self.embed([text])
        with self._lock:
            self._asked[key] = vector
            while len(self._asked) > _ASKED:
                del self._asked[next(iter(self._asked))]
        return vector


def made_by(table: Table) -> EmbedderSpec | None:
    """The embedder that made a table's vectors; None for a table that says nothing we know."""
    metadata = table.schema.metadata or {}
    if metadata.get(FORMAT_KEY) != str(STORE_FORMAT).encode():
        return None
    try:
        [function] = json.loads(metadata[METADATA])
        return EmbedderSpec(**function["model"]["spec"])
    except (KeyError, ValueError, TypeError):
        return None

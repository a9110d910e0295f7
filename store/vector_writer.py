"""The one writer of the vectors: keeps them to what memory holds, as far as the embedder lets it."""

from __future__ import annotations

import json
import logging
import shutil
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import islice
from time import monotonic
from typing import Any, Final

import lancedb
import pyarrow as pa
from lancedb.index import BTree, IvfFlat

from store.arrow import FORMAT_KEY
from store.embedding import FUNCTION, digest, read_of
from store.schema import STORE_FORMAT, ClassifiedFailure, EmbedderSpec, FailureClass
from store.sql import chunked, is_in
from store.tables import Table
from store.vectors import METADATA, VECTORS, Vectors

_FRAGMENTS: Final = 32
"""Commits after which the table is optimised (commits)."""
_REFUSED: Final = 10_000
"""Texts that cannot be embedded which are remembered (count)."""
_INDEXED: Final = ("row_id", "workspace", "digest")

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Embedded:
    """What one round has done."""

    rows: int = 0
    refused: int = 0
    """Rows whose text cannot be embedded."""


@dataclass(slots=True)
class VectorWriter:
    """Keeps the vectors to what memory holds. There is one of it for a store, behind the store's lock.

    `touched` may be called from any thread; everything else is for one.
    """

    vectors: Vectors
    index_rows: int
    """Rows from which on an index answers instead of a walk over all (rows)."""
    versions_for: float = 600.0
    """Time old versions of the table stay readable (s)."""
    asking_since: float | None = None
    """Since when the embedder owes an answer, on the monotonic clock (s)."""
    _touched: dict[str, None] = field(default_factory=dict)
    """Rows that changed and were not compared with their vectors since."""
    _missing: dict[str, None] = field(default_factory=dict)
    """Rows that are to be embedded; none of them is among the touched."""
    _refused: dict[str, None] = field(default_factory=dict)
    """Digests of texts that cannot be embedded."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _failed: bool = False
    _closed: bool = False
    _commits: int | None = None
    _trained: int | None = None
    """Rows that the index was made for (rows)."""

    @property
    def pending(self) -> int:
        """Rows that changed and whose vector is not made, or not found to be there (rows)."""
        with self._lock:
            return len(self._touched) + len(self._missing)

    def touched(self, row_ids: Iterable[str]) -> None:
        """Rows of memory have changed, or gone."""
        with self._lock:
            for row_id in row_ids:
                self._missing.pop(row_id, None)
                self._touched[row_id] = None

    def close(self) -> None:
        """Write nothing any more: somebody else may hold the store by the time a call that hangs comes back."""
        self._closed = True

    def survey(self) -> None:
        """Find every row whose vector is missing, of another text, or of a row that is gone."""
        memory = self.vectors.tables["memory"].search().select(["row_id", "text"]).to_arrow()
        digests = (digest(self.vectors.spec, text) for text in memory["text"].to_pylist())
        wanted = dict(zip(memory["row_id"].to_pylist(), digests, strict=True))
        table = self._table()
        have: dict[str, str] = {}
        if table is not None:
            rows = table.search().select(["row_id", "digest"]).to_arrow()
            have = dict(zip(rows["row_id"].to_pylist(), rows["digest"].to_pylist(), strict=True))
        self.touched([row_id for row_id, text in wanted.items() if have.get(row_id) != text])
        self.touched([row_id for row_id in have if row_id not in wanted])

    def compare(self) -> None:
        """Take away the vectors of rows that say something else by now, or are gone.

        Whatever becomes of the new ones, the old ones must neither be found nor be counted.
        """
        with self._lock:
            touched = list(self._touched)
        for chunk in chunked(touched):
            with self._lock:
                for row_id in chunk:
                    del self._touched[row_id]
                    self._missing[row_id] = None
            try:
                there = self._compared(chunk)
            except BaseException:
                self.touched(chunk)
                raise
            with self._lock:
                for row_id in there:
                    self._missing.pop(row_id, None)

    def work(self, rows: int) -> Embedded:
        """Compare what was touched, then embed up to `rows` of the rows that are to be embedded.

        After a failure one row finds out whether the embedder is well again, and another one each time, so that
        one that it cannot bear holds up no other. Raises what the embedder raises, or the database; the rows stay
        pending then.
        """
        self.compare()
        with self._lock:
            taken = list(islice(self._missing, 1 if self._failed else rows))
        try:
            done = self._embed(taken)
        except BaseException:
            self._failed = True
            with self._lock:
                for row_id in taken:
                    if row_id in self._missing:
                        del self._missing[row_id]
                        self._missing[row_id] = None
            raise
        self._failed = False
        with self._lock:
            for row_id in taken:
                self._missing.pop(row_id, None)
        return done

    def optimize(self) -> None:
        """Few fragments, an index of all rows, old versions gone."""
        table = self.vectors.table()
        if table is not None:
            table.optimize(cleanup_older_than=timedelta(seconds=max(self.versions_for, 0.001)))
        self._commits = 0

    def _compared(self, chunk: Sequence[str]) -> list[str]:
        """Rows of these that need no vector: theirs is there, or they are gone."""
        memory = self.vectors.tables["memory"]
        spec = self.vectors.spec
        digests = {row["row_id"]: digest(spec, row["text"]) for row in _rows(memory, ["row_id", "text"], chunk)}
        table = self._table()
        have = {row["row_id"]: row["digest"] for row in _rows(table, ["row_id", "digest"], chunk)}
        stale = [row_id for row_id in have if digests.get(row_id) != have[row_id]]
        if stale and table is not None:
            table.delete(is_in("row_id", stale))
            self._look_after(table)
        return [row_id for row_id in chunk if digests.get(row_id) == have.get(row_id) or row_id not in digests]

    def _embed(self, taken: Sequence[str]) -> Embedded:
        if not taken:
            return Embedded()
        spec = self.vectors.spec
        found = _rows(self.vectors.tables["memory"], ["row_id", "workspace", "text"], taken)
        rows = [{**row, "text": read_of(spec, row["text"]), "digest": digest(spec, row["text"])} for row in found]
        table = self._own_table()
        fresh = [row for row in rows if row["digest"] not in self._refused]
        vectors = self._vectors(table, {row["digest"]: row["text"] for row in fresh})
        made = [{**row, "vector": vector} for row in fresh if (vector := vectors[row["digest"]]) is not None]
        if self._closed:
            raise ClassifiedFailure(FailureClass.TRANSIENT, "the run has ended meanwhile")
        if made:
            merge = table.merge_insert("row_id").when_matched_update_all().when_not_matched_insert_all()
            merge.execute(pa.Table.from_pylist(made, schema=table.schema))
            self._look_after(table)
        return Embedded(len(made), len(rows) - len(made))

    def _vectors(self, table: Table, texts: Mapping[str, str]) -> dict[str, list[float] | None]:
        """A vector for each digest, taken from a row of the same text where there is one."""
        twins = {row["digest"]: row["row_id"] for row in _rows(table, ["digest", "row_id"], texts, key="digest")}
        known: dict[str, list[float] | None] = {
            row["digest"]: row["vector"] for row in _rows(table, ["digest", "vector"], twins.values())
        }
        asked = [text for text in texts if text not in known]
        self.asking_since = monotonic()
        try:
            made = self.vectors.embed([texts[text] for text in asked])
        finally:
            self.asking_since = None
        for text, vector in zip(asked, made, strict=True):
            known[text] = vector
            if vector is None:
                self._refused[text] = None
        while len(self._refused) > _REFUSED:
            del self._refused[next(iter(self._refused))]
        return known

    def _table(self) -> Table | None:
        """The table, when the embedder's vectors fit into it: one of your own may have changed their length."""
        table = self.vectors.table()
        if table is None or table.schema.field("vector").type.list_size != self.vectors.embedder.dimensions:
            return None
        return table

    def _own_table(self) -> Table:
        """The table of this embedder, made anew when it is missing or another's."""
        table = self._table()
        if table is None:
            tables = self.vectors.tables
            tables.let_go(VECTORS)
            shutil.rmtree(tables.path / f"{VECTORS}.lance", ignore_errors=True)
            schema = _schema(self.vectors.spec, self.vectors.embedder.dimensions)
            table = lancedb.connect(tables.path, read_consistency_interval=timedelta(0)).create_table(
                VECTORS, schema=schema
            )
            tables.keep(VECTORS, table)
            self._commits = self._trained = None
        if self._commits is None:
            have = {column for index in table.list_indices() for column in index.columns}
            for column in _INDEXED:
                if column not in have:
                    table.create_index(column, config=BTree())
            self._commits = len(list((self.vectors.tables.path / f"{VECTORS}.lance" / "_versions").iterdir()))
        return table

    def _look_after(self, table: Table) -> None:
        """Optimise and index the table; one that is not looked after is slow, not wrong."""
        self._commits = (self._commits or 0) + 1
        try:
            rows = int(table.count_rows())
            if rows >= self.index_rows:
                self._index(table, rows)
            if self._commits >= _FRAGMENTS:
                self.optimize()
        except Exception as error:
            _log.warning("the vectors could not be optimised: %s: %s", type(error).__name__, error)

    def _index(self, table: Table, rows: int) -> None:
        if self._trained is None:
            stats = table.index_stats("vector_idx")
            self._trained = stats.num_indexed_rows if stats else 0
        if rows >= 2 * self._trained:
            # Of the indexes measured it alone loses no neighbour, and it is made in seconds.
            table.create_index("vector", config=IvfFlat(distance_type="cosine"))
            self._trained = rows


def _rows(
    table: Table | None, columns: Sequence[str], keys: Iterable[str], key: str = "row_id"
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if table is not None:
        for chunk in chunked(keys):
            found += table.search().where(is_in(key, chunk)).select(list(columns)).to_arrow().to_pylist()
    return found


def _schema(spec: EmbedderSpec, dimensions: int) -> pa.Schema:
    function = {
        "name": FUNCTION,
        "model": {"spec": spec.model_dump()},
        "source_column": "text",
        "vector_column": "vector",
    }
    return pa.schema(
        [
            pa.field("row_id", pa.string(), nullable=False),
            pa.field("workspace", pa.string(), nullable=False),
            pa.field("text", pa.string(), nullable=False),
            pa.field("digest", pa.string(), nullable=False),
            pa.field("vector", pa.list_(pa.float32(), dimensions), nullable=False),
        ],
        metadata={FORMAT_KEY: str(STORE_FORMAT), METADATA: json.dumps([function])},
    )

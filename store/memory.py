"""Memory: the copy of the record that is searched. It may lag, fail, or be rebuilt at any time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lancedb.query import BooleanQuery, ColumnOrdering, MatchQuery, Occur

from store.arrow import to_arrow
from store.identifiers import find_identifiers
from store.record import Record
from store.schema import Position, TaskRow
from store.sql import chunked, is_in, quote
from store.tables import MemoryRow, Tables
from store.terms import query_terms, row_terms
from store.vectors import Vectors

_TIES = 8
"""Hits asked for beyond the limit (rows): equal scores come in any order, and are put in ours before the cut."""

_MOST_TERMS = 256
"""Terms one query asks for (count): a whole paragraph of Chinese is as many pairs as characters."""

_PART_WORTH = 0.2
"""What a part of a word is worth beside a whole one. On the bug reports of `bench duplicates` a tenth to a fifth
costs nothing, a half costs one twin in thirty."""

_WIDE = 1_000
"""Newest rows that are ranked when an identifier is in more of them than a wave has room for (rows)."""


@dataclass(frozen=True, slots=True)
class ExactRequest:
    """The identifiers of one event: rows of `workspace` that carry any of `keys`."""

    workspace: str
    keys: frozenset[str]


class Memory:
    """Searches by lane, each filtered by workspace inside the search (L9), and the projection itself."""

    def __init__(self, tables: Tables, vectors: Vectors | None = None) -> None:
        self._tables = tables
        self.vectors = vectors
        """The lane of meaning, when an embedder is set."""
        self.projected: Callable[[Iterable[str]], None] = _nobody_listens
        """Told the ids of rows that have changed here."""

    def exact(self, requests: Sequence[ExactRequest], limit: int) -> list[list[str]]:
        """Row ids for each request, up to `limit + 1`: most shared identifiers first, then newest."""
        many = max(1, len(requests)) * (limit + 1) * 2
        rows = self._exact_rows(_any_of(requests), many)
        if len(rows) < many:
            return [_rank(rows, request)[: limit + 1] for request in requests]
        # Somebody's identifier is everywhere: ask one by one, so that it does not use up the others' room.
        alone = (self._exact_rows(_any_of([request]), max(_WIDE, many)) for request in requests)
        return [_rank(rows, request)[: limit + 1] for rows, request in zip(alone, requests, strict=True)]

    def text(self, workspace: str, terms: Iterable[str], limit: int) -> list[str]:
        """Ids of up to `limit + 1` rows by BM25, best first. `terms` are words of any language."""
        query = text_query(terms)
        if query is None:
            return []
        found = (
            self._tables["memory"]
            .search(query, query_type="fts")
            .where(f"workspace = {quote(workspace)}", prefilter=True)
            .select(["row_id", "_score"])
            .limit(limit + 1 + _TIES)
            .to_arrow()
            .to_pylist()
        )
        ordered = sorted(found, key=lambda hit: (-round(hit["_score"], 5), hit["row_id"]))
        return [hit["row_id"] for hit in ordered[: limit + 1]]

    def vector(self, workspace: str, text: str, limit: int) -> list[str]:
        """Ids of up to `limit + 1` rows by likeness of meaning, nearest first; none without an embedder.

        Raises ClassifiedFailure when the text cannot be embedded now.
        """
        return self.vectors.search(workspace, text, limit) if self.vectors else []

    def unembedded(self) -> int:
        """Rows that the vector lane cannot find yet (rows)."""
        return self.vectors.behind() if self.vectors else 0

    def follow(self, record: Record) -> int:
        """Bring memory to where the record is; returns that offset, added up over partitions.

        The position is written last, so that a crash only repeats work.
        """
        positions = record.positions()
        reached = {place.partition: place for place in positions if place.part == "memory"}
        ahead = [
            place
            for place in positions
            if place.part == "record"
            and (place.partition not in reached or reached[place.partition].next_offset < place.next_offset)
        ]
        end = sum(place.next_offset for place in positions if place.part == "record")
        if not ahead:
            return end
        since = {
            place.partition: reached[place.partition].next_offset if place.partition in reached else 0
            for place in ahead
        }
        self.project(record, record.changed_tasks(since))
        followed = [
            place.model_copy(update={"part": "memory", "id": place.id.replace("record:", "memory:", 1)})
            for place in ahead
        ]
        _upsert_positions(self._tables, followed)
        return end

    def project(self, record: Record, row_ids: Iterable[str]) -> None:
        """Make memory say of these tasks what the record says, or nothing when they are not listed."""
        for chunk in chunked(row_ids):
            rows = record.tasks(chunk)
            gone = [row_id for row_id in chunk if row_id not in rows]
            if gone:
                self._tables["memory"].delete(is_in("row_id", gone))
            if rows:
                fresh = to_arrow(MemoryRow, [memory_row(row) for row in rows.values()])
                (
                    self._tables["memory"]
                    .merge_insert("row_id")
                    .when_matched_update_all()
                    .when_not_matched_insert_all()
                    .execute(fresh)
                )
            self.projected(chunk)

    def _exact_rows(self, where: str, limit: int) -> list[MemoryRow]:
        if where == "false":
            return []
        columns = ["row_id", "workspace", "identifiers", "updated"]
        newest = [
            ColumnOrdering(column_name="updated", ascending=False),
            ColumnOrdering(column_name="row_id", ascending=True),
        ]
        query = self._tables["memory"].search().where(where).select(columns).order_by(newest)
        table = query.limit(limit).to_arrow()
        return [MemoryRow(text="", terms="", **row) for row in table.to_pylist()]


def text_query(said: Iterable[str]) -> MatchQuery | BooleanQuery | None:
    """The query for words of any language in the column `terms`; None when there is no word among them."""
    plain, parts = query_terms(said, _MOST_TERMS)
    if not plain:
        return None
    # A string would be parsed as a query language; an object is only words.
    query = MatchQuery(plain, "terms")
    if not parts:
        return query
    in_parts = MatchQuery(parts, "terms", boost=_PART_WORTH)
    return BooleanQuery([(Occur.SHOULD, query), (Occur.SHOULD, in_parts)])


def _nobody_listens(row_ids: Iterable[str]) -> None:
    """Without an embedder nothing follows memory."""


def memory_row(task: TaskRow) -> MemoryRow:
    """What memory keeps of a task."""
    text = f"{task.title}\n{task.body}"
    keys = dict.fromkeys([*(identifier.key for identifier in find_identifiers(text)), *task.identifiers])
    return MemoryRow(
        row_id=task.id,
        workspace=task.workspace,
        text=text,
        terms=row_terms(text),
        identifiers=tuple(keys),
        updated=task.updated,
    )


def _upsert_positions(tables: Tables, positions: Sequence[Position]) -> None:
    table = to_arrow(Position, positions)
    merge = tables["positions"].merge_insert("id")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(table)


def _any_of(requests: Sequence[ExactRequest]) -> str:
    by_workspace: dict[str, set[str]] = {}
    for request in requests:
        if request.keys:
            by_workspace.setdefault(request.workspace, set()).update(request.keys)
    parts = []
    for workspace, keys in by_workspace.items():
        quoted = ", ".join(quote(key) for key in sorted(keys))
        parts.append(f"(workspace = {quote(workspace)} AND array_has_any(identifiers, [{quoted}]))")
    return " OR ".join(parts) or "false"


def _rank(rows: Iterable[MemoryRow], request: ExactRequest) -> list[str]:
    shared = [
        (-len(request.keys.intersection(row.identifiers)), -row.updated.timestamp(), row.row_id)
        for row in rows
        if row.workspace == request.workspace and not request.keys.isdisjoint(row.identifiers)
    ]
    return [row_id for _, _, row_id in sorted(shared)]

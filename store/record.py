"""The record: the truth, read by id, origin, recency and person. Reads only; `store/commit.py` writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import pyarrow as pa
from lancedb.query import ColumnOrdering

from store.arrow import from_arrow
from store.schema import (
    Change,
    DecisionRow,
    EventRow,
    Frozen,
    PersonRow,
    Position,
    SessionEntry,
    TaskRow,
    TaskState,
)
from store.sql import chunked, is_in, quote
from store.tables import Tables

_Row = TypeVar("_Row", bound=Frozen)
Thread = tuple[str, str]
"""Workspace and thread: where a row comes from."""


@dataclass(frozen=True, slots=True)
class TaskStub:
    """As much of a task as it takes to choose which ones to read."""

    id: str
    thread: str
    state: TaskState
    updated: datetime
    people: frozenset[str]
    """Requester, assignees and participants."""

    @property
    def newest_first(self) -> tuple[float, str]:
        """Sort key: by last activity, ties by id so that two runs agree."""
        return (-self.updated.timestamp(), self.id)


_STUB_COLUMNS = ["id", "workspace", "thread", "state", "updated", "requester", "assignees", "participants"]


class Record:
    """Reads of the record. Every one takes many keys, because one `IN` costs little more than one key."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._recent_since: dict[str, datetime] = {}

    def tasks(self, ids: Iterable[str]) -> dict[str, TaskRow]:
        """Tasks by id; those that are not listed (deleted, or never created) are absent."""
        return {row.id: row for row in self._by_keys("tasks", TaskRow, "id", ids)}

    def people(self, ids: Iterable[str]) -> dict[str, PersonRow]:
        """People by id."""
        return {row.id: row for row in self._by_keys("people", PersonRow, "id", ids)}

    def people_called(self, workspace: str, name: str) -> list[PersonRow]:
        """People of a workspace who have this name, as it is written, or this id."""
        where = f"workspace = {quote(workspace)} AND (array_has(names, {quote(name)}) OR id = {quote(name)})"
        return self._rows("people", PersonRow, where)

    def events(self, ids: Iterable[str]) -> dict[str, EventRow]:
        """Events by uid, decided or parked."""
        return {row.id: row for row in self._by_keys("events", EventRow, "id", ids)}

    def changes(self, row_ids: Iterable[str]) -> dict[str, list[Change]]:
        """All changes of rows, by row id."""
        grouped: defaultdict[str, list[Change]] = defaultdict(list)
        for change in self._by_keys("changes", Change, "row_id", row_ids):
            grouped[change.row_id].append(change)
        return dict(grouped)

    def changed_tasks(self, positions: Mapping[int, int]) -> set[str]:
        """Ids of tasks changed by messages at or after these offsets, by partition."""
        found: set[str] = set()
        for partition, offset in positions.items():
            # The offsets are numbers of ours, not text of anybody's.
            where = f"partition = {int(partition)} AND position >= {int(offset)} AND table = 'tasks'"
            table = self._tables["changes"].search().where(where).select(["row_id"]).to_arrow()
            found.update(table["row_id"].to_pylist())
        return found

    def entries(self, ids: Iterable[str]) -> dict[str, SessionEntry]:
        """Session entries by id."""
        return {entry.id: entry for entry in self._by_keys("sessions", SessionEntry, "id", ids)}

    def decisions(self, decision_ids: Iterable[str]) -> list[DecisionRow]:
        """Decisions by id, dropped ones too."""
        return self._by_keys("decisions", DecisionRow, "decision", decision_ids)

    def standing_offsets(self, decision_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Where the standing decision of each id was read: partition and offset."""
        found: dict[str, tuple[int, int]] = {}
        for chunk in chunked(decision_ids):
            where = f"stands AND {is_in('decision', chunk)}"
            columns = ["decision", "partition", "position"]
            table = self._tables["decisions"].search().where(where).select(columns).to_arrow()
            for row in table.to_pylist():
                found[row["decision"]] = (row["partition"], row["position"])
        return found

    def thread_tasks(self, threads: Iterable[Thread]) -> dict[Thread, list[TaskStub]]:
        """Stubs of all tasks that come from these threads (R34, R35), newest first."""
        by_workspace: defaultdict[str, list[str]] = defaultdict(list)
        for workspace, thread in threads:
            by_workspace[workspace].append(thread)
        found: defaultdict[Thread, list[TaskStub]] = defaultdict(list)
        for workspace, names in by_workspace.items():
            for chunk in chunked(names):
                where = f"workspace = {quote(workspace)} AND {is_in('thread', chunk)}"
                for stub in _stubs(self._tables["tasks"].search().where(where).select(_STUB_COLUMNS).to_arrow()):
                    found[workspace, stub.thread].append(stub)
        return {thread: sorted(stubs, key=lambda s: s.newest_first) for thread, stubs in found.items()}

    def rows_of_messages(self, messages: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, ...]]:
        """Tasks that messages have touched, by workspace and the id that their source gave them, in any thread."""
        by_workspace: defaultdict[str, list[str]] = defaultdict(list)
        for workspace, message in messages:
            by_workspace[workspace].append(message)
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        for workspace, ids in by_workspace.items():
            for chunk in chunked(ids):
                where = f"workspace = {quote(workspace)} AND {is_in('source_id', chunk)}"
                table = self._tables["events"].search().where(where).select(["source_id", "rows"]).to_arrow()
                for row in table.to_pylist():
                    found[workspace, row["source_id"]] += row["rows"]
        return {message: tuple(dict.fromkeys(rows)) for message, rows in found.items()}

    def recent_tasks(self, workspace: str, limit: int) -> list[TaskStub]:
        """Stubs of the `limit` tasks of a workspace with the latest activity, newest first (R26).

        Starts from the oldest activity it returned last time: that only ever moves on, so an index answers it,
        however many tasks there are. Only when rows went away is the whole workspace ordered again.
        """
        mine = f"workspace = {quote(workspace)}"
        since = self._recent_since.get(workspace)
        if since is not None:
            where = f"{mine} AND updated >= timestamp '{since.isoformat(sep=' ')}'"
            found = _stubs(self._tables["tasks"].search().where(where).select(_STUB_COLUMNS).to_arrow())
            if len(found) >= limit:
                return self._remember(workspace, found, limit)
        newest = [
            ColumnOrdering(column_name="updated", ascending=False),
            ColumnOrdering(column_name="id", ascending=True),
        ]
        query = self._tables["tasks"].search().where(mine).select(_STUB_COLUMNS)
        return self._remember(workspace, _stubs(query.order_by(newest).limit(limit).to_arrow()), limit)

    def summaries(self, threads: Iterable[Thread]) -> dict[Thread, SessionEntry]:
        """The newest summary entry of each thread that has one."""
        wanted = set(threads)
        newest: dict[Thread, SessionEntry] = {}
        for chunk in chunked(thread for _, thread in wanted):
            where = f"kind = 'summary' AND {is_in('thread', chunk)}"
            for entry in self._rows("sessions", SessionEntry, where):
                thread = (entry.workspace, entry.thread)
                if thread in wanted and (thread not in newest or newest[thread].position < entry.position):
                    newest[thread] = entry
        return newest

    def leaves(self, threads: Iterable[Thread]) -> dict[Thread, str]:
        """Id of the current leaf of each session that has one."""
        wanted = set(threads)
        leaf: dict[Thread, tuple[int, str]] = {}
        for chunk in chunked(thread for _, thread in wanted):
            columns = ["id", "workspace", "thread", "position"]
            where = is_in("thread", chunk)
            for row in self._tables["sessions"].search().where(where).select(columns).to_arrow().to_pylist():
                thread = (row["workspace"], row["thread"])
                leaf[thread] = max(leaf.get(thread, (-1, "")), (row["position"], row["id"]))
        return {thread: leaf[thread][1] for thread in leaf if thread in wanted}

    def positions(self) -> list[Position]:
        """How far each part of the store has followed its topic."""
        return self._rows("positions", Position, None)

    def count(self, table: str, where: str | None = None) -> int:
        """Rows of a table; `where` is a filter of ours, never text of an event."""
        return int(self._tables[table].count_rows(where))

    def listed(self, table: str, model: type[_Row], *, newest: str, limit: int, **equal: str | None) -> list[_Row]:
        """Rows for a page: where the given columns equal (None is any value), newest first."""
        parts = [f"{column} = {quote(value)}" for column, value in equal.items() if value is not None]
        order = [
            ColumnOrdering(column_name=newest, ascending=False),
            ColumnOrdering(column_name="id", ascending=True),
        ]
        query = self._tables[table].search().where(" AND ".join(parts) or "true").order_by(order).limit(limit)
        return from_arrow(model, query.to_arrow())

    def starting_with(self, table: str, column: str, prefix: str) -> list[str]:
        """The distinct values of an id column that begin with `prefix`, in order."""
        where = f"starts_with({column}, {quote(prefix)})"
        found = self._tables[table].search().where(where).select([column]).to_arrow()
        return sorted(set(found[column].to_pylist()))

    def arrow(self, table: str) -> pa.Table:
        """A whole table as Arrow, ordered by id: for notebooks, audits and comparisons."""
        return self._tables[table].to_arrow().sort_by("id")

    def _remember(self, workspace: str, found: list[TaskStub], limit: int) -> list[TaskStub]:
        newest = sorted(found, key=lambda stub: stub.newest_first)[:limit]
        if len(newest) == limit:
            self._recent_since[workspace] = newest[-1].updated
        else:
            self._recent_since.pop(workspace, None)
        return newest

    def _by_keys(self, table: str, model: type[_Row], column: str, keys: Iterable[str]) -> list[_Row]:
        return [row for chunk in chunked(keys) for row in self._rows(table, model, is_in(column, chunk))]

    def _rows(self, table: str, model: type[_Row], where: str | None) -> list[_Row]:
        query = self._tables[table].search()
        if where is not None:
            query = query.where(where)
        names: Sequence[str] = list(model.model_fields)
        return from_arrow(model, query.select(names).to_arrow())


def _stubs(table: pa.Table) -> list[TaskStub]:
    return [
        TaskStub(
            id=row["id"],
            thread=row["thread"],
            state=row["state"],
            updated=row["updated"],
            people=frozenset(filter(None, [row["requester"], *row["assignees"], *row["participants"]])),
        )
        for row in table.to_pylist()
    ]

"""The record as it was: rows folded from the changes up to a moment, of event time, of arrival, or of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from lancedb.query import ColumnOrdering

from store.arrow import from_arrow, to_arrow
from store.merge import fold_person, fold_task
from store.record import Record
from store.schema import Action, Change, EventRow, Frozen, PersonRow, TaskRow, UsageError, Version
from store.schema.base import to_utc
from store.schema.change import TableName
from store.sql import IN_KEYS, chunked, is_in, quote
from store.tables import Tables

RowTable = Literal["tasks", "people", "events"]
"""The tables that have a past."""

_Row = TypeVar("_Row", bound=Frozen)
_Folded = TypeVar("_Folded", TaskRow, PersonRow)

_COLUMNS: Final = (
    *("row_id", "workspace", "field", "action", "value"),
    *("version.at", "version.seq", "version.operation", "arrived"),
)
"""What it takes to fold a change: a version comes in pieces, which read much faster than a struct."""
_FEW: Final = 4 * IN_KEYS
"""Rows up to which their changes are read by row; beyond, all changes are gone through once (count)."""
_AT_ONCE: Final = 20_000
"""Changes that are values of Python at one time (count)."""


class Reads(Protocol):
    """The reads that a record and its past have in common: enough for a page."""

    def tasks(self, ids: Iterable[str]) -> dict[str, TaskRow]:
        """Tasks by id; those that are not listed are absent."""

    def people(self, ids: Iterable[str]) -> dict[str, PersonRow]:
        """People by id."""

    def events(self, ids: Iterable[str]) -> dict[str, EventRow]:
        """Events by uid."""

    def changes(self, row_ids: Iterable[str]) -> dict[str, list[Change]]:
        """Changes of rows, by row id."""

    def listed(self, table: str, model: type[_Row], *, newest: str, limit: int, **equal: str | None) -> list[_Row]:
        """Rows where the given columns equal (None is any value), newest first, ties by id."""


@dataclass(frozen=True, slots=True)
class Past:
    """The rows as they were at a moment: folded from the changes within it, by the same merge as the record's.

    `as_of` is event time: nothing that happened later is there, whenever it became known (U10). `known_at` is
    arrival: nothing that arrived later is there, whatever time it tells of. Given both, a change must be within
    both; None is no bound. A moment itself is within.

    What a person does happens when it arrives. Everything that follows from an event arrives with the event,
    however long it took to judge it, so that `known_at` tells what had been said and not how fast the judge was.
    A row whose create is not within is not listed. An event has the outcome of its Decision; second Decisions of
    an event, which are dropped, have made no change. Of an event that was parked, brought back and then decided,
    the record keeps the Decision alone, and so does its past: it is there from the arrival that was decided.
    """

    tables: Tables
    record: Record
    as_of: datetime | None = None
    known_at: datetime | None = None

    @classmethod
    def of(cls, tables: Tables, record: Record, as_of: datetime | None, known_at: datetime | None) -> Past:
        """The past of a record; raises UsageError for a time without a zone, or outside of all years in UTC."""
        return cls(tables, record, _in_utc("as_of", as_of), _in_utc("known_at", known_at))

    def tasks(self, ids: Iterable[str] | None = None) -> dict[str, TaskRow]:
        """Tasks by id, in the order of ids; all of them unless some are named. Those not listed are absent."""
        if ids is None:
            return {row.id: row for row in from_arrow(TaskRow, self.arrow("tasks"))}
        changes = (each for columns in self._columns("tasks", set(ids)) for each in _made("tasks", columns))
        return _folded(changes, fold_task)

    def people(self, ids: Iterable[str] | None = None) -> dict[str, PersonRow]:
        """People by id, in the order of ids; all of them unless some are named."""
        found = self._columns("people", None if ids is None else set(ids))
        changes = (each for columns in found for each in _made("people", _telling(columns)))
        return _folded(changes, lambda mine: fold_person(None, mine))

    def events(self, ids: Iterable[str] | None = None) -> dict[str, EventRow]:
        """Events by uid, in the order of uids, decided or parked; all of them unless some are named."""
        if ids is None:
            return {row.id: row for row in from_arrow(EventRow, self.arrow("events"))}
        found = self.record.events(ids)
        return {uid: found[uid] for uid in sorted(found) if self.covers(found[uid].at, found[uid].arrived)}

    def changes(self, row_ids: Iterable[str]) -> dict[str, list[Change]]:
        """The changes of rows that are within the moment, by row id."""
        found = {
            row_id: [change for change in changes if self.covers(change.version.at, change.arrived)]
            for row_id, changes in self.record.changes(row_ids).items()
        }
        return {row_id: changes for row_id, changes in found.items() if changes}

    def listed(self, table: str, model: type[_Row], *, newest: str, limit: int, **equal: str | None) -> list[_Row]:
        """Rows for a page: where the given columns equal (None is any value), newest first, ties by id."""
        asked = {column: value for column, value in equal.items() if value is not None}
        match table:
            case "tasks":
                rows = _only(model, self._listed_tasks(newest, limit, asked))
            case "people":
                rows = _only(model, _chosen(self.people().values(), asked))
            case _:
                rows = _only(model, self._listed_events(newest, limit, asked))
        return _newest_first(rows, newest)[:limit]

    def arrow(self, table: RowTable) -> pa.Table:
        """A whole table as it was, ordered by id, in the schema of the record's: for notebooks and comparisons.

        Raises UsageError for a table that has no past.
        """
        match table:
            case "tasks":
                return self._all_tasks()
            case "people":
                return to_arrow(PersonRow, list(self.people().values()))
            case "events":
                return self._search("events", self._within("at", "arrived")).to_arrow().sort_by("id")
        raise UsageError(f"There is no past of {table!r}; there is one of tasks, people and events.")

    def covers(self, happened: datetime, arrived: datetime) -> bool:
        """Whether what happened and arrived at these times is within the moment."""
        return (self.as_of is None or happened <= self.as_of) and (
            self.known_at is None or arrived <= self.known_at
        )

    def _all_tasks(self) -> pa.Table:
        """What nothing has touched since is as the record has it; only the rest is folded anew."""
        # The rows first: a run that goes on meanwhile writes changes before rows, so that whatever has touched
        # one of these rows is among the changes that are read after them.
        rows = self.record.arrow("tasks")
        outside = f"table = 'tasks' AND NOT ({self._within('version.at', 'arrived')})"
        touched = self._search("changes", outside, "row_id").to_arrow()["row_id"].unique()
        kept = rows.filter(pc.invert(pc.is_in(rows["id"], value_set=touched)))
        folded = self.tasks(touched.to_pylist())
        return pa.concat_tables([kept, to_arrow(TaskRow, list(folded.values()))]).sort_by("id")

    def _listed_tasks(self, newest: str, limit: int, asked: Mapping[str, str]) -> list[TaskRow]:
        """Folds hardly more tasks than it takes to know the newest ones."""
        if newest != "updated" or limit > _FEW:
            return _chosen(self.tasks().values(), asked)
        found: list[TaskRow] = []
        for ids in chunked(self._newest_tasks(asked), min(IN_KEYS, 2 * limit)):
            found += _chosen(self.tasks(ids).values(), asked)
            if len(found) >= limit:
                break
        return found

    def _newest_tasks(self, asked: Mapping[str, str]) -> list[str]:
        """Ids of the tasks that may be asked for, by their last change, as a page orders them.

        That change has made the row what it is: what a tombstone has absorbed is followed by a restore, or the
        row is not listed.
        """
        within = f"table = 'tasks' AND {self._within('version.at', 'arrived')}"
        created = f"{within} AND action = 'create'"
        if "workspace" in asked:
            created += f" AND workspace = {quote(asked['workspace'])}"
        sets = [
            # A field that has a value was set to it at some time.
            f"{within} AND action = 'set' AND field = {quote(field)} AND value = {quote(value)}"
            for field, value in asked.items()
            if field != "workspace"
        ]
        changes = self._search("changes", within, "row_id", "version.at").to_arrow()
        for where in (created, *sets):
            ids = self._search("changes", where, "row_id").to_arrow()["row_id"].unique()
            changes = changes.filter(pc.is_in(changes["row_id"], value_set=ids))
        last = changes.group_by("row_id").aggregate([("version.at", "max")])
        order = [("version.at_max", "descending"), ("row_id", "ascending")]
        return list(last.sort_by(order)["row_id"].to_pylist())

    def _listed_events(self, newest: str, limit: int, asked: Mapping[str, str]) -> list[EventRow]:
        equal = [f"{column} = {quote(value)}" for column, value in asked.items()]
        where = " AND ".join([self._within("at", "arrived"), *equal])
        order = [
            ColumnOrdering(column_name=newest, ascending=False),
            ColumnOrdering(column_name="id", ascending=True),
        ]
        return from_arrow(EventRow, self._search("events", where).order_by(order).limit(limit).to_arrow())

    def _columns(self, table: TableName, ids: set[str] | None) -> Iterator[pa.Table]:
        """What it takes to fold rows, all or those that are named; all changes of a row are in one piece."""
        where = f"table = {quote(table)} AND {self._within('version.at', 'arrived')}"
        if ids is not None and len(ids) <= _FEW:
            for chunk in chunked(sorted(ids)):
                yield self._search("changes", f"{is_in('row_id', chunk)} AND {where}", *_COLUMNS).to_arrow()
            return
        found = self._search("changes", where, *_COLUMNS).to_arrow()
        yield found if ids is None else found.filter(pc.is_in(found["row_id"], value_set=pa.array(sorted(ids))))

    def _within(self, happened: str, arrived: str) -> str:
        """The filter of what is within, over the columns of event time and of arrival."""
        # Times are values of ours, not text of anybody's.
        bounds = ((happened, self.as_of), (arrived, self.known_at))
        parts = [f"{column} <= timestamp '{at.isoformat(sep=' ')}'" for column, at in bounds if at]
        return " AND ".join(parts) or "true"

    def _search(self, table: str, where: str, *columns: str) -> Any:
        query = self.tables[table].search().where(where)
        return query.select(list(columns)) if columns else query


def _in_utc(name: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    if moment.tzinfo is None:
        raise UsageError(f"{name} {moment.isoformat(sep=' ')} has no zone; give one, such as tzinfo=UTC.")
    try:
        return to_utc(moment)
    except ValueError as error:
        raise UsageError(f"{name} {moment.isoformat(sep=' ')} cannot be used: {error}.") from error


def _telling(changes: pa.Table) -> pa.Table:
    """Of the changes of people those that decide: a busy person has some for every message, most say nothing new.

    Of a union each value once; of a minimum and a maximum, which are times of their versions, the two ends.
    """
    ordered = changes.sort_by("version.at")
    ordered = ordered.append_column("place", pa.array(range(len(ordered)), pa.int64()))
    grows = pc.equal(ordered["action"], Action.UNION.value)
    values = ordered.filter(grows).group_by(["row_id", "field", "value"]).aggregate([("place", "min")])
    ends = ordered.filter(pc.invert(grows)).group_by(["row_id", "field"])
    ends = ends.aggregate([("place", "min"), ("place", "max")])
    places = [*values["place_min"].chunks, *ends["place_min"].chunks, *ends["place_max"].chunks]
    return ordered.take(pa.chunked_array(places, pa.int64())).drop_columns("place")


def _made(table: TableName, columns: pa.Table) -> Iterator[Change]:
    """Changes in the order of their rows, so many at a time, made of values that were validated long ago."""
    # Large strings: an Arrow column of plain ones cannot be put into order when it is over 2 GB.
    values = columns["value"].cast(pa.large_string())
    ordered = columns.set_column(columns.schema.get_field_index("value"), "value", values).sort_by("row_id")
    actions = {action.value: action for action in Action}
    version = Version(at=datetime.min.replace(tzinfo=UTC), seq=0, operation="")
    for batch in ordered.to_batches(max_chunksize=_AT_ONCE):
        pieces = (batch.column(name).to_pylist() for name in _COLUMNS)
        for row_id, workspace, field, action, value, at, seq, operation, arrived in zip(*pieces, strict=True):
            # All changes of one operation have one version, and stand side by side.
            if (operation, seq, at) != (version.operation, version.seq, version.at):
                version = Version.model_construct(at=at, seq=seq, operation=operation)
            yield Change.model_construct(
                table=table,
                row_id=row_id,
                workspace=workspace,
                field=field,
                action=actions[action],
                value=value,
                version=version,
                arrived=arrived,
            )


def _folded(changes: Iterable[Change], fold: Callable[[list[Change]], _Folded | None]) -> dict[str, _Folded]:
    rows = ((row_id, fold(list(mine))) for row_id, mine in groupby(changes, key=attrgetter("row_id")))
    return {row_id: row for row_id, row in rows if row}


def _chosen(rows: Iterable[_Folded], asked: Mapping[str, str]) -> list[_Folded]:
    return [row for row in rows if all(getattr(row, column) == value for column, value in asked.items())]


def _only(model: type[_Row], rows: Iterable[Frozen]) -> list[_Row]:
    return [row for row in rows if isinstance(row, model)]


def _newest_first(rows: Iterable[_Row], newest: str) -> list[_Row]:
    """Ties by id, as the database orders a page."""
    return sorted(sorted(rows, key=attrgetter("id")), key=attrgetter(newest), reverse=True)

"""The rows of a store held against each other: nothing twice, nothing missing, each what its changes amount to.

Columns are compared as Arrow holds them; only a sample is made into models. A run may be going on: rows that a
message at or after the record's position has touched are left out, for they are being written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from flows.diagnosis import Check, checked
from flows.steps import Progress
from store import Store
from store.memory import memory_row
from store.merge import fold_task
from store.schema import TaskRow
from store.sql import chunked, is_in
from store.tables import MEMORY, RECORD, MemoryRow

SAMPLE: Final = 2_000
"""Rows that are folded again from their changes; the rest is compared by its ids (rows)."""

EVENT_COLUMNS: Final = ("id", "seq", "decision")
DECISION_COLUMNS: Final = ("decision", "event", "position", "stands")

STORE: Final = "`lookfirst rebuild store`"
SEARCHED: Final = "`lookfirst rebuild memory`"


@dataclass(frozen=True, slots=True)
class Audited:
    """The part of a store that is not being written."""

    store: Store
    applied: int
    """The record's position when the look began (offset)."""
    followed: int
    """Memory's."""
    events: pa.Table
    """`EVENT_COLUMNS` of the event rows, read before the decisions."""
    decisions: pa.Table
    """`DECISION_COLUMNS` of the decision rows."""


def audit(seen: Audited, progress: Progress) -> Iterator[Check]:
    """All checks of the rows, one after the other."""
    checks = (_unique, _standing, _decided, _listed, _folded, _remembered)
    for number, check in enumerate(checks):
        progress("tables", number, len(checks))
        yield check(seen)
    progress("tables", len(checks), len(checks))


def _unique(seen: Audited) -> Check:
    twice: dict[str, int] = {}
    for name, spec in {**RECORD, **MEMORY}.items():
        column = _column(seen.store, name, spec.key)
        if surplus := len(column) - pc.count_distinct(column).as_py():
            twice[name] = surplus
    if not twice:
        return _ok("unique rows", "No id stands twice in any table.")
    where = ", ".join(f"{count:,} in {name}" for name, count in twice.items())
    remedy = SEARCHED if set(twice) <= set(MEMORY) else STORE
    return _wrong("unique rows", f"Ids stand twice: {where}.", remedy)


def _standing(seen: Audited) -> Check:
    standing = seen.decisions.filter(seen.decisions["stands"])
    count, events = standing.num_rows, pc.count_distinct(standing["event"]).as_py()
    if count == events:
        return _ok("one decision", f"Each of {events:,} decided events has exactly one standing Decision.")
    return _wrong("one decision", f"{count - events:,} standing Decisions are second ones of their event.", STORE)


def _decided(seen: Audited) -> Check:
    decided = seen.events.filter(pc.is_valid(seen.events["decision"]))
    standing = seen.decisions.filter(seen.decisions["stands"])
    made = pc.binary_join_element_wise(decided["id"], decided["decision"], "/")
    kept = pc.binary_join_element_wise(standing["event"], standing["decision"], "/")
    without = _outside(made, kept)
    # An event row is written after its Decision: of those that are being written it may be missing.
    settled = standing.filter(pc.less(standing["position"], seen.applied))
    lost = _outside(settled["event"], decided["id"])
    if not without and not lost:
        return _ok("events and decisions", "Every decided event row has its Decision, and every Decision its row.")
    return _wrong(
        "events and decisions",
        f"{without:,} decided event rows have no standing Decision, and {lost:,} Decisions no event row.",
        STORE,
    )


def _listed(seen: Audited) -> Check:
    """Tasks against the ids of their changes: created and never deleted is listed, never created is not."""
    listed = _column(seen.store, "tasks", "id")
    created = _changed(seen.store, "action = 'create'")
    deleted = _changed(seen.store, "action = 'delete'")["row_id"]
    settled = created.filter(pc.less(created["position"], seen.applied))["row_id"]
    expected = settled.filter(pc.invert(pc.is_in(settled, value_set=_values(deleted))))
    missing, strange = _outside(expected, listed), _outside(listed, created["row_id"])
    if not missing and not strange:
        return _ok("tasks listed", f"The {len(listed):,} tasks are those that were created and not deleted.")
    return _wrong(
        "tasks listed",
        f"{missing:,} tasks that were created are not listed, and {strange:,} are listed that were not created.",
        STORE,
    )


def _folded(seen: Audited) -> Check:
    ids = _column(seen.store, "tasks", "id").to_pylist()
    sample = sorted(ids)[:: max(1, len(ids) // SAMPLE)][:SAMPLE]
    sample += _changed(seen.store, "action = 'delete'")["row_id"].unique().to_pylist()[:SAMPLE]
    record = seen.store.record
    rows, changes = record.tasks(sample), record.changes(sample)
    moving = record.changed_tasks({0: seen.applied})
    unlike = [
        row_id
        for row_id in dict.fromkeys(sample)
        if row_id not in moving and rows.get(row_id) != fold_task(changes.get(row_id, ()))
    ]
    how_many = "all" if len(sample) >= len(ids) else f"a sample of {len(sample):,}"
    if not unlike:
        return _ok("tasks folded", f"Tasks ({how_many}) are what their changes amount to.")
    named = ", ".join(unlike[:3])
    return _wrong("tasks folded", f"{len(unlike):,} tasks ({named}) are not what their changes amount to.", STORE)


def _remembered(seen: Audited) -> Check:
    """Memory against the record, but for tasks that changed since memory's position."""
    copies = dict(_copies(seen.store))
    rows = dict(_originals(seen.store))
    moving = seen.store.record.changed_tasks({0: seen.followed})
    missing = sum(row_id not in copies and row_id not in moving for row_id in rows)
    strange = sum(row_id not in rows and row_id not in moving for row_id in copies)
    other = [row_id for row_id in rows.keys() & copies.keys() - moving if rows[row_id] != copies[row_id]]
    tasks = seen.store.record.tasks(sorted(rows.keys() & copies.keys() - moving)[:SAMPLE])
    other += [row_id for row_id in _unlike(seen.store, tasks) if row_id not in other]
    if not (missing or strange or other):
        return _ok("memory", f"Memory says of {len(copies):,} tasks what the record says.")
    return _wrong(
        "memory",
        f"Memory lacks {missing:,} tasks, has {strange:,} that are not listed, and says other things of "
        f"{len(other):,}.",
        SEARCHED,
    )


def _unlike(store: Store, tasks: Mapping[str, TaskRow]) -> Iterator[str]:
    for chunk in chunked(tasks):
        found = store.tables["memory"].search().where(is_in("row_id", chunk)).to_arrow()
        for row in found.select(list(MemoryRow.model_fields)).to_pylist():
            if MemoryRow.model_validate(row) != memory_row(tasks[row["row_id"]]):
                yield row["row_id"]


def _copies(store: Store) -> Iterator[tuple[str, int]]:
    for row_id, workspace, text, updated in _rows(store, "memory", ("row_id", "workspace", "text", "updated")):
        yield row_id, hash((workspace, text, updated))


def _originals(store: Store) -> Iterator[tuple[str, int]]:
    for row_id, workspace, title, body, updated in _rows(
        store, "tasks", ("id", "workspace", "title", "body", "updated")
    ):
        yield row_id, hash((workspace, f"{title}\n{body}", updated))


def _rows(store: Store, table: str, columns: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Rows as plain values, read a batch at a time: whole texts of a million rows are more than one need hold."""
    for batch in store.tables[table].search().select(list(columns)).to_batches():
        yield from zip(*(batch.column(column).to_pylist() for column in columns), strict=True)


def _column(store: Store, table: str, column: str) -> pa.ChunkedArray:
    return store.tables[table].search().select([column]).to_arrow()[column]


def _changed(store: Store, where: str) -> pa.Table:
    query = store.tables["changes"].search().where(f"table = 'tasks' AND {where}")
    return query.select(["row_id", "position"]).to_arrow()


def _values(column: pa.ChunkedArray) -> pa.Array:
    return pa.array(column.unique()) if isinstance(column, pa.ChunkedArray) else column


def _outside(found: pa.ChunkedArray, allowed: pa.ChunkedArray) -> int:
    """Values of `found` that are not among the allowed (count)."""
    return len(found) - int(pc.sum(pc.is_in(found, value_set=_values(allowed))).as_py() or 0)


def _ok(name: str, said: str) -> Check:
    return checked(name, "ok", said)


def _wrong(name: str, said: str, remedy: str) -> Check:
    return checked(name, "wrong", said, remedy)

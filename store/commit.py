"""The only writer of the store: messages of the operations topic in, one commit an epoch out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from store.arrow import arrow_schema, to_arrow
from store.derive import Applied, Derived, decision_row, derive
from store.memory import Memory
from store.merge import fold_person, fold_task
from store.record import Record, Thread
from store.schema import (
    Change,
    Coordinates,
    Decision,
    EventRow,
    Frozen,
    Position,
    SessionEntry,
    StoreError,
    TaskRow,
    Version,
)
from store.schema.change import ChangeRow, change_id
from store.schema.failpoint import reach
from store.sql import chunked, is_in
from store.tables import RECORD, Tables, cause_of
from store.upkeep import Upkeep


@dataclass(frozen=True, slots=True)
class CommitReport:
    """What one commit did."""

    messages: int = 0
    decided: int = 0
    dropped: int = 0
    """Second decisions of an identity, dropped whole."""
    repeated: int = 0
    """Messages that had been applied before."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A batch sorted by the rule that the first decision of an identity wins."""

    fresh: tuple[Applied, ...] = ()
    dropped: tuple[Applied, ...] = ()
    repeated: tuple[Applied, ...] = ()


def first_wins(batch: Iterable[Applied], known: Mapping[str, tuple[int, int]]) -> Standing:
    """Sort out second decisions: of two with one identity the lower offset stands, the other goes whole.

    `known` holds, by decision id, where the decision that stands already was read (partition, offset).
    Messages that are no Decision are fresh always: their ids make them idempotent.
    """
    standing = dict(known)
    fresh: list[Applied] = []
    dropped: list[Applied] = []
    repeated: list[Applied] = []
    for applied in batch:
        message, here = applied.message, (applied.coordinates.partition, applied.coordinates.offset)
        if not isinstance(message, Decision):
            fresh.append(applied)
        elif standing.setdefault(message.id, here) != here:
            dropped.append(applied)
        elif message.id in known:
            repeated.append(applied)
        else:
            fresh.append(applied)
    return Standing(tuple(fresh), tuple(dropped), tuple(repeated))


@dataclass(slots=True)
class StoreWriter:
    """Applies messages in batches. There is one of it for a store, behind the store's lock."""

    tables: Tables
    record: Record
    memory: Memory
    upkeep: Upkeep

    def commit(self, batch: Sequence[Applied], positions: Sequence[Position]) -> CommitReport:
        """Apply a batch of one or more epochs, in the order of its offsets, as one commit.

        Tables are written in a fixed order: changes, tasks, people, sessions, decisions, events, and last the
        applied positions. Wherever it is interrupted, applying the same messages again gives the same rows.

        Raises StoreError when the database cannot, as on a full disk.
        """
        try:
            return self._commit(batch, positions)
        except (OSError, RuntimeError) as error:
            raise StoreError(
                f"The store in {self.tables.path} cannot be written: {cause_of(error)}; free some space, or check "
                "its permissions, and run again: nothing is lost."
            ) from error

    def _commit(self, batch: Sequence[Applied], positions: Sequence[Position]) -> CommitReport:
        batch = list({(a.coordinates.partition, a.coordinates.offset): a for a in batch}.values())
        decisions = [a.message.id for a in batch if isinstance(a.message, Decision)]
        standing = first_wins(batch, self._known(decisions))
        derived = [(applied, derive(applied)) for applied in standing.fresh]
        self._write_changes(derived)
        changes = [change for _, result in derived for change in result.changes]
        self._write_tasks(change.row_id for change in changes if change.table == "tasks")
        self._write_people([change for change in changes if change.table == "people"])
        self._write_entries([result.entry for _, result in derived if result.entry])
        kept = [result.decision for _, result in derived if result.decision]
        for applied in standing.dropped:
            assert isinstance(applied.message, Decision)  # noqa: S101  only decisions are dropped
            kept.append(decision_row(applied, applied.message, stands=False))
        self._upsert("decisions", kept)
        self._write_events(derived)
        self._upsert("positions", positions)
        return CommitReport(
            messages=len(batch),
            decided=sum(1 for _, result in derived if result.decision),
            dropped=len(standing.dropped),
            repeated=len(standing.repeated),
        )

    def follow(self) -> int:
        """Let memory follow the record; returns the offset it has reached, added up over partitions."""
        reach("commit.memory.before")
        reached = self.memory.follow(self.record)
        reach("commit.memory.after")
        self.upkeep.wrote("memory")
        return reached

    def _known(self, decisions: Iterable[str]) -> dict[str, tuple[int, int]]:
        standing = self.record.standing_offsets(decisions)
        if not standing:
            return {}
        # The event row is written after the decision row: without it the commit was cut short, and the
        # decision counts as not applied yet.
        rows = self.record.decisions(standing)
        events = self.record.events(row.event for row in rows)
        finished = {row.decision for row in rows if (event := events.get(row.event)) and event.decision}
        return {decision: place for decision, place in standing.items() if decision in finished}

    def _write_changes(self, derived: Sequence[tuple[Applied, Derived]]) -> None:
        # Most of what is written: straight to Arrow, without a model of each in between.
        rows: dict[str, dict[str, object]] = {}
        for applied, result in derived:
            for change in result.changes:
                rows.setdefault(change_id(change), _change_row(change, applied.coordinates))
        if rows:
            table = pa.Table.from_pylist(
                [{"id": row_id, **row} for row_id, row in rows.items()], schema=arrow_schema(ChangeRow)
            )
            self._execute("changes", self.tables["changes"].merge_insert("id"), table)

    def _write_tasks(self, row_ids: Iterable[str]) -> None:
        touched = list(dict.fromkeys(row_ids))
        history = self.record.changes(touched)
        folded = {row_id: fold_task(history[row_id]) for row_id in touched}
        rows: list[TaskRow] = [row for row in folded.values() if row]
        self._upsert("tasks", rows)
        for gone in chunked(row_id for row_id, row in folded.items() if row is None):
            self.tables["tasks"].delete(is_in("id", gone))

    def _write_people(self, changes: Sequence[Change]) -> None:
        grouped: defaultdict[str, list[Change]] = defaultdict(list)
        for change in changes:
            grouped[change.row_id].append(change)
        before = self.record.people(grouped)
        after = {row_id: fold_person(before.get(row_id), found) for row_id, found in grouped.items()}
        self._upsert("people", [row for row_id, row in after.items() if row and row != before.get(row_id)])

    def _write_entries(self, entries: Sequence[SessionEntry]) -> None:
        """Append to the sessions: the parent of an entry is the leaf it finds."""
        leaves = self.record.leaves((entry.workspace, entry.thread) for entry in entries)
        known = self.record.entries(entry.id for entry in entries)
        appended: dict[str, SessionEntry] = {}
        for entry in entries:
            thread: Thread = (entry.workspace, entry.thread)
            if entry.id not in appended and entry.id not in known:
                appended[entry.id] = entry.model_copy(update={"parent": leaves.get(thread)})
                leaves[thread] = entry.id
        self._insert("sessions", list(appended.values()))

    def _write_events(self, derived: Sequence[tuple[Applied, Derived]]) -> None:
        """An event row says *parked* only while there is no Decision of it."""
        rows: dict[str, EventRow] = {}
        parked = {result.event.id for _, result in derived if result.event and not result.event.decision}
        before = self.record.events(parked)
        for _, result in derived:
            row = result.event
            if row is None:
                continue
            standing = rows.get(row.id) or before.get(row.id)
            if row.decision or standing is None or not standing.decision:
                rows[row.id] = row
        self._upsert("events", list(rows.values()))

    def _upsert(self, name: str, rows: Sequence[Frozen]) -> None:
        if rows:
            merge = self.tables[name].merge_insert(RECORD[name].key).when_matched_update_all()
            self._execute(name, merge, to_arrow(type(rows[0]), rows))

    def _insert(self, name: str, rows: Sequence[Frozen]) -> None:
        """Keep what is there: an entry of a log, once written, stays as it is."""
        if rows:
            merge = self.tables[name].merge_insert(RECORD[name].key)
            self._execute(name, merge, to_arrow(type(rows[0]), rows))

    def _execute(self, name: str, merge: object, table: pa.Table) -> None:
        reach(f"commit.{name}.before")
        merge.when_not_matched_insert_all().execute(table)  # type: ignore[attr-defined]
        reach(f"commit.{name}.after")
        self.upkeep.wrote(name, table.num_rows)


def _change_row(change: Change, where: Coordinates) -> dict[str, object]:
    return {
        "table": change.table,
        "row_id": change.row_id,
        "workspace": change.workspace,
        "field": change.field,
        "action": change.action.value,
        "value": change.value,
        "version": _version(change.version),
        "seen": _version(change.seen) if change.seen else None,
        "event": change.event,
        "arrived": change.arrived,
        "partition": where.partition,
        "position": where.offset,
    }


def _version(version: Version) -> dict[str, object]:
    return {"at": version.at, "seq": version.seq, "operation": version.operation}

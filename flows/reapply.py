"""Operations applied to a store once more: what is missing or was spoilt in it is as they say, the rest stays.

Only what the store has applied is applied again, so its positions stay where they are, and of two Decisions of one
event the first one stands as before. A store that is as its operations say does not change. What operations never
said, such as a row that somebody has made by hand, stays, too, and an entry that a session has lost comes back at
its end: `lookfirst rebuild store` makes all of it anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from connectors.lock import exclusive
from connectors.message import Incoming
from connectors.topic import Offsets, Topic
from flows.data_folder import DataFolder, check_positions
from flows.maintain import writer_of
from flows.parse import read_operation
from flows.span import Span, Stopped, Wanted, chunks
from flows.steps import Progress
from flows.stopping import Stop
from flows.topics import Opened
from store import Store
from store.commit import StoreWriter, first_wins
from store.derive import Applied, derive
from store.schema import Decision, Message, Parked, Settings, StoreError
from store.sql import chunked, is_in

TABLES: Final = ("tasks", "people", "events", "sessions", "decisions", "changes")
"""The tables whose rows are compared."""
_GROWING: Final = ("sessions", "changes")
"""Those whose rows are never written again: what was added is counted."""
_MESSAGES: Final = 1_024
"""Messages of the operations topic in one commit (count)."""

_Place = tuple[int, int]
"""Partition and offset."""
_Row = dict[str, Any]


class Outcome(StrEnum):
    """What became of an operation that was gone through."""

    APPLIED = "applied"
    """The store did not know it, although it had passed it."""
    REPEATED = "applied before"
    DROPPED = "second decisions"
    """Of an event that has a Decision: dropped whole, as before."""
    UNREADABLE = "unreadable"
    AHEAD = "left to apply"
    """Beyond what the store has applied: `apply` has it before it."""
    GONE = "no longer kept"
    LEFT = "left"
    """To be applied again, had it not been stopped."""
    NOT_ASKED = "not asked for"


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """What became of the rows of one table (rows)."""

    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True, slots=True)
class Reapplied:
    """What was gone through, and what has changed by it."""

    outcomes: Counter[Outcome]
    """Every message that was gone through, counted once."""
    tables: Mapping[str, RowsChanged]

    @property
    def is_changed(self) -> bool:
        """Whether any row is another now."""
        return any(each != RowsChanged() for each in self.tables.values())


def reapply(
    folder: DataFolder,
    settings: Settings,
    wanted: Wanted,
    progress: Progress,
    opened: Opened | None = None,
    *,
    dry_run: bool = False,
    stop: Stop | None = None,
) -> Reapplied:
    """Apply the operations that are asked for again, as far as the store has applied them.

    They are those of the folder's topic file, or of another topic if those are `opened`. With `dry_run` they are
    only counted, and a run may go on meanwhile. Raises StoreError when a run is using the folder, when there is no
    store, and when it does not belong to the topic.
    """
    if not (folder.path / "store").is_dir():
        raise StoreError(
            f"There is no store in {folder.path}; `lookfirst run` makes it, and applies all operations there are."
        )
    operations = (opened or folder.topic)("operations")
    if dry_run:
        return _Reapplying(folder.store(), operations, settings, wanted, progress, stop or Stop()).count()
    with exclusive(folder.recovery):
        return _Reapplying(folder.store(), operations, settings, wanted, progress, stop or Stop()).apply()


class _Rewriter(StoreWriter):
    """Writes again what stands: to it, a Decision of the batch that stands at its own place is new."""

    places: frozenset[_Place] = frozenset()
    """Where the messages of the batch stand."""

    def standing(self, decisions: Iterable[str]) -> dict[str, _Place]:
        """Where those of these Decisions stand that were applied to their end."""
        return super()._known(decisions)

    def _known(self, decisions: Iterable[str]) -> dict[str, _Place]:
        standing = self.standing(decisions)
        return {each: place for each, place in standing.items() if place not in self.places}


@dataclass(slots=True)
class _Differences:
    """Rows by table and id, as they were first and as they are, where that is not the same."""

    rows: dict[tuple[str, str], tuple[_Row | None, _Row | None]] = field(default_factory=dict)
    grown: dict[str, int] = field(default_factory=dict)

    def see(self, table: str, before: Mapping[str, _Row], after: Mapping[str, _Row]) -> list[str]:
        """Compare the same rows before and after a commit; returns the ids of those that differ."""
        found = [row_id for row_id in {**before, **after} if before.get(row_id) != after.get(row_id)]
        for row_id in found:
            first, _ = self.rows.get((table, row_id), (before.get(row_id), None))
            self.rows[table, row_id] = (first, after.get(row_id))
        return found

    def summary(self) -> dict[str, RowsChanged]:
        """The rows that are others now than at first, counted by table."""
        counts: Counter[tuple[str, str]] = Counter()
        for (table, _), (before, after) in self.rows.items():
            if before != after:
                counts[table, "added" if before is None else "removed" if after is None else "changed"] += 1
        for table, added in self.grown.items():
            counts[table, "added"] = added
        return {
            table: RowsChanged(counts[table, "added"], counts[table, "changed"], counts[table, "removed"])
            for table in TABLES
        }


@dataclass(slots=True)
class _Reapplying:
    store: Store
    operations: Topic
    settings: Settings
    wanted: Wanted
    progress: Progress
    stop: Stop
    outcomes: Counter[Outcome] = field(default_factory=Counter)
    _differences: _Differences = field(default_factory=_Differences)

    def apply(self) -> Reapplied:
        before = {table: self.store.record.count(table) for table in _GROWING}
        writer = self._writer()
        for batch in self._batches():
            self._commit(writer, batch)
            writer.upkeep.maintain()
        self._differences.grown = {
            table: self.store.record.count(table) - count for table, count in before.items()
        }
        return Reapplied(self.outcomes, self._differences.summary())

    def count(self) -> Reapplied:
        writer = self._writer()
        # What would be applied counts as applied from then on.
        met: dict[str, _Place] = {}
        for batch in self._batches():
            self._sort(writer, batch, met)
        return Reapplied(self.outcomes, self._differences.summary())

    def _writer(self) -> _Rewriter:
        writer = writer_of(self.store, self.settings)
        return _Rewriter(writer.tables, writer.record, writer.memory, writer.upkeep)

    def _commit(self, writer: _Rewriter, batch: Sequence[Applied]) -> None:
        sorted_out = self._sort(writer, batch, {})
        touched = _rows_of(sorted_out)
        before = {table: self._rows(table, ids) for table, ids in touched.items()}
        writer.places = frozenset(map(_place, sorted_out))
        writer.commit(sorted_out, [])
        for table, ids in touched.items():
            differing = self._differences.see(table, before[table], self._rows(table, ids))
            if table == "tasks" and differing:
                # Memory follows positions, which stay where they are.
                self.store.memory.project(self.store.record, differing)

    def _sort(self, writer: _Rewriter, batch: Sequence[Applied], met: dict[str, _Place]) -> list[Applied]:
        """Count what becomes of the messages of a batch; returns those that are to be written.

        `met` are Decisions that are not in the store and were met before; those of this batch are added.
        """
        decisions = [each.message.id for each in batch if isinstance(each.message, Decision)]
        standing = writer.standing(decisions)
        known = {**{each: met[each] for each in decisions if each in met}, **standing}
        sorted_out = first_wins(batch, known)
        self.outcomes[Outcome.DROPPED] += len(sorted_out.dropped)
        self.outcomes[Outcome.REPEATED] += len(sorted_out.repeated)
        fresh = [each for each in sorted_out.fresh if isinstance(each.message, Decision)]
        self.outcomes[Outcome.APPLIED] += len(fresh)
        met |= {each.message.id: _place(each) for each in fresh if isinstance(each.message, Decision)}
        outdated = self._count_others([each for each in batch if not isinstance(each.message, Decision)])
        return [each for each in batch if _place(each) not in outdated]

    def _count_others(self, batch: Sequence[Applied]) -> set[_Place]:
        """Count messages that are no Decision; returns where those stand that must not be written.

        An event row says how its event was parked last: to write an earlier time would be to go back.
        """
        record = self.store.record
        parked = {each.message.event.uid for each in batch if isinstance(each.message, Parked)}
        rows = record.events(parked)
        made = {_place(each): derive(each).entry for each in batch}
        known = record.entries(entry.id for entry in made.values() if entry)
        outdated: set[_Place] = set()
        for each in batch:
            entry = made[_place(each)]
            is_known = entry is not None and entry.id in known
            if isinstance(each.message, Parked) and (row := rows.get(each.message.event.uid)):
                is_known = True
                arrival = each.message.arrival
                if not row.decision and (row.arrived, row.seq) > (arrival.arrived, arrival.seq):
                    outdated.add(_place(each))
            self.outcomes[Outcome.REPEATED if is_known else Outcome.APPLIED] += 1
        return outdated

    def _batches(self) -> Iterator[list[Applied]]:
        """What is asked for and was applied, in commits; the rest is counted."""
        span = Span.of(self.operations, self.wanted)
        reached = check_positions(self.store, self.operations)
        self.outcomes[Outcome.NOT_ASKED] += span.skipped
        self.outcomes[Outcome.GONE] += span.gone
        batch: list[Applied] = []
        try:
            for chunk in chunks(self.operations, span.begin, span.end, self.progress, self.stop, _MESSAGES):
                batch += self._asked_of(chunk, reached)
                if len(batch) >= _MESSAGES:
                    yield batch
                    batch = []
        except Stopped:
            self.outcomes[Outcome.LEFT] += len(batch)
            return
        if batch:
            yield batch

    def _asked_of(self, chunk: Sequence[Incoming], reached: Offsets) -> Iterator[Applied]:
        for incoming in chunk:
            read = read_operation(incoming)
            thread = _thread_of(read.message) if isinstance(read, Applied) else None
            if not self.wanted.covers(incoming.arrived, thread):
                self.outcomes[Outcome.NOT_ASKED] += 1
            elif incoming.offset >= reached.get(incoming.partition, 0):
                self.outcomes[Outcome.AHEAD] += 1
            elif isinstance(read, Applied):
                yield read
            else:
                self.outcomes[Outcome.UNREADABLE] += 1

    def _rows(self, table: str, ids: Iterable[str]) -> dict[str, _Row]:
        found: dict[str, _Row] = {}
        for chunk in chunked(ids):
            rows = self.store.tables[table].search().where(is_in("id", chunk)).to_arrow().to_pylist()
            found |= {row["id"]: row for row in rows}
        return found


def _rows_of(batch: Iterable[Applied]) -> dict[str, list[str]]:
    """Ids of the rows that these messages may write, by table."""
    touched: dict[str, list[str]] = {"tasks": [], "people": [], "events": [], "decisions": []}
    for applied in batch:
        derived = derive(applied)
        for change in derived.changes:
            touched[change.table].append(change.row_id)
        if derived.event:
            touched["events"].append(derived.event.id)
        if derived.decision:
            touched["decisions"].append(derived.decision.id)
    return touched


def _thread_of(message: Message) -> str:
    return message.event.thread if isinstance(message, Decision | Parked) else message.thread


def _place(applied: Applied) -> _Place:
    return applied.coordinates.partition, applied.coordinates.offset

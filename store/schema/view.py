"""Everything one judgment saw."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Literal

from store.schema.base import FORMAT, FormatVersion, Frozen, UtcTime
from store.schema.change import Version
from store.schema.outcome import Failed, SearchOutcome
from store.schema.rows import TaskState

Lane = Literal["exact", "text", "vector"]
Tie = Literal["author", "addressee"]
"""Who ties a row to an event: its author, or somebody it mentions, is among the row's people."""
ReadName = Literal["exact", "text", "vector", "thread", "standby_tasks", "standby_people", "summary"]


class Query(Frozen):
    """One planned question to memory."""

    lane: Lane
    terms: tuple[str, ...]
    """Identifiers (exact) or words (text): data, never a query language."""


class Read(Frozen):
    """One read that was made for a judgment, and how it ended."""

    name: ReadName
    terms: tuple[str, ...] = ()
    outcome: SearchOutcome


class LaneRank(Frozen):
    """Where a row stood in one lane: 1 is first."""

    lane: Lane
    rank: int


def slice_text(
    title: str, state: str, due: date | None, participants: tuple[str, ...], last_activity: datetime, head: str
) -> str:
    """The parts of a slice as one line."""
    parts = [title, state]
    if due:
        parts.append(f"due {due.isoformat()}")
    if participants:
        parts.append(", ".join(participants))
    return " · ".join([*parts, f"{last_activity:%Y-%m-%d %H:%M}", head])


class Slice(Frozen):
    """A short cut of one task row, under the handle a judge may use (R17). Never the full body (R18)."""

    handle: str
    row_id: str
    title: str
    state: TaskState
    due: date | None = None
    participants: tuple[str, ...] = ()
    """People of the row, by label: requester, assignees, then whoever spoke of it or was spoken to."""
    people: tuple[str, ...] = ()
    """The same people by id."""
    last_activity: UtcTime
    head: str
    """Head of the body, cut at a character and marked when it was longer."""
    same_thread: bool = False
    answered: bool = False
    """The event's reply mark names an event that touched this row."""
    lanes: tuple[LaneRank, ...] = ()
    identifiers: tuple[str, ...] = ()
    """Keys of identifiers that subjects and updates have given the row (`TaskRow.identifiers`)."""
    ties: tuple[Tie, ...] = ()
    """Who ties it to the event. All people of the row count, also those that are not shown."""
    recency: int | None = None
    """Of a searched row: its place among all that search returned, by last activity (1 is the newest)."""
    version: Version
    """The version of the row that was seen."""

    @property
    def text(self) -> str:
        """The slice as a judge reads it, without its handle."""
        return slice_text(self.title, self.state, self.due, self.participants, self.last_activity, self.head)


class PersonSlice(Frozen):
    """A person row related to the event, under a handle such as `P1`."""

    handle: str
    row_id: str
    names: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    last_seen: UtcTime
    role: Literal["author", "mentioned", "assignee"]


class SummarySlice(Frozen):
    """The newest summary of the thread: a copy, believed less than any row (R03, R63)."""

    text: str
    last_event: str | None = None


class Standby(Frozen):
    """A bounded set of recent rows and related people, read from the record for every event (R26)."""

    tasks: tuple[Slice, ...] = ()
    people: tuple[PersonSlice, ...] = ()


class View(Frozen):
    """Slices, thread rows, standby, summary, and the outcome of every read (R15)."""

    format: FormatVersion = FORMAT
    event: str
    """Uid of the event that was looked for."""
    queries: tuple[Query, ...]
    reads: tuple[Read, ...]
    slices: tuple[Slice, ...] = ()
    thread_rows: tuple[Slice, ...] = ()
    standby: Standby = Standby()
    summary: SummarySlice | None = None

    def tasks(self) -> Iterator[Slice]:
        """Every task row that was visible, in the order of trust: searched, thread, standby."""
        yield from self.slices
        yield from self.thread_rows
        yield from self.standby.tasks

    def task(self, handle: str) -> Slice | None:
        """The task row behind a handle, exactly; a near miss is a miss (H4)."""
        return next((found for found in self.tasks() if found.handle == handle), None)

    def person(self, handle: str) -> PersonSlice | None:
        """The person row behind a handle, exactly."""
        return next((found for found in self.standby.people if found.handle == handle), None)

    @property
    def permits_create(self) -> bool:
        """Search, thread rows and standby were all read, and none of them failed (R08, R24, R43, R44)."""
        read = {read.name for read in self.reads}
        return (
            bool(self.searches())
            and read >= {"thread", "standby_tasks", "standby_people"}
            and not self.failed_reads()
        )

    def searches(self) -> tuple[Read, ...]:
        """The reads that asked memory."""
        return tuple(read for read in self.reads if read.name in ("exact", "text", "vector"))

    def failed_reads(self) -> tuple[Read, ...]:
        """Reads that were not made: while there is one, neither a create nor a not-a-task stands (C10).

        A summary is a copy, and nothing waits for it (R53).
        """
        return tuple(read for read in self.reads if isinstance(read.outcome, Failed) and read.name != "summary")

"""From what the reads returned to the View of one event: a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from flows.retrieve.budget import at_most, within
from flows.retrieve.fuse import fuse, interleave
from flows.retrieve.slices import Shown, TaskCut, cut_of, person_slice, shorten, task_slice
from store.record import TaskStub, Thread
from store.schema import (
    Arrival,
    ClassifiedFailure,
    Complete,
    Cut,
    Empty,
    Failed,
    PersonRow,
    PersonSlice,
    Query,
    Read,
    SearchOutcome,
    SessionEntry,
    Settings,
    Slice,
    Standby,
    Summary,
    SummarySlice,
    TaskRow,
    View,
    outcome_of,
)
from store.schema.view import Lane, ReadName

_T = TypeVar("_T")
Result: TypeAlias = _T | ClassifiedFailure
"""What a read returned, or why it did not."""


@dataclass(frozen=True, slots=True)
class Planned:
    """An event with its queries and what is known of it before any search."""

    arrival: Arrival
    queries: tuple[Query, ...]
    answered: tuple[str, ...] = ()
    """Tasks its reply mark leads to."""
    fresh: tuple[str, ...] = ()
    """Tasks its thread has just created, not readable yet."""

    @property
    def thread(self) -> Thread:
        """Where the event comes from."""
        return (self.arrival.event.workspace, self.arrival.event.thread)

    @property
    def exact(self) -> Query | None:
        """Its exact query, when it names identifiers."""
        return next((query for query in self.queries if query.lane == "exact"), None)


@dataclass(slots=True)
class Found:
    """What the reads of a wave returned."""

    exact: Result[Mapping[str, Sequence[str]]]
    """Row ids by event uid."""
    text: Mapping[tuple[str, Query], Result[Sequence[str]]]
    """Row ids by workspace and query."""
    threads: Result[Mapping[Thread, Sequence[TaskStub]]]
    recent: Mapping[str, Result[Sequence[TaskStub]]]
    """Newest tasks by workspace."""
    fresh: Mapping[str, Sequence[str]]
    """Tasks just touched, by workspace, newest first."""
    summaries: Result[Mapping[Thread, SessionEntry]]
    lag: int
    """Operations that search cannot know of yet (count)."""
    tasks: Result[Mapping[str, TaskRow]] = field(default_factory=dict)
    people: Result[Mapping[str, PersonRow]] = field(default_factory=dict)
    cuts: dict[str, TaskCut] = field(default_factory=dict)
    """Tasks cut to slices so far, by id: most of a wave is shown the same recent ones."""


def build_view(planned: Planned, found: Found, limits: Settings) -> View:
    """Slices first, then thread rows, then standby; a row is shown once (R20, R27, R36)."""
    return _Builder(planned, found, limits).view()


def open_first(tasks: Sequence[_Dated]) -> list[_Dated]:
    """Open tasks before closed ones, newest first within each."""
    return sorted(tasks, key=lambda t: (t.state in ("done", "cancelled"), -t.updated.timestamp(), t.id))


_Dated = TypeVar("_Dated", TaskRow, TaskStub)


class _Builder:
    def __init__(self, planned: Planned, found: Found, limits: Settings) -> None:
        self._planned = planned
        self._event = planned.arrival.event
        self._found = found
        self._limits = limits
        self._reads: list[Read] = []
        self._tasks = {} if isinstance(found.tasks, ClassifiedFailure) else found.tasks
        self._people = {} if isinstance(found.people, ClassifiedFailure) else found.people
        self._shown: set[str] = set()

    def view(self) -> View:
        slices = self._searched()
        thread_rows = self._of_the_thread()
        tasks = self._recent()
        people = self._related_people([*slices, *thread_rows])
        view = View(
            event=self._event.uid,
            queries=self._planned.queries,
            slices=slices,
            thread_rows=thread_rows,
            standby=Standby(tasks=tasks, people=people),
            summary=self._summary(),
            reads=tuple(self._reads),
        )
        if at_most(view, self._limits.slice_characters) <= self._limits.memory_characters:
            return view
        return within(view, self._limits.memory_characters)

    def _searched(self) -> tuple[Slice, ...]:
        """Fuse the lanes, hits checked against the record: a deleted row suppresses nothing (L6)."""
        exact, texts = self._lane_hits()
        lanes: dict[Lane, list[str]] = {}
        if exact is not None:
            lanes["exact"] = self._listed(exact)
        lanes["text"] = self._listed(
            interleave([hits for _, hits in texts if not isinstance(hits, ClassifiedFailure)])
        )
        chosen = fuse(lanes, most=self._limits.slices, guaranteed=self._limits.slices_a_lane)
        self._shown = {row for row, _ in chosen}
        if exact is not None:
            terms = self._planned.exact.terms if self._planned.exact else ()
            self._note("exact", terms, self._search_outcome(exact))
        for query, hits in texts:
            self._note("text", query.terms, self._search_outcome(hits))
        answered = set(self._planned.answered)
        return tuple(
            self._slice(f"S{n}", Shown(self._tasks[row], ranks, row in answered))
            for n, (row, ranks) in enumerate(chosen, start=1)
        )

    def _lane_hits(self) -> tuple[Result[Sequence[str]] | None, list[tuple[Query, Result[Sequence[str]]]]]:
        exact: Result[Sequence[str]] | None = None
        if self._planned.exact or self._planned.answered:
            by_event = self._found.exact
            if isinstance(by_event, ClassifiedFailure):
                exact = by_event
            else:
                # A reply mark is an identifier too, and the most exact one.
                exact = interleave([self._planned.answered, by_event.get(self._event.uid, ())])
        texts = [
            (query, self._found.text[self._event.workspace, query])
            for query in self._planned.queries
            if query.lane == "text"
        ]
        return exact, texts

    def _of_the_thread(self) -> tuple[Slice, ...]:
        threads = self._found.threads
        if isinstance(threads, ClassifiedFailure) or isinstance(self._found.tasks, ClassifiedFailure):
            self._note("thread", (), self._failed(threads))
            return ()
        stubs = threads.get(self._planned.thread, ())
        ids = dict.fromkeys([*(stub.id for stub in stubs), *self._planned.fresh])
        rows = [self._tasks[row] for row in ids if row in self._tasks and row not in self._shown]
        unread = sum(1 for row in ids if row not in self._tasks and row not in self._planned.fresh)
        chosen = open_first(rows)[: self._limits.thread_rows]
        left_out = len(rows) + unread - len(chosen)
        self._note("thread", (), Cut(left_out=left_out) if left_out else Complete() if ids else Empty())
        self._shown.update(row.id for row in chosen)
        return tuple(self._slice(f"T{n}", self._reached(row)) for n, row in enumerate(chosen, start=1))

    def _recent(self) -> tuple[Slice, ...]:
        """Recent rows, those of the event's own people before the others (R26)."""
        stubs = self._found.recent[self._event.workspace]
        if isinstance(stubs, ClassifiedFailure) or isinstance(self._found.tasks, ClassifiedFailure):
            self._note("standby_tasks", (), self._failed(stubs))
            return ()
        ids = dict.fromkeys([*self._found.fresh[self._event.workspace], *(stub.id for stub in stubs)])
        pool = [self._tasks[row] for row in ids if row in self._tasks and row not in self._shown]
        recent = sorted(pool, key=lambda t: (-t.updated.timestamp(), t.id))[: self._limits.standby_pool]
        own = set(self._event.people)
        ranked = sorted(recent, key=lambda t: own.isdisjoint({t.requester, *t.assignees}))
        chosen = ranked[: self._limits.standby_tasks]
        whole = len(recent) < self._limits.standby_pool
        outcome = outcome_of(len(recent), len(chosen), total=len(recent) if whole else None)
        self._note("standby_tasks", (), outcome)
        self._shown.update(row.id for row in chosen)
        return tuple(self._slice(f"B{n}", self._reached(row)) for n, row in enumerate(chosen, start=1))

    def _related_people(self, shown: Sequence[Slice]) -> tuple[PersonSlice, ...]:
        """Author and mentioned people, known or new, then those of the rows that were shown."""
        if isinstance(self._found.people, ClassifiedFailure):
            self._note("standby_people", (), self._failed(self._found.people))
            return ()
        roles = dict.fromkeys(self._event.people, "mentioned")
        author = self._event.person(self._event.author)
        if author:
            roles[author] = "author"
        for found in shown:
            for person in found.people:
                roles.setdefault(person, "assignee")
        unknown = any(person not in self._people for person in self._event.people)
        known = {**self._introduced(), **self._people} if unknown else self._people
        related = [(known[person], role) for person, role in roles.items() if person in known]
        chosen = related[: self._limits.standby_people]
        self._note("standby_people", (), outcome_of(len(related), len(chosen), total=len(related)))
        return tuple(
            person_slice(f"P{n}", row, role, self._limits.slice_characters)
            for n, (row, role) in enumerate(chosen, start=1)
        )

    def _introduced(self) -> dict[str, PersonRow]:
        """People the record does not know yet: the event itself says who they are."""
        event, moment = self._event, self._planned.arrival.happened
        return {
            row_id: PersonRow(
                id=row_id,
                workspace=event.workspace,
                names=(who.name,) if who.name else (),
                addresses=(who.address,) if who.address else (),
                first_seen=moment,
                last_seen=moment,
            )
            for who in (event.author, *event.mentions)
            if (row_id := event.person(who))
        }

    def _summary(self) -> SummarySlice | None:
        summaries = self._found.summaries
        if isinstance(summaries, ClassifiedFailure):
            self._note("summary", (), self._failed(summaries))
            return None
        entry = summaries.get(self._planned.thread)
        if entry is None:
            return None
        summary = Summary.model_validate_json(entry.payload)
        text = shorten(summary.components.text, self._limits.summary_characters)
        self._note("summary", (), Complete())
        return SummarySlice(text=text, last_event=summary.last_event)

    def _reached(self, task: TaskRow) -> Shown:
        return Shown(task, answered=task.id in self._planned.answered)

    def _slice(self, handle: str, shown: Shown) -> Slice:
        task, cuts = shown.task, self._found.cuts
        if task.id not in cuts:
            cuts[task.id] = cut_of(task, self._people, self._limits.slice_characters)
        return task_slice(handle, shown, self._event, cuts[task.id])

    def _listed(self, hits: Result[Sequence[str]]) -> list[str]:
        if isinstance(hits, ClassifiedFailure):
            return []
        mine = self._event.workspace
        return [row for row in hits if row in self._tasks and self._tasks[row].workspace == mine]

    def _search_outcome(self, hits: Result[Sequence[str]]) -> SearchOutcome:
        """How a search ended for this event, with what fusion left out counted as left out (R19)."""
        if isinstance(hits, ClassifiedFailure) or isinstance(self._found.tasks, ClassifiedFailure):
            return self._failed(hits)
        lag = self._found.lag
        listed = self._listed(hits)
        left_out = sum(1 for row in listed if row not in self._shown)
        if len(hits) > self._limits.hits:
            return Cut(lag=lag, left_out=None)
        if left_out:
            return Cut(lag=lag, left_out=left_out)
        return Complete(lag=lag) if listed else Empty(lag=lag)

    def _failed(self, result: object) -> Failed:
        """The failure of a read, or of the read of the rows it led to."""
        for failure in (result, self._found.tasks):
            if isinstance(failure, ClassifiedFailure):
                return Failed(failure=failure.failure, reason=failure.reason)
        raise AssertionError("a read that did not fail was reported as failed")

    def _note(self, name: ReadName, terms: tuple[str, ...], outcome: SearchOutcome) -> None:
        self._reads.append(Read(name=name, terms=terms, outcome=outcome))

"""From what the reads returned to the View of one event: a pure function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from flows.retrieve.budget import at_most, within
from flows.retrieve.fuse import Candidate, fuse, interleave
from flows.retrieve.slices import Shown, TaskCut, cut_of, person_slice, shorten, task_slice, ties_of
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
    references: tuple[str, ...] = ()
    """Mails it answers or refers to, in whatever thread, by message id."""
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
    referred: Result[Mapping[tuple[str, str], Sequence[str]]]
    """Row ids by workspace and message id."""
    searched: Mapping[tuple[str, Query], Result[Sequence[str]]]
    """Row ids by workspace and query, of the text and the vector lane."""
    threads: Result[Mapping[Thread, Sequence[TaskStub]]]
    recent: Mapping[str, Result[Sequence[TaskStub]]]
    """Newest tasks by workspace."""
    fresh: Mapping[str, Sequence[str]]
    """Tasks just touched, by workspace, newest first."""
    summaries: Result[Mapping[Thread, SessionEntry]]
    lag: int
    """Operations that search cannot know of yet (count)."""
    unembedded: int = 0
    """Rows that the vector lane cannot know of yet (rows)."""
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
        self._answered = self._marked()

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
        exact, searches = self._lane_hits()
        lanes: dict[Lane, list[str]] = {}
        if exact is not None:
            lanes["exact"] = self._listed(exact)
        for lane in dict.fromkeys(query.lane for query, _ in searches):
            lists = [hits for query, hits in searches if query.lane == lane]
            lanes[lane] = self._listed(
                interleave([ids for ids in lists if not isinstance(ids, ClassifiedFailure)])
            )
        candidates = {row: self._candidate(self._tasks[row]) for rows in lanes.values() for row in rows}
        chosen = fuse(lanes, candidates, most=self._limits.slices, guaranteed=self._limits.slices_a_lane)
        self._shown = {each.row for each in chosen}
        if exact is not None:
            terms = self._planned.exact.terms if self._planned.exact else ()
            self._note("exact", terms, self._search_outcome(exact))
        for query, hits in searches:
            behind = self._found.unembedded if query.lane == "vector" else 0
            self._note(query.lane, query.terms, self._search_outcome(hits, behind))
        return tuple(
            self._slice(
                f"S{n}", Shown(self._tasks[each.row], each.lanes, each.row in self._answered, each.recency)
            )
            for n, each in enumerate(chosen, start=1)
        )

    def _marked(self) -> set[str]:
        """Tasks of the event that the reply mark names; a mail is known by its id in whatever thread."""
        answered = set(self._planned.answered)
        marked = (self._event.workspace, self._event.reply_to or "")
        if not isinstance(self._found.referred, ClassifiedFailure):
            answered.update(self._found.referred.get(marked, ()))
        return answered

    def _candidate(self, task: TaskRow) -> Candidate:
        return Candidate(task.updated, ties_of(task, self._event))

    def _lane_hits(self) -> tuple[Result[Sequence[str]] | None, list[tuple[Query, Result[Sequence[str]]]]]:
        exact: Result[Sequence[str]] | None = None
        if self._planned.exact or self._planned.answered or self._planned.references:
            by_event, referred = self._found.exact, self._found.referred
            if isinstance(by_event, ClassifiedFailure):
                exact = by_event
            elif isinstance(referred, ClassifiedFailure):
                exact = referred
            else:
                # A reply mark is an identifier too, and the most exact one; so is the id of a mail.
                mine = self._event.workspace
                mails = [referred.get((mine, message), ()) for message in self._planned.references]
                exact = interleave([self._planned.answered, *mails, by_event.get(self._event.uid, ())])
        searches = [
            (query, self._found.searched[self._event.workspace, query])
            for query in self._planned.queries
            if query.lane != "exact"
        ]
        return exact, searches

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
        """Recent rows: those of the event's own people and the newest of all, in turn (R26).

        On human-labelled chat three of the one and two of the other hold the row more often than five of either.
        """
        stubs = self._found.recent[self._event.workspace]
        if isinstance(stubs, ClassifiedFailure) or isinstance(self._found.tasks, ClassifiedFailure):
            self._note("standby_tasks", (), self._failed(stubs))
            return ()
        ids = dict.fromkeys([*self._found.fresh[self._event.workspace], *(stub.id for stub in stubs)])
        pool = [self._tasks[row] for row in ids if row in self._tasks and row not in self._shown]
        recent = sorted(pool, key=lambda t: (-t.updated.timestamp(), t.id))[: self._limits.standby_pool]
        own = sorted(recent, key=lambda task: -len(ties_of(task, self._event)))
        ranked = interleave([[task.id for task in own], [task.id for task in recent]])
        chosen = [self._tasks[row] for row in ranked[: self._limits.standby_tasks]]
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
            for person in self._found.cuts[found.row_id].owners:
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
        return Shown(task, answered=task.id in self._answered)

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

    def _search_outcome(self, hits: Result[Sequence[str]], behind: int = 0) -> SearchOutcome:
        """How a search ended for this event, with what fusion left out counted as left out (R19)."""
        if isinstance(hits, ClassifiedFailure) or isinstance(self._found.tasks, ClassifiedFailure):
            return self._failed(hits)
        lag = self._found.lag + behind
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

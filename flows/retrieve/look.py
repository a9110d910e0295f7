"""Look first: for each event of a wave, everything its judgment will see.

The reads of a wave are made together, because one read for many events costs little more than for one; the View
of each event is then built from its own part of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import TypeVar

from flows.daemons import Daemons
from flows.overlay import Overlay
from flows.retrieve.plan import plan, references_of
from flows.retrieve.slices import shown_people
from flows.retrieve.view import Found, Planned, Result, build_view, open_first
from store import Store
from store.memory import ExactRequest
from store.record import TaskStub
from store.schema import (
    Arrival,
    ClassifiedFailure,
    EventRow,
    FailureClass,
    PersonRow,
    Query,
    Settings,
    View,
    classify,
)
from store.schema.identity import event_uid

_T = TypeVar("_T")
_Search = tuple[str, Query]
"""Workspace and query."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Searches that were started before their events are looked for, and how much they could not know of."""

    asked: dict[_Search, Callable[[], Result[Sequence[str]]]] = field(default_factory=dict)
    lag: int = 0
    behind: Callable[[], Result[int]] | None = None
    unembedded: Callable[[], Result[int]] | None = None
    decided: int = 0
    """Decisions so far when they were started (count)."""

    def known_lag(self, decided: int) -> int:
        """What they cannot know of, when by now so many Decisions were made (count)."""
        behind = self.behind() if self.behind else 0
        return self.lag + (behind if isinstance(behind, int) else 0) + decided - self.decided

    def known_unembedded(self) -> int:
        """Rows that had no vector when they were started (rows)."""
        rows = self.unembedded() if self.unembedded else 0
        return rows if isinstance(rows, int) else 0


def replied_uid(arrival: Arrival) -> str | None:
    """Uid of the event that the event's reply mark names, in its own thread."""
    event = arrival.event
    if not event.reply_to:
        return None
    return event_uid(event.workspace, event.source, event.thread, event.reply_to)


class Looker:
    """Makes the reads of a wave and builds its Views. Reads only."""

    def __init__(
        self, store: Store, overlay: Overlay, limits: Settings, pool: Daemons, seekers: Daemons | None = None
    ) -> None:
        """`seekers` make the searches that have to wait for an embedder; without them the pool does."""
        self._store = store
        self._overlay = overlay
        self._limits = limits
        self._pool = pool
        self._seekers = seekers or pool
        self._ahead = _Ahead()
        self._segments: dict[str, _Ahead] = {}
        """Searches for the later segments of long events, by uid."""

    def ask_ahead(self, events: Sequence[Arrival]) -> None:
        """Start the searches of the events that come next, while those before them are judged.

        Only searches: they lag by nature and say by how much. What is read from the record is read when the event
        is looked for, or a row of its own thread could be missed.
        """
        ahead = self._ahead_of_now() if events else _Ahead()
        for arrival in events:
            for query in plan(arrival.event, self._limits):
                key = (arrival.event.workspace, query)
                if query.lane != "exact":
                    ahead.asked[key] = self._ahead.asked.get(key) or self._ask_memory(key)
        self._ahead = ahead

    def ask_segments(self, segments: Sequence[Arrival]) -> None:
        """Start the searches of all later segments of a long event side by side; they are judged in order."""
        for arrival in segments:
            if arrival.event.uid not in self._segments:
                self._segments[arrival.event.uid] = self._ahead_of_now()
            asked = self._segments[arrival.event.uid].asked
            for query in plan(arrival.event, self._limits):
                key = (arrival.event.workspace, query)
                if query.lane != "exact" and key not in asked:
                    asked[key] = self._ask_memory(key)

    def _ahead_of_now(self) -> _Ahead:
        return _Ahead(
            lag=len(self._overlay),
            behind=self._ask(self._lag),
            unembedded=self._ask(self._store.memory.unembedded) if self._limits.embedding else None,
            decided=self._overlay.decided,
        )

    def forget(self, event: str) -> None:
        """A long event is settled."""
        self._segments.pop(event, None)

    def look(self, wave: Sequence[Arrival], known: Mapping[str, EventRow]) -> list[View]:
        """One View for each event of the wave, in order; a failed read is an outcome, not an exception.

        `known` holds event rows by uid, at least those that reply marks of the wave name.
        """
        planned = [self._plan(arrival, known) for arrival in wave]
        found = self._search(planned)
        ids = self._task_ids(planned, found)
        found.tasks = self._ask(lambda: self._overlay.tasks(self._store.record, ids))()
        found.people = self._ask(lambda: self._people(planned, found))()
        return [build_view(event, self._for(event, found, ids), self._limits) for event in planned]

    def _for(self, event: Planned, found: Found, ids: Sequence[str]) -> Found:
        """What the reads returned, for one event: the later segments of a long one see its own draft."""
        uid, record = event.arrival.event.uid, self._store.record
        if not self._overlay.has_draft(uid):
            return found
        tasks = self._ask(lambda: self._overlay.tasks(record, [*ids, *event.fresh], draft=uid))()
        return replace(found, tasks=tasks, cuts={})

    def _plan(self, arrival: Arrival, known: Mapping[str, EventRow]) -> Planned:
        replied = replied_uid(arrival)
        row = known.get(replied) if replied else None
        answered = self._overlay.touched_by(replied) if replied else ()
        event = arrival.event
        return Planned(
            arrival,
            queries=plan(event, self._limits),
            answered=answered or (row.rows if row else ()),
            references=references_of(event),
            fresh=tuple(self._overlay.created_in((event.workspace, event.thread), draft=event.uid)),
        )

    def _search(self, planned: Sequence[Planned]) -> Found:
        """All reads that need no other's result, side by side."""
        threads = {event.thread for event in planned}
        workspaces = {workspace for workspace, _ in threads}
        asked = {(e.thread[0], query) for e in planned for query in e.queries if query.lane != "exact"}
        exact = self._ask(lambda: self._exact(planned))
        ahead, self._ahead = self._ahead, _Ahead()
        lags = [ahead.known_lag(self._overlay.decided)] if ahead.asked else []
        # Counted when a search begins, like every lag: what is embedded while it is under way it may have missed.
        now = self._ahead_of_now()
        unembedded = [each.known_unembedded for each in ([ahead, now] if ahead.asked else [now])]
        for event in planned:
            later = self._segments.get(event.arrival.event.uid)
            if later:
                ahead.asked.update({key: later.asked.pop(key) for key in asked & later.asked.keys()})
                lags.append(later.known_lag(self._overlay.decided))
                unembedded.append(later.known_unembedded)
        searches = {key: ahead.asked.get(key) or self._ask_memory(key) for key in asked}
        messages = {(event.thread[0], message) for event in planned for message in event.references}
        referred = self._ask(lambda: self._store.record.rows_of_messages(messages) if messages else {})
        own = self._ask(lambda: self._store.record.thread_tasks(threads))
        recent = {name: self._ask(partial(self._recent, name)) for name in workspaces}
        summaries = self._ask(lambda: self._store.record.summaries(threads))
        lags.append(now.known_lag(self._overlay.decided))
        return Found(
            exact=exact(),
            referred=referred(),
            searched={key: answer() for key, answer in searches.items()},
            threads=own(),
            recent={name: answer() for name, answer in recent.items()},
            fresh={name: self._overlay.latest(name, self._limits.standby_pool) for name in workspaces},
            summaries=summaries(),
            lag=max(lags),
            unembedded=max(count() for count in unembedded),
        )

    def _ask_memory(self, key: _Search) -> Callable[[], Result[Sequence[str]]]:
        pool = self._seekers if key[1].lane == "vector" else self._pool
        return self._ask(partial(self._search_memory, key, self._limits.hits), pool)

    def _ask(self, read: Callable[[], _T], pool: Daemons | None = None) -> Callable[[], Result[_T]]:
        """Start a read; what is returned waits for it, within the bound that R39 asks for."""
        readers = pool or self._pool
        future = readers.submit(read)
        # Of all reads of a wave together, not of one after the other.
        until = monotonic() + self._limits.search_timeout

        def answer() -> Result[_T]:
            try:
                return future.result(max(0.0, until - monotonic()))
            except FutureTimeout:
                readers.give_up(future)
                waited = f"no answer within {self._limits.search_timeout:g} s"
                return ClassifiedFailure(FailureClass.TRANSIENT, waited)
            except Exception as error:
                return classify(error)

        return answer

    def _exact(self, planned: Sequence[Planned]) -> Mapping[str, Sequence[str]]:
        asking = [event for event in planned if event.exact]
        requests = [ExactRequest(e.thread[0], frozenset(e.exact.terms)) for e in asking if e.exact]
        hits = self._store.memory.exact(requests, self._limits.hits) if requests else []
        return {event.arrival.event.uid: rows for event, rows in zip(asking, hits, strict=True)}

    def _search_memory(self, key: _Search, limit: int) -> Sequence[str]:
        workspace, query = key
        if query.lane == "vector":
            return self._store.memory.vector(workspace, " ".join(query.terms), limit)
        return self._store.memory.text(workspace, query.terms, limit)

    def _recent(self, workspace: str) -> Sequence[TaskStub]:
        return self._store.record.recent_tasks(workspace, self._limits.standby_pool)

    def _lag(self) -> int:
        """Messages the record has and memory has not."""
        reached = {(place.part, place.partition): place.next_offset for place in self._store.record.positions()}
        behind = [
            offset - reached.get(("memory", partition), 0)
            for (part, partition), offset in reached.items()
            if part == "record"
        ]
        return max(0, sum(behind))

    def _task_ids(self, planned: Sequence[Planned], found: Found) -> list[str]:
        """Every task that may be shown to somebody of the wave."""
        ids: dict[str, None] = {}

        def may_be_shown(rows: Iterable[str]) -> None:
            ids.update(dict.fromkeys(rows))

        for event in planned:
            may_be_shown([*event.answered, *event.fresh])
        if not isinstance(found.exact, ClassifiedFailure):
            for hits in found.exact.values():
                may_be_shown(hits)
        if not isinstance(found.referred, ClassifiedFailure):
            for rows in found.referred.values():
                may_be_shown(rows)
        for result in found.searched.values():
            if not isinstance(result, ClassifiedFailure):
                may_be_shown(result)
        if not isinstance(found.threads, ClassifiedFailure):
            for stubs in found.threads.values():
                may_be_shown(stub.id for stub in open_first(stubs)[: self._limits.thread_rows])
        for recent in found.recent.values():
            if not isinstance(recent, ClassifiedFailure):
                may_be_shown(stub.id for stub in recent)
        for fresh in found.fresh.values():
            may_be_shown(fresh)
        return list(ids)

    def _people(self, planned: Sequence[Planned], found: Found) -> Mapping[str, PersonRow]:
        ids = {person for event in planned for person in event.arrival.event.people}
        if not isinstance(found.tasks, ClassifiedFailure):
            for task in found.tasks.values():
                ids.update(shown_people(task))
        return self._overlay.people(self._store.record, sorted(ids))

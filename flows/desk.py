"""The desk: where events wait, are looked for in waves, judged, guarded and decided.

It runs without an engine. Events of a thread are decided one after the other; threads side by side, so that the
reads of a wave are made together. What cannot be decided now stays pending and is tried again; nothing here
waits for the record or for the index.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice

from flows.judge.contract import Judge
from flows.judge.guard import Accepted, Refused, Waits, guard
from flows.overlay import Overlay
from flows.pending import Pending
from flows.retrieve.look import Looker, replied_uid
from store.record import Record
from store.schema import (
    Arrival,
    ClassifiedFailure,
    Decision,
    EventRow,
    Failed,
    FailureClass,
    NotATask,
    Parked,
    Rejection,
    Settings,
    View,
    classify,
)
from store.schema.identity import operation_id

_SETTLED_AT_ONCE = 256
"""Overlay entries looked up with each wave (events): keeps the read of known events to one `IN`."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """An event that was decided before: nothing is written."""

    arrival: Arrival


@dataclass(slots=True)
class _Thread:
    """The undecided events of one thread, in order, and who collects what becomes of them."""

    owner: Hashable
    waiting: deque[Pending] = field(default_factory=deque)


Settled = Decision | Parked | Repeated
"""What can become of an event at the desk."""


class Desk:
    """Takes events, gives back what became of them to whoever owns their thread."""

    def __init__(
        self,
        record: Record,
        looker: Looker,
        overlay: Overlay,
        judge: Judge,
        limits: Settings,
        clock: Callable[[], datetime],
    ) -> None:
        self._record = record
        self._looker = looker
        self._overlay = overlay
        self._judge = judge
        self._limits = limits
        self._clock = clock
        self._threads: dict[str, _Thread] = {}
        self._owned: defaultdict[Hashable, dict[str, _Thread]] = defaultdict(dict)
        self._settled: defaultdict[Hashable, list[tuple[Pending, Settled]]] = defaultdict(list)

    def __len__(self) -> int:
        """Events taken and not handed back yet (count)."""
        waiting = sum(len(thread.waiting) for thread in self._threads.values())
        return waiting + sum(len(settled) for settled in self._settled.values())

    def room(self) -> int:
        """How many more events it should be handed now (count): a few waves ahead, within the bound of pending.

        Events behind one that fails do not count as read ahead, so that other threads go on.
        """
        pending = len(self)
        failing = sum(len(t.waiting) for t in self._threads.values() if t.waiting[0].not_before is not None)
        ahead = self._limits.read_ahead - (pending - failing)
        return max(0, min(ahead, self._limits.pending - pending))

    def take(self, owner: Hashable, pending: Iterable[Pending]) -> None:
        """Accept events in the order they arrived; all events of a thread have one owner."""
        for event in pending:
            key = event.arrival.event.key
            thread = self._threads.setdefault(key, _Thread(owner))
            thread.waiting.append(event)
            self._owned[owner][key] = thread

    def pending(self, owner: Hashable) -> tuple[Pending, ...]:
        """The owner's events that it must not lose, each thread's in order: its state in a snapshot.

        What is settled counts until it was collected: only then is it on its way to a topic.
        """
        uncollected = (event for event, _ in self._settled.get(owner, ()))
        waiting = (event for thread in self._owned.get(owner, {}).values() for event in thread.waiting)
        return (*uncollected, *waiting)

    def collect(self, owner: Hashable) -> list[Settled]:
        """Hand over what has become of the owner's events."""
        return [settled for _, settled in self._settled.pop(owner, ())]

    def next_at(self, owner: Hashable) -> datetime | None:
        """When the owner has to ask again; None when it has nothing here."""
        now = self._clock()
        if owner in self._settled:
            return now
        heads = (thread.waiting[0] for thread in self._owned.get(owner, {}).values())
        return min((head.not_before or now for head in heads), default=None)

    def work(self) -> int:
        """Decide one wave: the first due event of each thread, oldest first. Returns how many it took."""
        wave = self._wave()
        if not wave:
            return 0
        try:
            known = self._known(wave)
        except Exception as error:
            for event in wave:
                self._fail(event, classify(error))
            return len(wave)
        fresh = []
        for event in wave:
            row = known.get(event.arrival.event.uid)
            if event.arrival.event.uid in self._overlay or (row and row.decision):
                self._settle(event, Repeated(event.arrival))
            else:
                fresh.append(event)
        try:
            views = self._looker.look([event.arrival for event in fresh], known)
        except Exception as error:
            for event in fresh:
                self._fail(event, classify(error))
            return len(wave)
        self._looker.ask_ahead([event.arrival for event in self._coming(wave)])
        for event, view in zip(fresh, views, strict=True):
            try:
                self._decide(event, view)
            except Exception as error:
                self._fail(self._head(event), classify(error), view)
        return len(wave)

    def _head(self, event: Pending) -> Pending:
        """The event as it waits now: a refusal before the failure is kept."""
        return self._threads[event.arrival.event.key].waiting[0]

    def _wave(self) -> list[Pending]:
        now = self._clock()
        due = (t.waiting[0] for t in self._threads.values() if t.waiting[0].is_due(now))
        return list(islice(due, self._limits.wave))

    def _coming(self, wave: Sequence[Pending]) -> list[Pending]:
        """The events that will most likely be the next wave: those behind this one's, and other heads."""
        now = self._clock()
        taken = {event.arrival.event.key for event in wave}
        coming = (
            thread.waiting[1] if key in taken else thread.waiting[0]
            for key, thread in self._threads.items()
            if key not in taken or len(thread.waiting) > 1
        )
        return list(islice((event for event in coming if event.is_due(now)), self._limits.wave))

    def _known(self, wave: Sequence[Pending]) -> dict[str, EventRow]:
        """Rows of the wave's events, of those they reply to, and of the oldest the overlay still holds."""
        waiting = self._overlay.oldest(_SETTLED_AT_ONCE)
        replied = filter(None, (replied_uid(event.arrival) for event in wave))
        known = self._record.events([*(event.arrival.event.uid for event in wave), *replied, *waiting])
        self._overlay.settle([uid for uid in waiting if uid in known and known[uid].decision])
        return known

    def _decide(self, event: Pending, view: View) -> None:
        """Judge, guard, and judge once more if the guard refuses; raises what the judge raises."""
        if event.arrival.event.is_blank:
            self._settle(event, self._blank(event, view))
            return
        if all(isinstance(read.outcome, Failed) for read in view.searches()):
            # Memory was not seen at all: nothing is settled, whatever the thread's own rows say (R23).
            raise ClassifiedFailure(_blame(view), _failures(view))
        rejected = event.rejected
        for attempt in range(1, self._limits.judgments + 1):
            answer = self._judge.judge(event.arrival.event, view, rejected)
            match guard(answer, event.arrival.event, view, self._limits, attempt):
                case Accepted(operations):
                    decision = Decision(
                        arrival=event.arrival,
                        view=view,
                        operations=operations,
                        rejected=rejected,
                        judge=self._judge.name,
                    )
                    self._settle(event, decision)
                    return
                case Waits(reason):
                    raise ClassifiedFailure(_blame(view), reason)
                case Refused(rejections):
                    rejected = (*rejected, *rejections)
                    self._threads[event.arrival.event.key].waiting[0] = replace(event, rejected=rejected)
        self._park(event, FailureClass.CONTENT, _refusals(rejected), rejected, view)

    def _blank(self, event: Pending, view: View) -> Decision:
        """Nothing was said: no judge is asked (N3)."""
        uid = event.arrival.event.uid
        nothing = NotATask(id=operation_id(uid, 0, 0), number=0, reason="the event has no text")
        return Decision(arrival=event.arrival, view=view, operations=(nothing,), judge="blank/1")

    def _fail(self, event: Pending, failure: ClassifiedFailure, view: View | None = None) -> None:
        later = event.after(failure, self._clock(), self._limits)
        if later is None:
            self._park(event, failure.failure, failure.reason, event.rejected, view)
        else:
            self._threads[event.arrival.event.key].waiting[0] = later

    def _park(
        self,
        event: Pending,
        failure: FailureClass,
        reason: str,
        rejected: tuple[Rejection, ...],
        view: View | None,
    ) -> None:
        parked = Parked(
            arrival=event.arrival,
            failure=failure,
            reason=reason,
            attempts=event.tries + 1,
            rejected=rejected,
            view=view,
        )
        self._settle(event, parked)

    def _settle(self, event: Pending, settled: Settled) -> None:
        key = event.arrival.event.key
        thread = self._threads[key]
        if isinstance(settled, Decision):
            self._overlay.add(settled)
        self._settled[thread.owner].append((event, settled))
        thread.waiting.popleft()
        if not thread.waiting:
            del self._threads[key], self._owned[thread.owner][key]
            if not self._owned[thread.owner]:
                del self._owned[thread.owner]


def _blame(view: View) -> FailureClass:
    """The class of the failed reads together: one that will not pass by itself decides."""
    classes = {read.outcome.failure for read in view.failed_reads() if isinstance(read.outcome, Failed)}
    order = (FailureClass.CONTENT, FailureClass.UNKNOWN)
    return next((found for found in order if found in classes), FailureClass.TRANSIENT)


def _failures(view: View) -> str:
    reasons = (read.outcome.reason for read in view.reads if isinstance(read.outcome, Failed))
    return "memory could not be searched: " + "; ".join(dict.fromkeys(reasons))


def _refusals(rejected: Sequence[Rejection]) -> str:
    told: Iterator[str] = (f"{rejection.rule}: {rejection.reason}" for rejection in rejected)
    return "the judge's answers were refused: " + "; ".join(told)

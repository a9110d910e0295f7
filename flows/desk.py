"""The desk: where events wait, are looked for in waves, judged, guarded and decided.

It runs without an engine. Events of a thread are decided one after the other; threads side by side, so that the
reads of a wave are made together. What cannot be decided now stays pending and is tried again; nothing here
waits for the record, for the index or for a remote judge.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from threading import Lock
from typing import Protocol

from connectors.markers import Markers
from connectors.topic_flow import Room
from flows.backlog import Backlog, Fetch
from flows.breaker import Breaker, Breakers
from flows.calls import Asked, Call, Calls
from flows.crew import Crew
from flows.judge.guard import Accepted, Refused, Waits, guard
from flows.long_events import LongEvents
from flows.overlay import Overlay
from flows.pending import Held, Judged, Pending
from flows.reasons import blame, failures, refusals
from flows.retrieve.look import Looker, replied_uid
from flows.vitals import Vitals
from store.record import Record
from store.schema import (
    Arrival,
    ClassifiedFailure,
    Decision,
    EventRow,
    Failed,
    FailureClass,
    JudgedOperation,
    NotATask,
    Parked,
    Settings,
    View,
    classify,
)
from store.schema.failpoint import reach
from store.schema.identity import operation_id

_SETTLED_AT_ONCE = 256
"""Overlay entries looked up with each wave (events): keeps the read of known events to one `IN`."""

_TOLD = 100
"""Reasons that are logged (count)."""

_log = logging.getLogger(__name__)

_REFRESH = timedelta(seconds=1)
"""How often other processes are asked which suspects they have cleared."""

_POLL = timedelta(milliseconds=10)
"""How soon to look again after judgments that are under way."""


@dataclass(frozen=True, slots=True)
class Repeated:
    """An event that was decided before: nothing is written."""

    arrival: Arrival


Settled = Decision | Parked | Repeated
"""What can become of an event at the desk."""


class Pace(Protocol):
    """Holds the desk back to one event at a time."""

    def is_readable(self, emitted: int) -> bool:
        """Whether all that was emitted so far, so many messages, is readable in record and memory."""


class Desk:
    """Takes events, gives back what became of them to whoever owns their thread."""

    def __init__(
        self,
        record: Record,
        looker: Looker,
        overlay: Overlay,
        calls: Calls,
        judge: str,
        limits: Settings,
        clock: Callable[[], datetime],
        markers: Markers,
        fetch: Fetch,
        pace: Pace | None = None,
        crew: Crew | None = None,
        travel: Callable[[Decision | Parked], Decision | Parked] = lambda settled: settled,
    ) -> None:
        self._record = record
        self._looker = looker
        self._overlay = overlay
        self._calls = calls
        self._judge = judge
        self._limits = limits
        self._clock = clock
        self._markers = markers
        self._backlog = Backlog(limits, fetch)
        self._settled: defaultdict[Hashable, list[tuple[Pending, Settled]]] = defaultdict(list)
        self._uncollected = 0
        self._asked: set[str] = set()
        """Threads whose first event is under way."""
        self._long = LongEvents(limits)
        self._breakers = Breakers(limits)
        self._stopping = False
        self._told: set[str] = set()
        self._pace = pace
        self.crew = crew or Crew()
        """The processes that decide together, this one among them."""
        self._travel = travel
        """Makes what is settled fit the topic it goes to."""
        self._publishing = Lock()
        self._refresh_at = datetime.min.replace(tzinfo=UTC)
        self._refused = False
        """Others are judging, and a suspect of one of the processes waits to be alone."""
        self.emitted = 0
        """Decisions and parkings so far (count)."""

    def __len__(self) -> int:
        """Events taken and not handed back yet (count)."""
        return len(self._backlog) + self._uncollected

    def room(self) -> Room:
        """How much more it should be handed now: a few waves ahead, within the bounds of pending.

        Events behind one that fails do not count as read ahead, so that other threads go on. Nothing while a
        provider is unwell: the topic is the buffer.
        """
        events, size = self._backlog.room()
        now = self._clock()
        if not self._breakers.are_closed(now):
            # Somebody has to find out whether it is well again: with nobody here who could, one more is read.
            return Room(1 if not len(self) and self._breakers.room(1, 0, now) else 0, size)
        ahead = self._limits.read_ahead - (len(self) - self._backlog.failing())
        return Room(max(0, min(ahead, events - self._uncollected)) if size else 0, size)

    def take(self, owner: Hashable, pending: Iterable[Pending | Held]) -> None:
        """Accept events in the order they arrived; all events of a thread have one owner."""
        taken = list(pending)
        for number, event in enumerate(taken):
            if isinstance(event, Pending) and event.judged:
                if self._long.goes_on(event):
                    self._sketch(event)
                else:
                    # The settings cut it otherwise now: it is judged from its beginning.
                    taken[number] = replace(event, judged=())
        self._backlog.take(owner, taken)

    def pending(self, owner: Hashable) -> tuple[Pending | Held, ...]:
        """The owner's events that it must not lose, each thread's in order: its state in a snapshot.

        What is settled counts until it was collected: only then is it on its way to a topic.
        """
        uncollected = (event for event, _ in self._settled.get(owner, ()))
        return (*uncollected, *self._backlog.kept(owner))

    def collect(self, owner: Hashable) -> list[Settled]:
        """Hand over what has become of the owner's events."""
        settled = self._settled.pop(owner, [])
        self._uncollected -= len(settled)
        return [each for _, each in settled]

    def owns(self, owner: Hashable) -> bool:
        """Whether anything of the owner's is here."""
        return owner in self._settled or self._backlog.owns(owner)

    def next_at(self, owner: Hashable) -> datetime | None:
        """When the owner has to ask again; None when there is nothing to ask for."""
        now = self._clock()
        if owner in self._settled:
            return now
        due = self._backlog.next_at(owner, now)
        if due is None or (self._stopping and not self._calls):
            return None
        # Nothing can begin before a judgment ends or a pause is over: no reason to ask all the time. But the end
        # of an outage wakes everybody, and the engine keeps to the time it was told: in one, all look again.
        resumed = self._breakers.resumed(now)
        if self._calls or self._refused or (self._pace and not self._pace.is_readable(self.emitted)):
            return now + _POLL if resumed else max(due, now + _POLL)
        return max(resumed, min(due, now + _POLL)) if resumed else due

    def stop(self) -> None:
        """Begin nothing more; what is under way may finish."""
        self._stopping = True

    @property
    def under_way(self) -> int:
        """Judgments under way, and what has become of others and was not collected yet (count)."""
        return len(self._calls) + self._uncollected

    def work(self) -> int:
        """Finish what has been judged and begin one wave: the first due event of each thread.

        Returns how many events it finished or took.
        """
        count = self._finish()
        wave = self._wave()
        if wave:
            self._begin(wave)
            count += len(wave) + self._finish()
        self._markers.write()
        if not self._calls:
            self.crew.over()
        self.publish()
        return count

    def publish(self) -> None:
        """Tell the other processes how it is here. May be called from any thread."""
        with self._publishing:
            # Or what another thread has counted before would be told after it.
            self.crew.publish(self.room(), len(self), self.under_way)

    def vitals(self, started: datetime) -> Vitals:
        """How the desk is at this moment."""
        now = self._clock()
        events, size = self._backlog.room()
        return Vitals(
            started=started,
            now=now,
            stopping=self._stopping,
            pending=self._backlog.events,
            held=self._backlog.held,
            pending_bytes=self._backlog.size,
            in_flight=len(self._calls),
            suspects=len(self._markers),
            full=not events or not size,
            breakers=self._breakers.vitals(now),
        )

    def _allowed(self, wanted: int, now: datetime) -> int:
        """How many events may begin now (count)."""
        if self._calls.side_by_side:
            wanted = min(wanted, self._limits.inflight - len(self._calls))
        return self._breakers.room(wanted, len(self._calls), now)

    def _wave(self) -> list[Pending]:
        """The events to begin with now; none while another process has to be alone."""
        wave = self._chosen()
        if not wave:
            self.crew.withdraw()
        self._refused = bool(wave) and not self.crew.begin(alone=self._charged(wave[0]) is not None)
        return [] if self._refused else wave

    def _chosen(self) -> list[Pending]:
        if self._stopping or (self._calls and self._markers.is_alone):
            return []
        now = self._clock()
        self._backlog.refill(now)
        most = self._allowed(self._limits.wave, now)
        if self._pace:
            most = min(most, int(not self._calls and self._pace.is_readable(self.emitted)))
        if most <= 0:
            return []
        if not self._breakers.are_closed(now) and next(self._backlog.heads(now), None) is None:
            # The pause is over and nobody is due: somebody finds out.
            self._backlog.wake()
        due = (event for event in self._backlog.heads(now) if event.key not in self._asked)
        if self.crew.count > 1 and now >= self._refresh_at:
            self._refresh_at = now + _REFRESH
            self._markers.refresh()
        if not len(self._markers):
            return list(islice(due, most))
        heads = list(due)
        suspect = next((event for event in heads if self._charged(event) is not None), None)
        if suspect is None:
            return heads[:most]
        # Alone, or nobody could be blamed for what happens next.
        return [] if len(self._calls) else [suspect]

    def _charged(self, event: Pending) -> int | None:
        return self._markers.charged(event.arrival.coordinates)

    def _begin(self, wave: list[Pending]) -> None:
        """Look for the events of a wave and have them judged."""
        charged = self._charged(wave[0])
        if charged is not None and charged >= self._limits.retry_cap:
            reason = f"the process ended {charged} times without a word while this event alone was being judged"
            self._markers.convict(wave[0].arrival.coordinates)
            self._park(wave[0], ClassifiedFailure(FailureClass.CONTENT, reason), None)
            return
        self._asked.update(event.key for event in wave)
        self._markers.enter((event.arrival for event in wave), alone=charged is not None)
        reach("judgment.before")
        try:
            known = self._known(wave)
            fresh = [event for event in wave if not self._repeats(event, known)]
            shown = [self._long.next_segment(event) for event in fresh]
            views = self._looker.look(shown, known)
        except Exception as error:
            failure = classify(error)
            for event in wave:
                if event.key in self._asked:
                    self._unseen(failure)
                    self._fail(event, failure)
            return
        if self._breakers.are_closed(self._clock()):
            for event in fresh:
                if not event.judged:
                    self._looker.ask_segments(list(self._long.segments_to_come(event)))
            # Nothing of others while a suspect is alone, for a crash would be charged to it; and in a paced run
            # nothing before its turn.
            ahead = charged is None and self._pace is None
            self._looker.ask_ahead(self._coming(wave) if ahead else [])
        for event, arrival, view in zip(fresh, shown, views, strict=True):
            self._ask(Asked(event, arrival.event, view, event.rejected))

    def _repeats(self, event: Pending, known: dict[str, EventRow]) -> bool:
        """Settle an event that was decided before."""
        row = known.get(event.arrival.event.uid)
        if event.arrival.event.uid in self._overlay or (row and row.decision):
            self._settle(event, Repeated(event.arrival))
            return True
        return False

    def _ask(self, asked: Asked) -> None:
        """Have an event judged, unless it says nothing or was not looked for."""
        if asked.event.is_blank or (asked.pending.judged and not asked.event.text.strip()):
            # Nothing was said, or nothing more: no judge is asked (N3).
            uid, segment = asked.event.uid, len(asked.pending.judged)
            made = operation_id(uid, segment, 0)
            nothing = NotATask(id=made, segment=segment, number=0, reason="the event has no text")
            self._judged(asked, (nothing,), judge="blank/1")
        elif all(isinstance(read.outcome, Failed) for read in asked.view.searches()):
            # Memory was not seen at all: nothing is settled, whatever the thread's own rows say (R23).
            failure = ClassifiedFailure(blame(asked.view), failures(asked.view))
            self._unseen(failure)
            self._fail(asked.pending, failure, asked.view)
        else:
            self._answered(self._breakers.memory)
            self._calls.start(asked)

    def _finish(self) -> int:
        """Guard the judgments that have ended."""
        count = 0
        for call in self._calls.ended():
            count += 1
            try:
                self._guard(call)
            except Exception as error:
                self._fail(self._backlog.head(call.asked.pending.key), classify(error), call.asked.view)
        return count

    def _guard(self, call: Call) -> None:
        asked = call.asked
        if isinstance(call.result, ClassifiedFailure):
            if call.result.failure is FailureClass.TRANSIENT:
                self._breakers.judge.failed(call.result.reason, self._clock())
            elif call.result.failure is FailureClass.CONTENT:
                self._answered(self._breakers.judge)
            self._fail(self._backlog.head(asked.pending.key), call.result, asked.view)
            return
        self._answered(self._breakers.judge)
        segment = len(asked.pending.judged)
        match guard(call.result, asked.event, asked.view, self._limits, asked.attempt, segment):
            case Accepted(operations):
                self._judged(asked, operations)
            case Waits(reason):
                self._fail(asked.pending, ClassifiedFailure(blame(asked.view), reason), asked.view)
            case Refused(rejections):
                rejected = (*asked.rejected, *rejections)
                # A refusal is kept even when the next judgment never comes.
                refused = replace(asked.pending, rejected=rejected)
                self._backlog.replace(refused)
                if asked.attempt < self._limits.judgments:
                    again = replace(asked, pending=refused, rejected=rejected, attempt=asked.attempt + 1)
                    self._calls.start(again)
                else:
                    failure = ClassifiedFailure(FailureClass.CONTENT, refusals(rejected))
                    self._park(refused, failure, asked.view)

    def _judged(self, asked: Asked, operations: tuple[JudgedOperation, ...], judge: str | None = None) -> None:
        """The event is decided, or one more segment of a long one is judged."""
        event = replace(
            asked.pending,
            judged=(*asked.pending.judged, Judged(self._long.next_span(asked.pending), asked.view, operations)),
            rejected=asked.rejected,
            not_before=None,
            failing_since=None,
        )
        if self._long.is_judged(event):
            # Kept as it was until it is collected: what a snapshot holds has to be one that can be judged again.
            self._settle(asked.pending, self._travel(self._long.decision(event, judge or self._judge)))
        else:
            self._backlog.replace(event)
            self._sketch(event)
            self._over(event)

    def _sketch(self, event: Pending) -> None:
        """Let the next segment see what the earlier ones have decided."""
        self._overlay.sketch(self._long.decision(event, self._judge))

    def _coming(self, wave: Sequence[Pending]) -> list[Arrival]:
        """The events that will most likely be the next wave: those behind this one's, and other heads."""
        now = self._clock()
        taken = {event.key for event in wave}
        behind = (self._backlog.second(key) for key in taken)
        others = (event for event in self._backlog.heads(now) if event.key not in self._asked | taken)
        coming = (event for events in (behind, others) for event in events if event and event.is_due(now))
        return [self._long.next_segment(event) for event in islice(coming, self._limits.wave)]

    def _known(self, wave: Sequence[Pending]) -> dict[str, EventRow]:
        """Rows of the wave's events, of those they reply to, and of the oldest the overlay still holds."""
        waiting = self._overlay.oldest(_SETTLED_AT_ONCE)
        replied = filter(None, (replied_uid(event.arrival) for event in wave))
        known = self._record.events([*(event.arrival.event.uid for event in wave), *replied, *waiting])
        self._overlay.settle([uid for uid in waiting if uid in known and known[uid].decision])
        return known

    def _unseen(self, failure: ClassifiedFailure) -> None:
        """Count a failure of what is searched and read."""
        if failure.failure is FailureClass.TRANSIENT:
            self._breakers.memory.failed(failure.reason, self._clock())

    def _answered(self, provider: Breaker) -> None:
        if provider.answered():
            self._backlog.wake()

    def _fail(self, event: Pending, failure: ClassifiedFailure, view: View | None = None) -> None:
        self._tell(failure)
        later = event.after(failure, self._clock(), self._limits)
        # What was searched for its later segments is old by the time it is tried again.
        self._looker.forget(event.arrival.event.uid)
        if later is None:
            self._park(event, failure, view)
        else:
            self._backlog.replace(later)
            self._over(event)

    def _tell(self, failure: ClassifiedFailure) -> None:
        """Log what nobody foresaw, once for each reason: it is tried again for a long time, in silence."""
        if failure.failure is not FailureClass.UNKNOWN or failure.reason in self._told or len(self._told) >= _TOLD:
            return
        self._told.add(failure.reason)
        _log.warning(
            "an event cannot be decided and is tried again for %g s: %s",
            self._limits.unknown_for,
            failure.reason,
            exc_info=failure.__cause__ if _log.isEnabledFor(logging.INFO) else None,
        )

    def _park(self, event: Pending, failure: ClassifiedFailure, view: View | None) -> None:
        parked = Parked(
            arrival=event.arrival,
            failure=failure.failure,
            reason=failure.reason,
            attempts=event.tries + 1,
            rejected=event.rejected,
            view=view,
        )
        self._overlay.forget(event.arrival.event.uid)
        self._settle(event, self._travel(parked))

    def _settle(self, event: Pending, settled: Settled) -> None:
        if isinstance(settled, Decision):
            self._overlay.add(settled)
        self._settled[self._backlog.owner(event.key)].append((event, settled))
        self._uncollected += 1
        self.emitted += not isinstance(settled, Repeated)
        self._long.forget(event)
        self._looker.forget(event.arrival.event.uid)
        self._backlog.drop(event)
        self._over(event)
        self._markers.clear(event.arrival.coordinates)

    def _over(self, event: Pending) -> None:
        """The judgment of an event is over, whatever came of it."""
        reach("judgment.after")
        self._asked.discard(event.key)
        self._markers.leave(event.arrival.coordinates)

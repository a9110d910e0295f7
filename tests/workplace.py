"""What tests drive the pipeline with: a real store, a desk, a scripted judge, and a log of every call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from connectors.markers import Markers
from flows.apply import record_positions
from flows.calls import Calls
from flows.daemons import Daemons
from flows.desk import Desk, Repeated, Settled
from flows.judge.contract import (
    Answer,
    Proposal,
    ProposedCreate,
    ProposedMatch,
    ProposedNothing,
    ProposedUpdate,
)
from flows.judge.veto import News, Veto
from flows.overlay import Overlay
from flows.pending import Pending
from flows.retrieve.look import Looker
from store import Store, open_store
from store.commit import CommitReport, StoreWriter
from store.derive import Applied
from store.schema import (
    Arrival,
    Coordinates,
    Decision,
    Event,
    Message,
    Parked,
    Participant,
    Rejection,
    Settings,
    TaskRow,
    View,
)
from store.upkeep import Upkeep

START = datetime(2024, 5, 1, 9, 0, tzinfo=UTC)
ANNA = Participant(id="anna", name="Anna", address="anna@example.org")
BEN = Participant(id="ben", name="Ben", address="ben@example.org")

Rule = Callable[[Event, View], Answer]


def event(text: str, *, id: str = "1", thread: str = "t", **fields: Any) -> Event:
    """An event with what the test does not care about filled in."""
    given = {"source": "chat", "at": START, "author": ANNA, **fields}
    return Event(id=id, thread=thread, text=text, **given)


def create(quote: str, title: str | None = None, **fields: Any) -> ProposedCreate:
    """A sound proposal to create."""
    given = {"reason": "it asks", "not_nothing": "nothing says it already", **fields}
    return ProposedCreate(title=title or quote[:60], quote=quote, **given)


def update(target: str, quote: str, **fields: Any) -> ProposedUpdate:
    """A sound proposal to update."""
    given = {"evidence": (target,), "reason": "it says so", **fields}
    return ProposedUpdate(target=target, quote=quote, **given)


def matched(target: str, **fields: Any) -> ProposedMatch:
    """A sound proposal to do nothing because a row says it already."""
    return ProposedMatch(target=target, **{"evidence": (target,), "reason": "it is there", **fields})


def nothing(reason: str = "small talk") -> ProposedNothing:
    """A proposal to do nothing because it is no task."""
    return ProposedNothing(reason=reason)


def answer(*proposals: Proposal) -> Answer:
    """An answer of these proposals."""
    return Answer(proposals=proposals)


@dataclass
class Script:
    """A judge that answers by rule, or one prepared answer after the other; it logs what it was asked."""

    rule: Rule | None = None
    answers: list[Answer | Exception] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    refusals: list[tuple[Rejection, ...]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    name: str = "script/1"
    remote: bool = False

    def then(self, *proposals: Proposal) -> Script:
        """Answer this to the next call that has no answer yet."""
        self.answers.append(Answer(proposals=proposals))
        return self

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        self.views.append(view)
        self.refusals.append(refused)
        self.log.append(f"judge {event.id}")
        if self.answers:
            prepared = self.answers.pop(0)
            if isinstance(prepared, Exception):
                raise prepared
            return prepared
        if self.rule is None:
            return answer(nothing())
        return self.rule(event, view)


def create_or_match(event: Event, view: View) -> Answer:
    """Match the first row of the event's own thread, or of a search that names nothing else; else create."""
    own = [row for row in view.tasks() if row.same_thread]
    own = own or [row for row in view.slices if Veto(event).against((row,), News()) is None]
    return answer(matched(own[0].handle)) if own else answer(create(event.text))


class Watched:
    """A part of the store with each call logged, and with faults to order."""

    def __init__(self, target: object, log: list[str], faults: dict[str, Exception], part: str) -> None:
        self._target, self._log, self._faults, self._part = target, log, faults, part

    def __getattr__(self, method: str) -> Any:
        read = getattr(self._target, method)

        def called(*arguments: Any, **named: Any) -> Any:
            self._log.append(f"{self._part}.{method}")
            if method in self._faults:
                raise self._faults[method]
            return read(*arguments, **named)

        return called


@dataclass
class Workplace:
    """decide and apply by hand: `say` decides, `apply` commits, `follow` lets memory catch up."""

    store: Store
    judge: Script
    desk: Desk
    overlay: Overlay
    writer: StoreWriter
    log: list[str]
    faults: dict[str, Exception]
    """Exceptions that reads raise, by method name (`text`, `exact`, `thread_tasks`, `recent_tasks`, …)."""
    now: datetime = START
    arrived: list[Arrival] = field(default_factory=list)
    """Messages of the events topic, in order."""
    emitted: list[Applied] = field(default_factory=list)
    """Messages of the operations topic, in order."""
    _applied: int = 0

    @classmethod
    @contextmanager
    def opened(cls, path: Path, judge: Script, settings: Settings) -> Iterator[Workplace]:
        """A workplace over the store in a folder, made when it is missing."""
        store = open_store(path, create=True, embedder=settings.embedding, far=settings.vector_distance)
        log, faults = judge.log, {}
        watched = Store(
            store.tables,
            Watched(store.record, log, faults, "record"),  # type: ignore[arg-type]
            Watched(store.memory, log, faults, "memory"),  # type: ignore[arg-type]
        )
        overlay = Overlay()
        with Daemons(4, "read") as pool:
            looker = Looker(watched, overlay, settings, pool)
            clock: list[Workplace] = []
            desk = Desk(
                watched.record,
                looker,
                overlay,
                Calls(judge, settings.judge_timeout, pool),
                judge.name,
                settings,
                lambda: clock[0].now,
                Markers(path.with_suffix(".in_flight.json")),
                lambda places: [clock[0].arrived[place.offset] for place in places],
            )
            writer = StoreWriter(store.tables, store.record, store.memory, Upkeep(store.tables, 512, 48))
            workplace = cls(store, judge, desk, overlay, writer, log, faults)
            clock.append(workplace)
            yield workplace

    def arrive(self, event: Event, arrived: datetime | None = None) -> Arrival:
        """An event as read from the events topic: each takes the next offset and a later second."""
        self.now += timedelta(seconds=1)
        place = Coordinates(topic="lookfirst.events", offset=len(self.arrived))
        arrival = Arrival(event=event, arrived=arrived or max(self.now, event.at), coordinates=place)
        self.arrived.append(arrival)
        return arrival

    def take(self, *events: Event | Arrival) -> list[Settled]:
        """Hand events to the desk and work as long as something is due; what is settled is emitted."""
        arrivals = [each if isinstance(each, Arrival) else self.arrive(each) for each in events]
        self.desk.take("owner", [Pending(arrival) for arrival in arrivals])
        return self.work()

    def work(self) -> list[Settled]:
        """Work as long as something is due now."""
        settled: list[Settled] = []
        while (due := self.desk.next_at("owner")) is not None and due <= self.now:
            self.desk.work()
            settled += self.desk.collect("owner")
        for each in settled:
            if not isinstance(each, Repeated):
                self.emit(each)
        return settled

    def wait(self, seconds: float) -> list[Settled]:
        """Let time pass, then work."""
        self.now += timedelta(seconds=seconds)
        return self.work()

    def say(self, text: str, **fields: Any) -> Settled:
        """One event, decided at once; fails when it is not."""
        fields.setdefault("id", str(len(self.arrived) + 1))
        (settled,) = self.take(event(text, **fields))
        return settled

    def decided(self, text: str, **fields: Any) -> Decision:
        """One event, which must end in a Decision."""
        settled = self.say(text, **fields)
        assert isinstance(settled, Decision), settled
        return settled

    def parked(self, text: str, **fields: Any) -> Parked:
        """One event, which must end parked."""
        settled = self.say(text, **fields)
        assert isinstance(settled, Parked), settled
        return settled

    def emit(self, message: Message) -> Applied:
        """Append a message to the operations topic."""
        place = Coordinates(topic="lookfirst.operations", offset=len(self.emitted))
        applied = Applied(message, place, self.now, message.model_dump_json())
        self.emitted.append(applied)
        return applied

    def apply(self) -> CommitReport:
        """Commit what was emitted and not applied yet; memory stays behind."""
        batch = self.emitted[self._applied :]
        self._applied = len(self.emitted)
        self.log.append("apply")
        return self.writer.commit(batch, record_positions(batch, "lookfirst.operations", "id") if batch else [])

    def follow(self) -> None:
        """Let memory catch up with the record."""
        self.writer.follow()

    def settle(self) -> None:
        """Apply and follow: everything decided so far is readable and searchable."""
        self.apply()
        self.follow()

    def tasks(self) -> list[TaskRow]:
        """The listed tasks, oldest first."""
        ids = self.store.record.arrow("tasks")["id"].to_pylist()
        return sorted(self.store.record.tasks(ids).values(), key=lambda task: (task.created, task.id))

    def calls(self, *names: str) -> list[str]:
        """The logged calls, only those of the given names when there are any."""
        return [call for call in self.log if not names or call in names]


def rows_of(store: Store, tables: Sequence[str] = ("tasks", "people", "events")) -> dict[str, list[Any]]:
    """Row tables as plain values, for comparison."""
    return {name: store.record.arrow(name).to_pylist() for name in tables}

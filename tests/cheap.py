"""A desk whose reads cost nothing: for tests of what it does with many events, not of what it finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from connectors.markers import Markers
from connectors.topic_file import Place, TopicFile
from flows.bench.nothing import EmptyLooker, EmptyRecord, NoOverlay
from flows.calls import Calls
from flows.daemons import Daemons
from flows.desk import Desk, Settled
from flows.judge.contract import Judge
from flows.parse import read_event
from flows.pending import Held, Pending
from store.schema import (
    Arrival,
    Coordinates,
    Settings,
)
from tests.workplace import START


@dataclass
class CheapDesk:
    """A desk with a clock of its own, fed from a topic file as far as it has room."""

    topic: TopicFile
    judge: Judge
    limits: Settings
    path: Path
    threads: Daemons | None = None
    clock: Callable[[], datetime] | None = None
    now: datetime = START
    settled: list[Settled] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.place: Place = self.topic.start
        self.markers = Markers(self.path / "in_flight.json")
        self.desk = Desk(
            EmptyRecord(),
            EmptyLooker(self.limits),
            NoOverlay(),
            Calls(self.judge, self.limits.judge_timeout, self.threads),
            self.judge.name,
            self.limits,
            self.clock or (lambda: self.now),
            self.markers,
            self.fetch,
        )

    def fetch(self, places: Sequence[Coordinates]) -> list[Arrival]:
        """Held events, read again from the topic."""
        found = [read_event(incoming) for incoming in self.topic.fetch(places)]
        assert all(isinstance(each, Arrival) for each in found)
        return found  # type: ignore[return-value]

    def read(self) -> int:
        """Hand over as much as there is room for; returns how many events that were."""
        room = self.desk.room()
        if not room.messages:
            return 0
        found, self.place = self.topic.read(self.place, room.messages, room.size)
        arrivals = [read_event(incoming) for incoming in found]
        self.desk.take("owner", [Pending(each) for each in arrivals if isinstance(each, Arrival)])
        return len(found)

    def work(self) -> list[Settled]:
        """Read and work as long as something is due now."""
        settled: list[Settled] = []
        while True:
            read = self.read()
            due = self.desk.next_at("owner")
            if due is not None and due <= self.now:
                self.desk.work()
                settled += self.desk.collect("owner")
            elif not read:
                self.settled += settled
                return settled

    def poll(self) -> None:
        """See what has become of judgments that are under way, and work on."""
        self.desk.work()
        self.settled += self.desk.collect("owner")
        self.work()

    def pass_time(self, seconds: float) -> list[Settled]:
        """Let time pass, then work."""
        self.now += timedelta(seconds=seconds)
        before = len(self.settled)
        self.poll()
        return self.settled[before:]

    def state(self) -> tuple[Pending | Held, ...]:
        """What a snapshot would keep."""
        return self.desk.pending("owner")

"""`decide` on Kafka: a process, or one of a set, that reads events and the store, and writes Decisions."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Final, NoReturn

from connectors.kafka_flow import KafkaSink, KafkaSource, Reading
from connectors.kafka_lag import KafkaLag
from connectors.kafka_topic import KafkaTopic
from connectors.lock import in_turn, is_held
from connectors.markers import Markers
from connectors.topic import Offsets, behind
from connectors.topic_file import utc_now
from flows.calls import Calls
from flows.crew import Crew
from flows.daemons import Daemons
from flows.data_folder import check_positions
from flows.decide import decide
from flows.desk import Desk
from flows.judge.contract import Judge
from flows.kafka_run import ALONE, KafkaRun, Member
from flows.resume import fetch_events, resume
from flows.retrieve.look import Looker
from flows.tally import Tally, Watcher
from flows.taps import EventsTap
from flows.vitals import Vitals
from store import Store
from store.schema import StoreError

_LOOK: Final = 0.5
"""Time between two looks at a store that others fill (s)."""
_MAKING: Final = 60.0
"""Time after which a store that is not whole is not being made, but damaged (s)."""


@dataclass(slots=True)
class DecideRun(KafkaRun):
    """One run of `decide`."""

    judge: Judge = field(kw_only=True)
    member: Member = ALONE
    forced: Offsets | None = None
    """Offsets to go on from, whatever the state says."""
    _markers: Markers | None = None
    _desk: Desk | None = None
    _lag: KafkaLag | None = None
    _crew: Crew | None = None

    def stop_at_once(self, code: int) -> NoReturn:
        """End the process without waiting for anything; what is under way is nobody's fault."""
        try:
            if self._markers:
                self._markers.end()
        finally:
            super(DecideRun, self).stop_at_once(code)

    def vitals(self) -> Vitals:
        """How the run is at this moment. May be called from any thread."""
        desk, lag, tally = self._desk, self._lag, self.tally
        if desk is None or lag is None:
            return Vitals(started=self.started, now=utc_now(), stopping=self.is_stopping, recovering=True)
        read, end = lag.places
        return replace(
            desk.vitals(self.started),
            stopping=self.is_stopping,
            decided=tally.decided,
            repeated=tally.repeated,
            parked=tally.parked,
            unreadable=tally.unreadable_events,
            places={"events_read": read, "events_end": end},
            behind=end - read,
            brokers_failure=lag.failure,
        )

    def run(self, watcher: Watcher | None = None) -> Tally:
        """Decide until it is stopped, or until the end of the topic when that was asked for.

        Waits, and says so, until apply has made the store and is close to the end of the operations. Raises
        LookfirstError when another process has this role, something does not belong together, or the flow failed.
        """
        with ExitStack() as held:
            held.enter_context(self.held(f"decide-{self.member.number}"))
            self._refuse_a_larger_set()
            events, operations, letters = self.topics("events", "operations", "dead-letters")
            again = KafkaTopic(self.brokers, events.name, (events.id, events.partitions))
            for topic in (events, operations, letters, again):
                held.callback(topic.close)
            store = self._store()
            if store is None or (reached := self._close_enough(store, operations)) is None:
                return self.tally
            crew = self._crew = self._joined()
            held.callback(crew.close)
            self._markers = markers = self._marked()
            # However it ends from here on, unless the process is killed, nobody is to blame for it.
            held.callback(markers.end)
            readers = held.enter_context(Daemons(self.settings.readers, "read"))
            callers = held.enter_context(Daemons(self.settings.inflight if self.judge.remote else 0, "judge"))
            seekers = held.enter_context(Daemons(self.settings.readers if self.settings.embedding else 0, "seek"))
            overlay = resume(operations, reached, store.record, markers)
            self._desk = desk = Desk(
                store.record,
                Looker(store, overlay, self.settings, readers, seekers),
                overlay,
                Calls(self.judge, self.settings.judge_timeout, callers),
                self.judge.name,
                self.settings,
                utc_now,
                markers,
                partial(fetch_events, again),
                crew=crew,
                travel=self.travel,
            )
            desk.publish()
            self._lag = lag = KafkaLag(self.brokers, events.name, f"{self.folder.prefix}.decide", self._count_read)
            lag.start()
            held.callback(lag.end)
            if self.until_end:
                self.signals.input_closed.set()
            remedy = (
                "`lookfirst run decide --offsets PARTITION:OFFSET` goes on from where you say; nothing is decided "
                "twice, and what is gone from the topic is lost."
            )
            flow = decide(
                KafkaSource(
                    Reading(
                        events,
                        self.settings.source_batch,
                        forced=self.forced,
                        until=events.ends() if self.until_end else None,
                        remedy=remedy,
                    ),
                    EventsTap(desk, self.signals, self.settings.stop_wait),
                    lag,
                ),
                desk,
                KafkaSink(operations, self._count_written),
                KafkaSink(letters),
                self.tally,
                self.settings.buckets,
                self.letter,
            )
            self.workers.start("decide", self.engine, "decide", flow, self.member)
            self.wait(watcher, self._keep_in_touch)
        self.workers.raise_first(self.folder.recovery)
        return self.tally

    def _refuse_a_larger_set(self) -> None:
        """What an earlier, larger set has left running would decide the same events."""
        for role in self.folder.roles.glob("decide-*"):
            number = role.name.partition("-")[2]
            if number.isdecimal() and int(number) >= self.member.count and is_held(role):
                raise StoreError(
                    f"Process {number} of a larger set still decides over {self.folder.path}; stop it before you "
                    f"start a set of {self.member.count}."
                )

    def _store(self) -> Store | None:
        """The store, once apply has made it; None when the run was stopped before."""
        told = False
        patience: float | None = None
        while not self.is_stopping:
            if (self.folder.path / "store" / "memory.lance").is_dir():
                patience = patience or monotonic() + _MAKING
                try:
                    return self.folder.store()
                except StoreError:
                    # While it is being made it is not whole. One that stays so is told.
                    if monotonic() > patience:
                        raise
            elif not told:
                self.tell(
                    f"Waiting for the store in {self.folder.path}: `lookfirst run apply --brokers "
                    f"{self.brokers.servers} --data {self.folder.path}` makes it."
                )
                told = True
            self.signals.stopping.wait(_LOOK)
            self.heed_parent()
        return None

    def _close_enough(self, store: Store, operations: KafkaTopic) -> dict[int, int] | None:
        """Where the record is, once little enough lies beyond it to be taken up; None when stopped before."""
        told = False
        while not self.is_stopping:
            reached = check_positions(store, operations)
            left = behind(reached, operations.ends())
            if left <= self.settings.takeup:
                return reached
            if not told:
                self.tell(f"Waiting for apply: the record is {left:,} operations behind.")
            told = True
            self.signals.stopping.wait(_LOOK)
            self.heed_parent()
        return None

    def _joined(self) -> Crew:
        if self.member.count == 1:
            return Crew()
        return Crew(self.folder.recovery / "crew", self.member.number, self.member.count)

    def _marked(self) -> Markers:
        """The marks of this process; those of processes that are no more are taken over by the first one."""
        folder = self.folder.recovery / "marks"
        own = folder / f"decide-{self.member.number}.json"
        with in_turn(folder):
            # Those that are yet to come among them: what they clear is to be seen, too.
            current = {folder / f"decide-{number}.json" for number in range(self.member.count)}
            earlier = set(folder.glob("decide-*.json")) - current
            made = Markers(own, sorted((current | earlier) - {own}))
            if self.member.number == 0:
                for path in earlier:
                    path.unlink()
        return made

    def _keep_in_touch(self) -> None:
        """A set stops as a whole, and a process that reads nothing still says that it has room."""
        crew, desk, lag = self._crew, self._desk, self._lag
        if crew is None or desk is None or lag is None:
            return
        if self.is_stopping:
            desk.stop()
            crew.stop()
            if crew.count > 1 and not lag.joined.is_set():
                # One that stopped before it came would be waited for in vain. Nothing has been begun.
                self.stop_at_once(0)
        elif lag.joined.is_set() and crew.is_stopping:
            self.stop()
        desk.publish()

    def _count_read(self, count: int) -> None:
        if self._crew:
            self._crew.handed(count)
        self.tally.read += count

    def _count_written(self, count: int) -> None:
        self.tally.written += count

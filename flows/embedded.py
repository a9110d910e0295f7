"""The embedded run: the dataflows in one process, topics and store in one folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import NoReturn

from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from connectors.lock import exclusive
from connectors.markers import Markers
from connectors.topic_file import Place, TopicFile, utc_now
from connectors.topic_flow import TopicSink, TopicSource
from flows.apply import StoreSink, apply
from flows.background import begin_embedding, finish_embedding, follow
from flows.calls import Calls
from flows.daemons import Daemons
from flows.data_folder import DataFolder, check_positions
from flows.decide import decide
from flows.desk import Desk
from flows.embedding import Embedding
from flows.intake import Intake, Line, produced
from flows.judge.contract import Judge
from flows.maintain import writer_of
from flows.resume import fetch_events, resume
from flows.retrieve.look import Looker
from flows.tally import Tally, Watcher
from flows.taps import EventsTap, OperationsTap, Paced, PacedTap, Signals
from flows.vitals import Vitals
from flows.workers import Workers
from store import Store
from store.schema import Settings, StoreError

_PACED_EPOCH = timedelta(milliseconds=5)
_PRODUCED_AT_ONCE = 256
"""Lines that are appended together at most (count)."""


@dataclass(slots=True)
class EmbeddedRun:
    """One run over a data folder. `stop` may be called from a signal handler."""

    folder: DataFolder
    settings: Settings
    judge: Judge
    paced: bool = False
    watched: Callable[[Store], Store] | None = None
    """Puts something between decide and the store it reads, such as a bench that records the reads."""
    tally: Tally = field(default_factory=Tally)
    signals: Signals = field(default_factory=Signals.fresh)
    _started: datetime = field(default_factory=utc_now)
    _markers: Markers | None = None
    _desk: Desk | None = None
    _embedding: Embedding | None = None
    _topics: dict[str, TopicFile] = field(default_factory=dict)
    """Own handles for the page of health, which is asked from another thread."""
    _ends_lock: threading.Lock = field(default_factory=threading.Lock)
    _workers: Workers = field(init=False)

    def __post_init__(self) -> None:
        self._workers = Workers(self.stop)

    def stop(self) -> None:
        """Stop reading, let what is under way finish, and end."""
        self.signals.stopping.set()
        self.signals.input_closed.set()

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self.signals.stopping.is_set()

    def stop_at_once(self, code: int) -> NoReturn:
        """End the process without waiting for anything; what is under way is nobody's fault."""
        try:
            if self._markers:
                self._markers.end()
        finally:
            os._exit(code)

    def vitals(self) -> Vitals:
        """How the run is at this moment. May be called from any thread."""
        tally, embedding = self.tally, self._embedding
        if self._desk is None:
            return Vitals(started=self._started, now=utc_now(), recovering=True)
        with self._ends_lock:
            ends = {f"{name}_end": topic.end().offset for name, topic in self._topics.items()}
        return replace(
            self._desk.vitals(self._started),
            stopping=self.signals.stopping.is_set(),
            decided=tally.decided,
            repeated=tally.repeated,
            parked=tally.parked,
            unreadable=tally.unreadable_events,
            dropped=tally.dropped,
            places={
                **ends,
                "events_read": tally.read_to,
                "applied": tally.applied_to,
                "followed": tally.followed_to,
            },
            memory_failure=tally.memory_failure,
            unembedded=embedding.pending if embedding else 0,
            embedder_failure=embedding.trouble if embedding else None,
        )

    def run(self, lines: Iterable[Line] = (), watcher: Watcher | None = None) -> Tally:
        """Append the lines to the events topic, decide and apply until nothing is pending.

        Raises LookfirstError when the folder is in use, belongs to something else, or a flow failed.
        """
        with ExitStack() as held:
            held.enter_context(exclusive(self.folder.recovery))
            readers = held.enter_context(Daemons(self.settings.readers, "read"))
            callers = held.enter_context(Daemons(self.settings.inflight if self.judge.remote else 0, "judge"))
            # Of their own: an embedder that hangs must not hold up what is read from the store.
            seekers = held.enter_context(Daemons(self.settings.readers if self.settings.embedding else 0, "seek"))
            self.folder.check_state()
            store = self.folder.store(create=True)
            self._embedding = embedding = begin_embedding(store, self.settings)
            if embedding:
                held.callback(embedding.end)
            self._markers = markers = Markers(self.folder.recovery / "in_flight.json")
            # However it ends from here on, unless the process is killed, nobody is to blame for it.
            held.callback(markers.end)
            self._topics = {name: self.folder.topic(name) for name in ("events", "operations")}
            flows = self._flows(store, markers, readers, callers, seekers)
            intake = Intake[Line](self.signals.stopping, lambda line: len(line.text))
            # A read from a terminal or a pipe cannot be called off; the process does not wait for it.
            self._workers.start("read", intake.read, lines, waited_for=False)
            self._workers.start("produce", self._produce, intake)
            for flow in flows:
                self._workers.start(flow[0], self._engine, *flow)
            self._workers.wait(partial(watcher.update, self.tally) if watcher else None)
            if self.tally.memory_failure:
                # It may have failed with the last epoch: one more try, then the run says that it lags.
                follow(store, self.tally)
            if embedding:
                finish_embedding(embedding, self.signals.stopping, self.tally, watcher)
        if watcher:
            watcher.update(self.tally)
        self._workers.raise_first(self.folder.recovery)
        return self.tally

    def _flows(
        self, store: Store, markers: Markers, readers: Daemons, callers: Daemons, seekers: Daemons
    ) -> list[tuple[str, Dataflow, timedelta]]:
        settings, tally = self.settings, self.tally
        events, operations = self.folder.topic("events"), self.folder.topic("operations")
        reached = check_positions(store, operations)
        tally.applied_to = sum(reached.values())
        follow(store, self.tally)
        overlay = resume(operations, reached, store.record, markers)
        reading = self.watched(store) if self.watched else store
        pace = Paced(tally, operations, self._embedding) if self.paced else None
        looker = Looker(reading, overlay, settings, readers, seekers)
        self._desk = desk = Desk(
            reading.record,
            looker,
            overlay,
            Calls(self.judge, settings.judge_timeout, callers),
            self.judge.name,
            settings,
            utc_now,
            markers,
            partial(fetch_events, events),
            pace,
        )
        free = EventsTap(desk, self.signals, settings.stop_wait)
        tap = PacedTap(free, desk, pace, self._memory_failed) if pace else free
        batch = 1 if self.paced else settings.source_batch
        epoch = _PACED_EPOCH if self.paced else timedelta(seconds=settings.epoch)
        deciding = decide(
            TopicSource(events, tap, batch, read=self._count_read),
            desk,
            TopicSink(operations, written=self._count_written),
            TopicSink(self.folder.topic("dead-letters")),
            tally,
            settings.buckets,
        )
        writer = writer_of(store, settings)
        applying = apply(
            TopicSource(
                operations, OperationsTap(self.signals), settings.source_batch, operations.place_of(reached[0])
            ),
            StoreSink(writer, operations.name, operations.id, tally, reached),
            TopicSink(self.folder.topic("dead-letters")),
        )
        return [("decide", deciding, epoch), ("apply", applying, epoch)]

    def _produce(self, intake: Intake[Line]) -> None:
        try:
            topic = self.folder.topic("events")
            # Also at a stop: a line of a pipe cannot be read again.
            for lines in intake.batches(_PRODUCED_AT_ONCE):
                topic.append([produced(line) for line in lines])
                self.tally.produced += len(lines)
            if intake.failure is not None:
                raise intake.failure
        finally:
            self.signals.input_closed.set()

    def _engine(self, name: str, flow: Dataflow, epoch: timedelta) -> None:
        try:
            run_main(flow, epoch_interval=epoch, recovery_config=self.folder.recovery_config(name))
        finally:
            if name == "decide":
                self.signals.decided.set()

    def _memory_failed(self, failure: str) -> None:
        raise StoreError(f"A paced run needs memory, which failed ({failure}); mend that and run again.")

    def _count_read(self, count: int, place: Place) -> None:
        if self._desk:
            self._desk.crew.handed(count)
        self.tally.read += count
        self.tally.read_to = place.offset

    def _count_written(self, count: int) -> None:
        self.tally.written += count

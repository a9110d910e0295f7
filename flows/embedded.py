"""The embedded run: the dataflows in one process, topics and store in one folder."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from types import FrameType
from typing import NoReturn, Protocol

from bytewax.dataflow import Dataflow
from bytewax.testing import run_main

from connectors.lock import exclusive
from connectors.markers import Markers
from connectors.topic_file import Place, TopicFile, utc_now
from connectors.topic_flow import TopicSink, TopicSource
from flows.apply import StoreSink, apply
from flows.calls import Calls
from flows.daemons import Daemons
from flows.data_folder import DataFolder, check_positions, state_fault
from flows.decide import decide
from flows.desk import Desk
from flows.embedding import Embedding
from flows.intake import Intake, Line
from flows.judge.contract import Judge
from flows.maintain import vector_writer_of, writer_of
from flows.parse import read_event
from flows.resume import resume
from flows.retrieve.look import Looker
from flows.tally import Tally
from flows.taps import EventsTap, OperationsTap, Paced, PacedTap, Signals
from flows.vitals import Vitals
from store import Store
from store.schema import Arrival, Coordinates, LookfirstError, Settings, StoreError, TopicError

_PACED_EPOCH = timedelta(milliseconds=5)


class Watcher(Protocol):
    """Whoever shows the progress of a run."""

    def update(self, tally: Tally) -> None:
        """Called several times a second, and once at the end."""


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
    _errors: list[BaseException] = field(default_factory=list)
    _started: datetime = field(default_factory=utc_now)
    _markers: Markers | None = None
    _desk: Desk | None = None
    _embedding: Embedding | None = None
    _topics: dict[str, TopicFile] = field(default_factory=dict)
    """Own handles for the page of health, which is asked from another thread."""
    _ends_lock: threading.Lock = field(default_factory=threading.Lock)

    def stop(self) -> None:
        """Stop reading, let what is under way finish, and end."""
        self.signals.stopping.set()
        self.signals.input_closed.set()

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
            self._embedding = embedding = self._begin_embedding(store)
            if embedding:
                held.callback(embedding.end)
            self._markers = markers = Markers(self.folder.recovery / "in_flight.json")
            # However it ends from here on, unless the process is killed, nobody is to blame for it.
            held.callback(markers.end)
            self._topics = {name: self.folder.topic(name) for name in ("events", "operations")}
            flows = self._flows(store, markers, readers, callers, seekers)
            intake = Intake(self.signals.stopping)
            reader = self._thread("read", intake.read, lines)
            # A read from a terminal or a pipe cannot be called off; the process does not wait for it.
            reader.daemon = True
            threads = [
                self._thread("produce", self._produce, intake),
                *(self._thread(flow[0], self._engine, *flow) for flow in flows),
            ]
            for thread in (reader, *threads):
                thread.start()
            try:
                self._watch(threads, watcher)
            except BaseException:
                # Nobody else may have the folder, and no end record stands, while a flow still works.
                self.stop()
                self._watch(threads, None)
                raise
            if self.tally.memory_failure:
                # It may have failed with the last epoch: one more try, then the run says that it lags.
                self._follow(store)
            self._finish_embedding(watcher)
        if watcher:
            watcher.update(self.tally)
        self._raise_first_error()
        return self.tally

    def _begin_embedding(self, store: Store) -> Embedding | None:
        """The background work of the vector lane, when an embedder is set."""
        if store.memory.vectors is None:
            return None
        # Made here and not with the first row: a wrong name is told before anything is read.
        store.memory.vectors.embedder  # noqa: B018
        embedding = Embedding(vector_writer_of(store.memory.vectors, self.settings), self.settings)
        store.memory.projected = embedding.touched
        embedding.start()
        return embedding

    def _finish_embedding(self, watcher: Watcher | None) -> None:
        """Wait for the rows that are not embedded yet, unless the run is stopped or the embedder is unwell."""
        embedding = self._embedding
        while embedding and not (
            embedding.is_done or embedding.lasting_failure or self.signals.stopping.wait(0.05)
        ):
            if watcher:
                watcher.update(self.tally)
        if embedding:
            embedding.end()
            self.tally.embedded, self.tally.unembedded = embedding.rows, embedding.pending
            self.tally.embedder_failure = embedding.failure

    def _watch(self, threads: Sequence[threading.Thread], watcher: Watcher | None) -> None:
        for thread in threads:
            while thread.is_alive():
                thread.join(0.1)
                if watcher:
                    watcher.update(self.tally)

    def _flows(
        self, store: Store, markers: Markers, readers: Daemons, callers: Daemons, seekers: Daemons
    ) -> list[tuple[str, Dataflow, timedelta]]:
        settings, tally = self.settings, self.tally
        events, operations = self.folder.topic("events"), self.folder.topic("operations")
        reached = check_positions(store, operations)
        tally.applied_to = reached
        self._follow(store)
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
            partial(_fetch, events),
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
                operations, OperationsTap(self.signals), settings.source_batch, operations.place_of(reached)
            ),
            StoreSink(writer, operations.name, operations.id, tally),
            TopicSink(self.folder.topic("dead-letters")),
        )
        return [("decide", deciding, epoch), ("apply", applying, epoch)]

    def _produce(self, intake: Intake) -> None:
        try:
            intake.append(self.folder.topic("events"), self._count_produced)
        finally:
            self.signals.input_closed.set()

    def _engine(self, name: str, flow: Dataflow, epoch: timedelta) -> None:
        try:
            run_main(flow, epoch_interval=epoch, recovery_config=self.folder.recovery_config(name))
        finally:
            if name == "decide":
                self.signals.decided.set()

    def _thread(self, name: str, work: Callable[..., None], *arguments: object) -> threading.Thread:
        return threading.Thread(target=self._guarded, args=(work, *arguments), name=name)

    def _guarded(self, work: Callable[..., None], *arguments: object) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            self._errors.append(error)
            self.stop()

    def _follow(self, store: Store) -> None:
        """Let memory follow what is applied already: a kill or an interrupted rebuild may have left it behind."""
        try:
            self.tally.followed_to = store.memory.follow(store.record)
            self.tally.memory_failure = None
        except Exception as error:
            places = store.record.positions()
            self.tally.followed_to = sum(place.next_offset for place in places if place.part == "memory")
            self.tally.memory_failure = f"{type(error).__name__}: {error}"

    def _memory_failed(self, failure: str) -> None:
        raise StoreError(f"A paced run needs memory, which failed ({failure}); mend that and run again.")

    def _count_produced(self, count: int) -> None:
        self.tally.produced += count

    def _count_read(self, count: int, place: Place) -> None:
        self.tally.read += count
        self.tally.read_to = place.offset

    def _count_written(self, count: int) -> None:
        self.tally.written += count

    def _raise_first_error(self) -> None:
        """The first fault that has a sentence of its own; what else went wrong mostly followed from it."""
        for error in self._errors:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, LookfirstError):
                cause = cause.__cause__
            if cause is not None:
                raise cause
        for error in self._errors:
            if (fault := state_fault(error)) is None:
                raise error
            raise StoreError(
                f"The state in {self.folder.recovery} cannot be kept: {fault}; free some space, or check its "
                "permissions, and run again: nothing is lost."
            ) from error


def _fetch(events: TopicFile, places: Sequence[Coordinates]) -> list[Arrival]:
    """Held events, read again. They were events when they were read first."""
    read = [read_event(incoming) for incoming in events.fetch([place.offset for place in places])]
    found = [each for each in read if isinstance(each, Arrival)]
    if len(found) < len(read):
        raise TopicError(f"{events.path} was changed: what was an event there is none any more.")
    return found


@contextmanager
def stopped_by_signals(run: EmbeddedRun) -> Iterator[None]:
    """SIGTERM and Ctrl-C stop the run in order; a second one ends the process at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if run.signals.stopping.is_set():
            run.stop_at_once(128 + number)
        run.stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

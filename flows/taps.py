"""How much the sources of a run hand over, and when they end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from connectors.topic_file import TopicFile
from connectors.topic_flow import Room
from flows.desk import Desk
from flows.embedding import Embedding
from flows.tally import Tally


@dataclass(slots=True)
class Signals:
    """What the threads of a run tell each other."""

    stopping: threading.Event
    """Somebody asked the run to stop: nothing more is read."""
    input_closed: threading.Event
    """Nothing more will be appended to the events topic by this run."""
    decided: threading.Event
    """`decide` has ended: nothing more will be appended to the operations topic by this run."""

    @classmethod
    def fresh(cls) -> Signals:
        """Signals of a run that begins."""
        return cls(threading.Event(), threading.Event(), threading.Event())


class EventsTap:
    """The events source: as many as the desk has room for; ends when all that was read is settled.

    At a stop it ends when the judgments under way have ended too, or have been waited for long enough.
    """

    def __init__(self, desk: Desk, signals: Signals, stop_wait: float) -> None:
        self._desk = desk
        self._signals = signals
        self._stop_wait = stop_wait
        self._stopped: float | None = None
        """When the stop was seen, on the monotonic clock (s)."""
        self._closed = False

    def room(self) -> Room:
        # Asked before the read, so that what the read finds is then all there is.
        self._closed = self._signals.input_closed.is_set()
        if self._stop_seen():
            return Room(0)
        self._desk.publish()
        return self._desk.crew.room()

    def ended(self, *, drained: bool) -> bool:
        stopped = self._stop_seen()
        if stopped is not None:
            # What is pending stays in the state; the next run takes it from there.
            self._desk.publish()
            return self._desk.crew.is_still or monotonic() - stopped >= self._stop_wait
        if not (drained and self._closed):
            return False
        self._desk.publish()
        return self._desk.crew.is_idle

    def _stop_seen(self) -> float | None:
        if self._stopped is None and self._signals.stopping.is_set():
            self._desk.stop()
            self._stopped = monotonic()
        return self._stopped


class Paced:
    """Whether everything that was emitted is readable in record and memory."""

    def __init__(self, tally: Tally, operations: TopicFile, embedding: Embedding | None = None) -> None:
        self._tally = tally
        self._operations = operations
        self._embedding = embedding

    def is_readable(self, emitted: int) -> bool:
        """Whether so many messages of this run are written, and the whole topic can be searched."""
        if self._tally.written < emitted:
            return False
        end = self._operations.end().offset
        followed = self._tally.applied_to >= end and self._tally.followed_to >= end
        return followed and (self._embedding is None or self._embedding.is_done)

    @property
    def failure(self) -> str | None:
        """Why what was emitted will not be readable soon."""
        return self._tally.memory_failure or (self._embedding.lasting_failure if self._embedding else None)


class PacedTap:
    """One event at a time: the next only when everything before it is readable in record and memory."""

    def __init__(self, tap: EventsTap, desk: Desk, pace: Paced, fail: Callable[[str], None]) -> None:
        self._tap = tap
        self._desk = desk
        self._pace = pace
        self._fail = fail

    def room(self) -> Room:
        if failure := self._pace.failure:
            self._fail(failure)
        room = self._tap.room()
        alone = len(self._desk) == 0 and self._pace.is_readable(self._desk.emitted)
        return Room(min(1, room.messages), room.size) if alone else Room(0)

    def ended(self, *, drained: bool) -> bool:
        return self._tap.ended(drained=drained)


class StoppedTap:
    """A source that goes on until a stop, or until its end; at a stop what is there by then is still taken."""

    def __init__(self, signals: Signals, stop_wait: float, *, until_end: bool) -> None:
        self._signals = signals
        self._stop_wait = stop_wait
        self._until_end = until_end
        self._stopped: float | None = None

    def room(self) -> Room:
        if self._stopped is None and self._signals.stopping.is_set():
            self._stopped = monotonic()
        return Room(1 << 30)

    def ended(self, *, drained: bool) -> bool:
        if self._stopped is None:
            return drained and self._until_end
        return drained or monotonic() - self._stopped >= self._stop_wait


class OperationsTap:
    """The operations source: everything at once; ends when `decide` has and all of it is read."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._decided = False

    def room(self) -> Room:
        self._decided = self._signals.decided.is_set()
        return Room(1 << 30)

    def ended(self, *, drained: bool) -> bool:
        return drained and self._decided

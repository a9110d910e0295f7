"""Intake: lines of input onto the events topic, as they come."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from connectors.message import ORIGIN, Outgoing
from connectors.topic_file import TopicFile
from store.schema.event import key_of

_PRODUCED_AT_ONCE = 256
_TAKEN_AT_MOST = 4 * _PRODUCED_AT_ONCE
"""Lines read and not appended yet (count)."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of input with where it was read."""

    text: str
    origin: str


class Intake:
    """Between two threads: one that reads lines, which may block for ever, and one that appends them."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._taken: queue.SimpleQueue[Line | None] = queue.SimpleQueue()

    def read(self, lines: Iterable[Line]) -> None:
        """Take lines as they come; a pipe may be slow, and nobody waits for the next line to use the last."""
        try:
            for line in lines:
                self._taken.put(line)
                if self._stopping.is_set():
                    break
                while self._taken.qsize() > _TAKEN_AT_MOST:
                    time.sleep(0.01)
        finally:
            self._taken.put(None)

    def append(self, topic: TopicFile, count: Callable[[int], None]) -> None:
        """Append what was taken, also at a stop: a line of a pipe cannot be read again."""
        more = True
        while more:
            batch = self._available()
            more = bool(batch) and batch[-1] is not None
            messages = [produced(line) for line in batch if line is not None]
            if messages:
                topic.append(messages)
                count(len(messages))

    def _available(self) -> list[Line | None]:
        """The next lines, at least one; nothing when the run is stopping and all that was taken is used."""
        batch: list[Line | None] = []
        while not batch:
            try:
                batch.append(self._taken.get(timeout=0.1))
            except queue.Empty:
                if self._stopping.is_set():
                    return []
        while batch[-1] is not None and len(batch) < _PRODUCED_AT_ONCE and not self._taken.empty():
            batch.append(self._taken.get())
        return batch


def produced(line: Line) -> Outgoing:
    """The message of a line, keyed by its thread; what names none goes as it is, to become a dead letter."""
    return Outgoing(key_of(line.text), line.text, {ORIGIN: line.origin})

"""Intake: lines of input on their way to the events topic, as they come."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from connectors.message import ORIGIN, Outgoing
from store.schema.event import key_of

_WAITING: Final = 2_000
"""Lines read and not taken yet (count)."""
_CHARACTERS: Final = 8_000_000
"""Of the lines that are taken together, and of those that wait, about."""
_LOOK: Final = 0.1
"""Time between two looks at whether it is to stop, where nothing comes (s)."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of input with where it was read."""

    text: str
    origin: str


class Intake(Generic[_Read]):
    """Between two threads: one that reads, which may block for ever, and one that appends what was read."""

    def __init__(self, stopping: threading.Event, size: Callable[[_Read], int]) -> None:
        """`size` is how long a line is (characters)."""
        self._stopping = stopping
        self._size = size
        self._moved = threading.Condition()
        self._lines: deque[_Read] = deque()
        self._characters = 0
        self._ended = False
        self.failure: BaseException | None = None
        """What reading has raised."""

    def read(self, lines: Iterable[_Read]) -> None:
        """Take lines as they come; a pipe may be slow, and nobody waits for the next line to use the last."""
        try:
            for line in lines:
                self._put(line)
                if self._stopping.is_set():
                    break
        except BaseException as error:
            # Of the thread that reads nobody would hear of it.
            self.failure = error
        finally:
            with self._moved:
                self._ended = True
                self._moved.notify_all()

    def batches(self, at_once: int) -> Iterator[list[_Read]]:
        """The next lines, as soon as there is one; until there are no more, or those before a stop are taken."""
        while batch := self._taken(at_once):
            yield batch

    def _put(self, line: _Read) -> None:
        with self._moved:
            while self._is_full and not self._stopping.is_set():
                self._moved.wait(_LOOK)
            self._lines.append(line)
            self._characters += self._size(line)
            self._moved.notify_all()

    def _taken(self, at_once: int) -> list[_Read]:
        batch: list[_Read] = []
        characters = 0
        with self._moved:
            while not (self._lines or self._ended or self._stopping.is_set()):
                # A signal handler only sets the event, and wakes nobody.
                self._moved.wait(_LOOK)
            while self._lines and len(batch) < at_once and characters < _CHARACTERS:
                batch.append(self._lines.popleft())
                characters += self._size(batch[-1])
            self._characters -= characters
            self._moved.notify_all()
        return batch

    @property
    def _is_full(self) -> bool:
        return len(self._lines) >= _WAITING or self._characters >= _CHARACTERS


def produced(line: Line) -> Outgoing:
    """The message of a line, keyed by its thread; what names none goes as it is, to become a dead letter."""
    return Outgoing(key_of(line.text), line.text, {ORIGIN: line.origin})

"""Lines of input onto the events topic, as they come: what `produce` and the importers send.

Between two threads: one that reads lines, which may block for ever, and one that appends them in batches.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn

from connectors.imported import Imported
from connectors.topic import Topic
from flows.intake import Line, produced
from store.schema import ClassifiedFailure, parse_event

AT_ONCE: Final = 1_000
"""Lines that are appended together at most (count)."""
_WAITING: Final = 2 * AT_ONCE
"""Lines read and not appended yet (count)."""
_CHARACTERS: Final = 8_000_000
"""Of the lines that are appended together, and of those that wait, about."""
_LOOK: Final = 0.1
"""Time between two looks at whether it is to stop, where nothing comes (s)."""
_ENDING: Final = 1.0
"""Time that a reader has to end; one that waits for a pipe does not (s)."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A line that was not sent, because it is too long."""

    origin: str
    bytes: int
    """Of it as UTF-8."""


def _nothing() -> None:
    pass


def _tell_nobody(refused: Refused) -> None:
    pass


@dataclass(slots=True)
class Production:
    """Appends lines to a topic, once. `stop` may be called from a signal handler."""

    topic: Topic
    longest: int | None = None
    """What a line may have (bytes of UTF-8); None is any number."""
    at_once: int = AT_ONCE
    pace: Callable[[], None] = _nothing
    """Called before lines are appended; returns when they may be."""
    refuse: Callable[[Refused], None] = _tell_nobody
    """Told each line that is not sent."""
    again: bool = False
    """The lines can be read again, so that those that wait need not be appended when it is stopped."""
    stopping: threading.Event = field(default_factory=threading.Event)
    appended: int = 0
    """Lines that are in the topic (count)."""
    problems: int = 0
    """Those of them that are no events (count)."""
    first_problems: list[str] = field(default_factory=list)
    """Where the first of these stand, and what is wrong with them."""
    refused: list[Refused] = field(default_factory=list)

    @property
    def events(self) -> int:
        """Events that are in the topic (count)."""
        return self.appended - self.problems

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self.stopping.is_set()

    def stop(self) -> None:
        """Read no more, append what was read by then and cannot be read again, and end."""
        self.stopping.set()

    def stop_at_once(self, code: int) -> NoReturn:
        """End the process without waiting for anything."""
        os._exit(code)

    def run(self, lines: Iterable[Imported], moved: Callable[[], None] = _nothing, told: int = 5) -> None:
        """Append lines until there are no more, or it is stopped; `moved` is called after each batch.

        So many problems as `told` are kept. Raises TopicError when lines cannot be appended, and whatever reading
        raises, once what was read before is in.
        """
        waiting = _Waiting(self.stopping)
        reader = threading.Thread(target=waiting.read, args=(lines,), name="read", daemon=True)
        reader.start()
        try:
            for batch in waiting.batches(self.at_once):
                self.pace()
                if self.again and self.is_stopping:
                    break
                self._append([line for line in batch if self._may_go(line)], told)
                moved()
        except BaseException:
            self.stopping.set()
            raise
        finally:
            reader.join(_ENDING)
        if waiting.failure is not None and not self.is_stopping:
            raise waiting.failure

    def _append(self, batch: list[Imported], told: int) -> None:
        if not batch:
            return
        self.topic.append([produced(Line(line.line, line.origin)) for line in batch])
        self.appended += len(batch)
        found = [f"{line.origin}: {line.problem}" for line in batch if line.problem is not None]
        self.problems += len(found)
        self.first_problems += found[: max(0, told - len(self.first_problems))]

    def _may_go(self, line: Imported) -> bool:
        # A character has six bytes at most, when it is escaped: mostly it need not be encoded.
        if self.longest is None or 6 * len(line.line) <= self.longest:
            return True
        size = len(line.line.encode("utf-8", "backslashreplace"))
        if size <= self.longest:
            return True
        refused = Refused(line.origin, size)
        self.refused.append(refused)
        self.refuse(refused)
        return False


def judged(lines: Iterable[Line]) -> Iterator[Imported]:
    """Lines as they are, each with why it is no event."""
    for line in lines:
        problem = None
        try:
            parse_event(line.text)
        except ClassifiedFailure as failure:
            problem = failure.reason
        yield Imported(line.text, line.origin, problem)


class _Waiting:
    """Lines that were read and are not appended yet."""

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._moved = threading.Condition()
        self._lines: deque[Imported] = deque()
        self._characters = 0
        self._ended = False
        self.failure: BaseException | None = None
        """What reading has raised."""

    def read(self, lines: Iterable[Imported]) -> None:
        """Take lines as they come."""
        try:
            for line in lines:
                self._put(line)
                if self._stopping.is_set():
                    break
        except BaseException as error:
            # The thread that appends has to know, and a file that was closed behind a stop is no matter.
            self.failure = error
        finally:
            with self._moved:
                self._ended = True
                self._moved.notify_all()

    def batches(self, at_once: int) -> Iterator[list[Imported]]:
        """The next lines, as soon as there is one; until there are no more, or those before a stop are taken."""
        while batch := self._taken(at_once):
            yield batch

    def _put(self, line: Imported) -> None:
        with self._moved:
            while self._is_full and not self._stopping.is_set():
                self._moved.wait(_LOOK)
            self._lines.append(line)
            self._characters += len(line.line)
            self._moved.notify_all()

    def _taken(self, at_once: int) -> list[Imported]:
        batch: list[Imported] = []
        characters = 0
        with self._moved:
            while not (self._lines or self._ended or self._stopping.is_set()):
                # A signal handler only sets the event, and wakes nobody.
                self._moved.wait(_LOOK)
            while self._lines and len(batch) < at_once and characters < _CHARACTERS:
                batch.append(self._lines.popleft())
                characters += len(batch[-1].line)
            self._characters -= characters
            self._moved.notify_all()
        return batch

    @property
    def _is_full(self) -> bool:
        return len(self._lines) >= _WAITING or self._characters >= _CHARACTERS

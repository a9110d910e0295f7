"""Lines of input onto the events topic, as they come: what `produce` and the importers send."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NoReturn

from connectors.imported import Imported
from connectors.topic import Topic
from flows.intake import Intake, Line, produced
from store.schema import ClassifiedFailure, parse_event

AT_ONCE: Final = 1_000
"""Lines that are appended together at most (count)."""
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
        intake = Intake[Imported](self.stopping, lambda line: len(line.line))
        reader = threading.Thread(target=intake.read, args=(lines,), name="read", daemon=True)
        reader.start()
        try:
            for batch in intake.batches(self.at_once):
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
        # A file that was closed behind a stop is no matter.
        if intake.failure is not None and not self.is_stopping:
            raise intake.failure

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

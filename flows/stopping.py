"""How a process is stopped: in order at the first signal, at once at the second."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import NoReturn, Protocol


@dataclass(frozen=True, slots=True)
class Stop:
    """Whether a person wants a command to end. `stop` may be called from a signal handler."""

    asked: threading.Event = field(default_factory=threading.Event)

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self.asked.is_set()

    def stop(self) -> None:
        """Finish what is under way, and say what was done so far."""
        self.asked.set()

    def stop_at_once(self, code: int) -> NoReturn:
        """End the process without waiting for anything."""
        os._exit(code)


class Stoppable(Protocol):
    """A run that can be stopped from a signal handler."""

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""

    def stop(self) -> None:
        """Stop reading, let what is under way finish, and end."""

    def stop_at_once(self, code: int) -> NoReturn:
        """End the process without waiting for anything."""


@contextmanager
def stopped_by_signals(run: Stoppable) -> Iterator[None]:
    """SIGTERM and Ctrl-C stop the run in order; a second one ends the process at once."""

    def handle(number: int, frame: FrameType | None) -> None:
        if run.is_stopping:
            run.stop_at_once(128 + number)
        run.stop()

    before = {number: signal.signal(number, handle) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""How a process is stopped: in order at the first signal, at once at the second."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, Protocol


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

"""Threads that nobody waits for: one that hangs is given up and replaced, and never holds up the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

_T = TypeVar("_T")


class Daemons(AbstractContextManager["Daemons"]):
    """A fixed number of daemon threads.

    The pools of the standard library are joined when the interpreter ends, so that one read that hangs would hold
    the process for ever.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()
        for _ in range(count):
            self._start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Let idle threads end; whoever still works is left alone."""
        for _ in range(self._count):
            self._work.put(None)

    def submit(self, work: Callable[[], _T]) -> Future[_T]:
        """Have it done by the next thread that is free."""
        future: Future[_T] = Future()
        self._work.put((future, work))
        return future

    def give_up(self, future: Future[Any]) -> None:
        """Wait no longer: what has not begun does not begin, and a thread that hangs is replaced."""
        if future.cancel():
            return
        with self._lock:
            if future not in self._running:
                return
            self._running.remove(future)
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            future, work = item
            if not future.set_running_or_notify_cancel():
                continue
            with self._lock:
                self._running.add(future)
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            with self._lock:
                if future not in self._running:
                    # It was given up, and another thread has taken this one's place.
                    return
                self._running.remove(future)
            del future, work, item

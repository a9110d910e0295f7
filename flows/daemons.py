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

_HANGING = 8
"""Threads that hang and are replaced, for each thread of the pool (count)."""


class Daemons(AbstractContextManager["Daemons"]):
    """A fixed number of daemon threads.

    The pools of the standard library are joined when the interpreter ends, so that one read that hangs would hold
    the process for ever. Of threads that hang a bounded number is replaced: where everything hangs, what is asked
    for waits until one comes back.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._work: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._running: set[Future[Any]] = set()
        self._serving = count
        self._hanging = 0
        """Threads that were given up and have not come back (count)."""
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
        with self._lock:
            if future.cancel() or future not in self._running:
                return
            self._running.remove(future)
            self._hanging += 1
            self._serving -= 1
            if self._hanging > _HANGING * self._count:
                return
            self._serving += 1
        self._start()

    def _start(self) -> None:
        threading.Thread(target=self._serve, name=self._name, daemon=True).start()

    def _serve(self) -> None:
        while (item := self._work.get()) is not None:
            future, work = item
            with self._lock:
                if not future.set_running_or_notify_cancel():
                    continue
                self._running.add(future)
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)
            if not self._goes_on(future):
                return
            del future, work, item

    def _goes_on(self, future: Future[Any]) -> bool:
        """Whether the thread has work: it was not given up meanwhile, or nobody has taken its place."""
        with self._lock:
            if future in self._running:
                self._running.remove(future)
                return True
            self._hanging -= 1
            if self._serving >= self._count:
                return False
            self._serving += 1
            return True

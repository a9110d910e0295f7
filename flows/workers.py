"""Threads of a run: what goes wrong in one of them stops them all, and is told once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.data_folder import state_fault
from store.schema import LookfirstError, StoreError


class Workers:
    """Starts threads, waits for them, and keeps what they raise."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(self, name: str, work: Callable[..., None], *arguments: Any, waited_for: bool = True) -> None:
        """Have something done in a thread; one that is not waited for ends with the process."""
        thread = threading.Thread(target=self._guarded, args=(work, *arguments), name=name, daemon=not waited_for)
        if waited_for:
            self._threads.append(thread)
        thread.start()

    def wait(self, while_waiting: Callable[[], None] | None = None) -> None:
        """Wait until all have ended, and call `while_waiting` several times a second.

        An exception of it, or a signal's, is passed on only when they have: nobody else may have the folder, and
        no end record stands, while a flow still works.
        """
        try:
            self._join(while_waiting)
        except BaseException:
            self._stop()
            self._join(None)
            raise

    def raise_first(self, state: Path) -> None:
        """Raise the first fault that has a sentence of its own; what else went wrong mostly followed from it."""
        for error in self.errors:
            cause: BaseException | None = error
            while cause is not None and not isinstance(cause, LookfirstError):
                cause = cause.__cause__
            if cause is not None:
                raise cause
        for error in self.errors:
            if (fault := state_fault(error)) is None:
                raise error
            raise StoreError(
                f"The state in {state} cannot be kept: {fault}; free some space, or check its permissions, and "
                "run again: nothing is lost."
            ) from error

    def _join(self, while_waiting: Callable[[], None] | None) -> None:
        for thread in self._threads:
            while thread.is_alive():
                thread.join(0.1)
                if while_waiting:
                    while_waiting()

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            self.errors.append(error)
            self._stop()

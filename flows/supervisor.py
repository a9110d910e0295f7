"""A set of processes that live and die together: apply, and the processes that decide.

The engine has no partial restart: where one process of a set dies, the others end, and all begin again. So does
`apply` here, which would not have to: one rule is easier to be sure of than two. Pauses between starts are doubled
up to a longest one, and begin anew after a while in which nothing died.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import IO, Final, NoReturn

from store.schema import LookfirstError, Settings

_LOOK: Final = 0.1
"""Time between two looks at the processes (s)."""
_GRACE: Final = 15.0
"""What a process is given beyond its own wait before it is killed (s)."""
_WELL: Final = 300.0
"""Time without a death after which pauses begin anew (s)."""
_USAGE: Final = 2
"""Exit code of a command that was asked for something it cannot mean: asking again does not help."""


class SetError(LookfirstError):
    """The set cannot run, and starting it again would not help."""


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the set."""

    name: str
    arguments: tuple[str, ...]
    """Of `lookfirst`."""
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Supervisor:
    """Starts a set, starts it again when one dies, and stops it in order. `stop` may be called from a handler."""

    parts: Callable[[], Sequence[Part]]
    """The processes of one start, in the order they are started; they are stopped in the order they are not."""
    settings: Settings
    tell: Callable[[str], None]
    environment: Mapping[str, str]
    command: tuple[str, ...] = (sys.executable, "-m", "flows.cli.main")
    restarts: int = 0
    """Starts after the first one (count)."""
    _stopping: threading.Event = field(default_factory=threading.Event)
    _running: list[tuple[Part, subprocess.Popen[str]]] = field(default_factory=list)

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Stop all processes in order, and end."""
        self._stopping.set()

    def run(self) -> None:
        """Keep the set running until `stop`. Raises SetError when a process cannot be meant to run."""
        pause = self.settings.restart_first
        while not self._stopping.is_set():
            began = monotonic()
            died = self._live()
            if died is None:
                return
            if monotonic() - began > _WELL:
                pause = self.settings.restart_first
            self.tell(f"{died}; the whole set is started again in {pause:g} s.")
            self._stopping.wait(pause)
            pause = min(self.settings.restart_longest, pause * 2)
            self.restarts += 1

    def stop_at_once(self, code: int) -> NoReturn:
        """Kill all processes and end."""
        for _, process in self._running:
            process.kill()
        os._exit(code)

    def _live(self) -> str | None:
        """Run the set once; returns who died, or None after a stop."""
        with ExitStack() as held:
            held.callback(self._end)
            for part in self.parts():
                self._start(part)
            while not self._stopping.wait(_LOOK):
                for part, process in self._running:
                    code = process.poll()
                    if code == _USAGE:
                        raise SetError(f"{part.name} cannot run, as it says above; the set was stopped.")
                    if code is not None:
                        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
                        return f"{part.name} {how}"
        return None

    def _start(self, part: Part) -> None:
        process = subprocess.Popen(
            [*self.command, *part.arguments],
            env={**self.environment, **part.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="backslashreplace",
            # Ctrl-C reaches this process alone: it tells the others in their order.
            start_new_session=True,
        )
        self._running.append((part, process))
        assert process.stdout  # noqa: S101  it was asked for
        threading.Thread(target=self._pass_on, args=(part.name, process.stdout), daemon=True).start()

    def _pass_on(self, name: str, said: IO[str]) -> None:
        with suppress(ValueError, OSError):
            for line in said:
                self.tell(f"[{name}] {line.rstrip()}")

    def _end(self) -> None:
        """End what runs: first all that decide, then apply, which still applies what they have written."""
        for first in (False, True):
            group = [(p, process) for p, process in self._running if (p.name == "apply") is first]
            for _, process in group:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            patience = monotonic() + self.settings.stop_wait + _GRACE
            for part, process in group:
                try:
                    process.wait(max(0.1, patience - monotonic()))
                except subprocess.TimeoutExpired:
                    self.tell(f"{part.name} did not end in time, and was killed; nothing is lost.")
                    process.kill()
                    process.wait()
        self._running.clear()


def free_addresses(count: int) -> tuple[str, ...]:
    """Addresses of this machine at which nobody listens."""
    with ExitStack() as held:
        found = []
        for _ in range(count):
            taken = held.enter_context(socket.socket())
            taken.bind(("127.0.0.1", 0))
            found.append(f"127.0.0.1:{taken.getsockname()[1]}")
    return tuple(found)

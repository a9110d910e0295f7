"""How far a run is, on a terminal, while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final, Protocol

from rich.live import Live
from rich.text import Text

from flows.cli.console import display, notes
from flows.tally import Tally, Watcher
from flows.vitals import Vitals

_PERIOD: Final = 0.2
"""Time between two lines of progress (s)."""


class Shown(Protocol):
    """A run of which is shown how far it is."""

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""

    def vitals(self) -> Vitals:
        """How it is at this moment."""


@contextmanager
def progress(run: Shown) -> Iterator[Watcher | None]:
    """A watcher that keeps one line on stderr up to date; None where nobody would see it."""
    console = notes()
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _Line(run, live)


class _Line:
    def __init__(self, run: Shown, live: Live) -> None:
        self._run = run
        self._live = live
        self._began = monotonic()
        self._shown = 0.0

    def update(self, tally: Tally) -> None:
        now = monotonic()
        if now - self._shown >= _PERIOD:
            self._shown = now
            line = progress_line(tally, now - self._began, self._run.vitals(), stopping=self._run.is_stopping)
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)


def progress_line(tally: Tally, seconds: float, vitals: Vitals | None = None, *, stopping: bool) -> str:
    """Counts and rate in one line, and what waits or is unwell while there is something to say of it."""
    rate = tally.settled / seconds if seconds > 0 else 0.0
    parts = [
        f"{tally.produced:,} produced",
        f"{tally.settled:,} settled",
        f"{tally.applied:,} applied",
        f"{rate:,.0f} events/s",
    ]
    if stopping:
        parts.append("stopping…")
    if vitals:
        parts.extend(_waiting(vitals))
    return " · ".join(parts)


def _waiting(vitals: Vitals) -> Iterator[str]:
    counts = {"pending": vitals.pending, "held": vitals.held, "in flight": vitals.in_flight}
    counts["to embed"] = vitals.unembedded
    counts["behind"] = vitals.behind
    yield from (f"{count:,} {name}" for name, count in counts.items() if count)
    if vitals.recovering:
        yield "taking up an earlier run"
    if vitals.brokers_failure:
        yield f"brokers unwell: {display(vitals.brokers_failure)}"
    for breaker in vitals.breakers:
        if breaker.state != "closed":
            yield f"{breaker.provider} unwell: {display(breaker.reason or breaker.state)}"

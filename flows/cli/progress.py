"""How far a run is, on a terminal, while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

from rich.live import Live
from rich.text import Text

from flows.cli.console import display, notes
from flows.embedded import EmbeddedRun, Watcher
from flows.tally import Tally
from flows.vitals import Vitals

_PERIOD: Final = 0.2
"""Time between two lines of progress (s)."""


@contextmanager
def progress(run: EmbeddedRun) -> Iterator[Watcher | None]:
    """A watcher that keeps one line on stderr up to date; None where nobody would see it."""
    console = notes()
    if not console.is_terminal:
        yield None
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield _Line(run, live)


class _Line:
    def __init__(self, run: EmbeddedRun, live: Live) -> None:
        self._run = run
        self._live = live
        self._began = monotonic()
        self._shown = 0.0

    def update(self, tally: Tally) -> None:
        now = monotonic()
        if now - self._shown >= _PERIOD:
            self._shown = now
            stopping = self._run.signals.stopping.is_set()
            line = progress_line(tally, now - self._began, self._run.vitals(), stopping=stopping)
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
    yield from (f"{count:,} {name}" for name, count in counts.items() if count)
    if vitals.recovering:
        yield "taking up an earlier run"
    for breaker in vitals.breakers:
        if breaker.state != "closed":
            yield f"{breaker.provider} unwell: {display(breaker.reason or breaker.state)}"

"""How far a long step is, on a terminal, while it works."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from flows.cli.console import notes
from flows.steps import Progress as Told
from flows.steps import no_progress


@contextmanager
def steps() -> Iterator[Told]:
    """Something to tell the progress to: a bar for each step on stderr, nothing where nobody would see it."""
    console = notes()
    if not console.is_terminal:
        yield no_progress
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        known: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in known:
                known[what] = bars.add_task(what, total=total)
            bars.update(known[what], completed=done, total=total)

        yield tell

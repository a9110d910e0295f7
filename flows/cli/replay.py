"""`lookfirst replay`: bring back what ended without a Decision."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, time
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeVar

import click
from rich.live import Live
from rich.text import Text

from flows.cli.console import cell, emit, notes, page, say, table
from flows.cli.moments import moment_typed
from flows.cli.options import DATA, data_option, json_option, settings_and_store
from flows.data_folder import DataFolder
from flows.replay import Fate, Replay, Wanted, Watch

_PERIOD: Final = 0.2
"""Time between two lines of progress (s)."""

_DETAILS: Final = {
    Fate.BROUGHT_BACK: "appended to the events topic again",
    Fate.DECIDED: "there is a Decision: nothing to do",
    Fate.WAITING: "in the events topic and not decided yet: nothing to do",
    Fate.REPEATED: "of an event that is brought back with another message",
    Fate.UNREADABLE: "are no events for this release either",
    Fate.ELSEWHERE: "never were messages of the events topic, and cannot be replayed",
    Fate.DAMAGED: "are no dead letters",
    Fate.NOT_ASKED: "left out by --since or --thread",
}

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _replay_options(command: _Command) -> _Command:
    for option in (
        json_option("One JSON object with the counts instead."),
        click.option("--thread", metavar="T", help="Events of this thread only."),
        click.option(
            "--since",
            metavar="TIME",
            help="Only what arrived at this time or later: RFC 3339 with a zone, or a date, which is its "
            "midnight in UTC.",
        ),
        data_option,
    ):
        command = option(command)
    return command


@click.group()
def replay() -> None:
    """Bring events that ended without a Decision back to the end of the events topic.

    What is decided is never decided again, and what still waits is left alone, so that a replay may be repeated.
    """


@replay.command("dead-letters")
@_replay_options
def dead_letters(data: Path, since: str | None, thread: str | None, as_json: bool) -> None:
    """Bring back the events of the dead letters, each once.

    Those that are decided meanwhile are left alone, and so are those that no release can read so far. An event
    that is parked again may be brought back again.
    """
    _replay(data, Wanted(_since(since), thread), as_json, Replay.from_letters, "dead letters")


@replay.command("events")
@_replay_options
def events(data: Path, since: str | None, thread: str | None, as_json: bool) -> None:
    """Bring back events of the events topic that were given up.

    Those are the parked ones, and those that an older release could not read, also when their dead letters are
    gone. Decided events and events that wait for their decision are left alone.
    """
    _replay(data, Wanted(_since(since), thread), as_json, Replay.from_events, "messages")


def _replay(data: Path, wanted: Wanted, as_json: bool, way: Callable[[Replay], Counter[Fate]], what: str) -> None:
    settings, store = settings_and_store(data)
    with _progress() as watch:
        fates = way(Replay.over(DataFolder.at(data, settings), store, wanted, watch))
    if as_json:
        counts = {fate.name.lower(): fates[fate] for fate in Fate}
        emit(json.dumps({"gone_through": fates.total(), **counts}))
    elif fates.total():
        _print(fates, what)
    if not fates[Fate.BROUGHT_BACK]:
        say(f"There is nothing to bring back among the {what}." if fates.total() else f"There are no {what}.")
        return
    run = "lookfirst run" if data == DATA else f"lookfirst run --data {data}"
    say(f"A run in progress decides what was brought back, else the next `{run}` does.")


def _since(typed: str | None) -> datetime | None:
    return None if typed is None else moment_typed("--since", typed, of_day=time.min)


def _print(fates: Counter[Fate], what: str) -> None:
    made = table("", what, "count", "")
    made.columns[1].justify = "right"
    met = [fate for fate in Fate if fates[fate] or fate is Fate.BROUGHT_BACK]
    for fate in met:
        made.add_row(cell(fate), cell(f"{fates[fate]:,}"), cell(_DETAILS[fate]))
    out = page()
    out.print(made)
    sum_of = " + ".join(f"{fates[fate]:,} {fate}" for fate in met)
    out.print(cell(f"{fates.total():,} gone through = {sum_of}"))


@contextmanager
def _progress() -> Iterator[Watch]:
    """One line on stderr that says how far it is; nothing where nobody would see it."""
    console = notes()
    if not console.is_terminal:
        yield _unseen
        return
    with Live(console=console, auto_refresh=False, transient=True) as live:
        shown = 0.0

        def watch(topic: str, done: int, total: int) -> None:
            nonlocal shown
            if monotonic() - shown >= _PERIOD:
                shown = monotonic()
                live.update(Text(f"{topic}: {done:,} of {total:,} messages read"), refresh=True)

        yield watch


def _unseen(topic: str, done: int, total: int) -> None:
    pass

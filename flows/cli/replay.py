"""`lookfirst replay`: bring back what ended without a Decision, and apply operations once more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import time
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from flows.cli.console import cell, emit, page, say, table
from flows.cli.moments import moment_typed
from flows.cli.options import DATA, brokers_option, data_option, json_option, offsets_typed, settings_and_store
from flows.cli.steps import steps
from flows.data_folder import DataFolder
from flows.reapply import Outcome, Reapplied, RowsChanged, reapply
from flows.replay import Fate, Replay
from flows.span import Wanted
from flows.steps import Progress
from flows.stopping import Stop, stopped_by_signals
from flows.topics import Opened, topics_of
from store.schema import TopicError, load_settings

_INTERRUPTED: Final = 130

_LEFT_OUT: Final = "left out by --since, --offsets or --thread"
_EVENTS: Final = {
    Fate.BROUGHT_BACK: "appended to the events topic again",
    Fate.DECIDED: "there is a Decision: nothing to do",
    Fate.WAITING: "in the events topic and not decided yet: nothing to do",
    Fate.REPEATED: "of an event that is brought back with another message",
    Fate.UNREADABLE: "are no events for this release either",
    Fate.ELSEWHERE: "never were messages of the events topic, and cannot be replayed",
    Fate.DAMAGED: "are no dead letters",
    Fate.GONE: "were given up, and their topic does not hold them any more",
    Fate.LEFT: "to be brought back, when it was stopped",
    Fate.NOT_ASKED: _LEFT_OUT,
}
_OPERATIONS: Final = {
    Outcome.APPLIED: "the store did not know them",
    Outcome.REPEATED: "the store knew them",
    Outcome.DROPPED: "of events that have a Decision",
    Outcome.UNREADABLE: "are no operations for this release",
    Outcome.AHEAD: "beyond what the store has applied",
    Outcome.GONE: "their topic does not hold them any more",
    Outcome.LEFT: "to be applied again, when it was stopped",
    Outcome.NOT_ASKED: _LEFT_OUT,
}

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Kind = TypeVar("_Kind", Fate, Outcome)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was typed."""

    data: Path
    brokers: str | None
    since: str | None
    offsets: tuple[str, ...]
    thread: str | None
    dry_run: bool
    as_json: bool

    @property
    def wanted(self) -> Wanted:
        """Which messages are asked for; raises UsageError for what is no time and no place."""
        return Wanted(
            moment_typed("--since", self.since, of_day=time.min) if self.since is not None else None,
            self.thread,
            offsets_typed(",".join(self.offsets)) if self.offsets else None,
        )


def _replay_options(command: _Command) -> _Command:
    for option in (
        json_option("One JSON object with the counts instead."),
        click.option("--dry-run", is_flag=True, help="Count what would be done, and do nothing."),
        click.option("--thread", metavar="T", help="What is of this thread only."),
        click.option(
            "--offsets",
            multiple=True,
            metavar="P:O,…",
            help="Only what stands at offset O or later in partition P of the topic that is gone through, and "
            "nothing of partitions that are not named; may be repeated. A topic file is partition 0.",
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="Only what arrived at this time or later: RFC 3339 with a zone, or a date, which is its "
            "midnight in UTC.",
        ),
        data_option,
        brokers_option("Brokers that have the topics; without them they are the files of the folder."),
    ):
        command = option(command)
    return command


@click.group()
def replay() -> None:
    """Bring back events that ended without a Decision, or apply operations once more.

    What is decided is never decided again, and what still waits is left alone, so that a replay may be repeated.
    Ctrl-C stops it in order.
    """


@replay.command("dead-letters")
@_replay_options
def dead_letters(**typed: Any) -> int:
    """Bring back the events of the dead letters, each once.

    Those that are decided meanwhile are left alone, and so are those that no release can read so far. An event
    that is parked again may be brought back again. What a dead letter could not carry whole is taken from the
    events topic. On Kafka it waits while many messages are undecided, so that live traffic does not.
    """
    return _replay(_Asked(**typed), Replay.from_letters, "dead letters")


@replay.command("events")
@_replay_options
def events(**typed: Any) -> int:
    """Bring back events of the events topic that were given up.

    Those are the parked ones, and those that an older release could not read, also when their dead letters are
    gone. Decided events and events that wait for their decision are left alone. On Kafka it waits while many
    messages are undecided, so that live traffic does not.
    """
    return _replay(_Asked(**typed), Replay.from_events, "messages")


@replay.command("operations")
@_replay_options
def operations(**typed: Any) -> int:
    """Apply operations to the store once more, as far as it has applied them.

    What is missing or was spoilt in the store is then as they say; a store that is right does not change. No run
    may be using the folder, except with --dry-run.
    """
    asked, stop = _Asked(**typed), Stop()
    settings = load_settings()
    folder, wanted = DataFolder.at(asked.data, settings), asked.wanted
    with _answered(folder, asked, stop) as (progress, opened):
        done = reapply(folder, settings, wanted, progress, opened, dry_run=asked.dry_run, stop=stop)
    if asked.as_json:
        rows = {} if asked.dry_run else {"tables": {name: asdict(rows) for name, rows in done.tables.items()}}
        _emit(done.outcomes, _OPERATIONS, asked, stop, rows)
    elif done.outcomes.total():
        _print(done.outcomes, Outcome.APPLIED, _OPERATIONS, "operations", asked)
        _print_rows(done)
    if not done.outcomes.total():
        say("There are no operations.")
    elif asked.dry_run:
        say("This was a dry run: nothing was applied.")
    elif not done.is_changed:
        say("Nothing has changed: the store was as these operations say.")
    return _ended(stop)


def _replay(asked: _Asked, way: Callable[[Replay], Counter[Fate]], what: str) -> int:
    wanted, stop = asked.wanted, Stop()
    settings, store = settings_and_store(asked.data)
    folder = DataFolder.at(asked.data, settings)
    with ExitStack() as held:
        progress, opened = held.enter_context(_answered(folder, asked, stop))
        made = Replay.over(folder, store, wanted, progress, opened)
        made.dry_run, made.stop = asked.dry_run, stop
        if asked.brokers is not None:
            from connectors.kafka_backfill import Backfill
            from connectors.kafka_client import Brokers

            backfill = Backfill(
                Brokers.at(asked.brokers, settings),
                made.events.name,
                f"{folder.prefix}.decide",
                settings.backfill_ahead,
                stop.asked,
            )
            held.callback(backfill.close)
            made.pace = partial(backfill.wait, say)
        fates = way(made)
    if asked.as_json:
        _emit(fates, _EVENTS, asked, stop, {})
    elif fates.total():
        _print(fates, Fate.BROUGHT_BACK, _EVENTS, what, asked)
    _explain(fates, what, asked)
    return _ended(stop)


@contextmanager
def _answered(folder: DataFolder, asked: _Asked, stop: Stop) -> Iterator[tuple[Progress, Opened]]:
    """The topics, with a person who watches and may stop it; brokers that do not answer are told."""
    settings = load_settings()
    try:
        with topics_of(folder, settings, asked.brokers) as opened, steps() as progress, stopped_by_signals(stop):
            yield progress, opened
    except TimeoutError as error:
        raise TopicError(f"The topics cannot be read: {error}; check that the brokers run.") from error


def _explain(fates: Counter[Fate], what: str, asked: _Asked) -> None:
    """What a person should know beyond the counts."""
    if not fates[Fate.BROUGHT_BACK]:
        if not fates[Fate.LEFT]:
            say(f"There is nothing to bring back among the {what}." if fates.total() else f"There are no {what}.")
    elif asked.dry_run:
        say("This was a dry run: nothing was appended.")
    elif asked.brokers is not None:
        say("A `run decide` in progress decides what was brought back, else the next one does.")
    else:
        run = "lookfirst run" if asked.data == DATA else f"lookfirst run --data {asked.data}"
        say(f"A run in progress decides what was brought back, else the next `{run}` does.")


def _ended(stop: Stop) -> int:
    if not stop.is_stopping:
        return 0
    say("Stopped; run the same command again for the rest.")
    return _INTERRUPTED


def _emit(
    counts: Counter[_Kind], kinds: Iterable[_Kind], asked: _Asked, stop: Stop, more: Mapping[str, object]
) -> None:
    found = {kind.name.lower(): counts[kind] for kind in kinds}
    ended = {"dry_run": asked.dry_run, "stopped": stop.is_stopping}
    emit(json.dumps({"gone_through": counts.total(), **found, **more, **ended}))


def _print(counts: Counter[_Kind], always: _Kind, details: Mapping[_Kind, str], what: str, asked: _Asked) -> None:
    """A table with every count that is not 0, and the sum of them."""
    made = table("", what, "count", "")
    made.columns[1].justify = "right"
    met = [kind for kind in details if counts[kind] or kind is always]
    names = {kind: f"would be {kind}" if asked.dry_run and kind is always else str(kind) for kind in met}
    for kind in met:
        made.add_row(cell(names[kind]), cell(f"{counts[kind]:,}"), cell(details[kind]))
    out = page()
    out.print(made)
    sum_of = " + ".join(f"{counts[kind]:,} {names[kind]}" for kind in met)
    out.print(cell(f"{counts.total():,} gone through = {sum_of}"))


def _print_rows(done: Reapplied) -> None:
    """Rows that are others now, by table."""
    if not done.is_changed:
        return
    made = table("", "rows of", "added", "changed", "removed")
    for column in made.columns[1:]:
        column.justify = "right"
    for name, rows in done.tables.items():
        if rows != RowsChanged():
            made.add_row(cell(name), *(cell(f"{count:,}") for count in asdict(rows).values()))
    page().print(made)

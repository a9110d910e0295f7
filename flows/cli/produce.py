"""`lookfirst produce`: events onto the events topic, of a file or of stdin as they come."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import click
from rich.live import Live
from rich.text import Text

from connectors.imported import Imported
from flows.cli.console import cell, emit, notes, page, say
from flows.cli.lines import opened
from flows.cli.options import DATA, brokers_option, data_option, json_option
from flows.data_folder import DataFolder
from flows.produce import AT_ONCE, Production, Refused, judged
from flows.stopping import stopped_by_signals
from flows.topics import topics_of
from store.schema import Settings, UsageError, load_settings

_PERIOD: Final = 0.2
"""Time between two lines of progress (s)."""


@click.command("produce")
@click.argument("source", metavar="FILE|-")
@data_option
@brokers_option("Append to the events topic on these brokers instead of the one in the folder.")
@click.option("--backfill", is_flag=True, help="Wait while much is undecided, for what others produce meanwhile.")
@json_option("One JSON object with the counts instead.")
def produce(source: str, data: Path, brokers: str | None, backfill: bool, as_json: bool) -> int:
    """Append events, one JSON object a line of FILE or of stdin as they come, to the events topic.

    Each line is keyed by its workspace and thread, and names where it was read. A line that is no event goes as it
    is, and becomes a dead letter. On Kafka a line over LOOKFIRST_MESSAGE_KILOBYTES is not sent: it is named, and
    the exit code is 1 at the end.

    The same file again is appended again: the same identity again is the same event, and nothing is decided twice.
    Ctrl-C and SIGTERM stop in order and say how many are in; a second one ends it at once.
    """
    settings = load_settings()
    folder = DataFolder.at(data, settings)
    if backfill and brokers is None:
        raise UsageError("--backfill waits for `lookfirst run decide` on Kafka; name --brokers, or leave it out.")
    with opened(source) as lines:
        again = Path(source).is_file()
        produced = send(judged(lines), lines.name, folder, settings, brokers, backfill=backfill, again=again)
        if lines.finished and not lines.taken:
            say(f"{lines.name} has no events.")
    if as_json:
        emit(json.dumps(produced.for_programs(), ensure_ascii=False))
    else:
        page().print(cell(produced.sentence()))
    produced.tell_problems()
    if produced.production.appended and not as_json:
        say(_next(data, brokers))
    return produced.code


@dataclass(frozen=True, slots=True)
class Produced:
    """What was appended by the end."""

    production: Production
    topic: str
    where: str
    """The topic, for a person."""
    source: str
    seconds: float

    @property
    def code(self) -> int:
        """The exit code: 1 when a line was refused."""
        return 1 if self.production.refused else 0

    def sentence(self) -> str:
        """The counts, for a person."""
        made = self.production
        said = f"{_counted(made.appended, 'line')} appended to the {self.where}: {_counted(made.events, 'event')}"
        if made.problems:
            said = f"{said}, {made.problems:,} that a run will put in the dead letters"
        if made.refused:
            said = f"{said}; {_counted(len(made.refused), 'line')} refused"
        return f"{said}."

    def for_programs(self) -> dict[str, object]:
        """The same as plain values."""
        made = self.production
        return {
            "topic": self.topic,
            "appended": made.appended,
            "events": made.events,
            "unreadable": made.problems,
            "refused": [asdict(each) for each in made.refused],
            "stopped": made.is_stopping,
            "seconds": round(self.seconds, 3),
        }

    def tell_problems(self) -> None:
        """What is wrong with the first lines that are no events, and what is left after a stop."""
        made = self.production
        for problem in made.first_problems:
            say(f"- {problem}")
        if made.problems > len(made.first_problems):
            say(f"- and {made.problems - len(made.first_problems):,} more")
        if made.is_stopping:
            gone_through = _counted(made.appended + len(made.refused), "line")
            say(
                f"Stopped: of {self.source} the first {gone_through} were taken; give the same command again for "
                "the rest, nothing is decided twice."
            )


def send(
    lines: Iterable[Imported],
    source: str,
    folder: DataFolder,
    settings: Settings,
    brokers: str | None,
    *,
    backfill: bool,
    again: bool = True,
) -> Produced:
    """Append lines to the events topic, on brokers or of a folder, until there are no more or a signal comes.

    `again` is whether they can be read again. Raises LookfirstError when they cannot be appended or read, after
    saying how many are in.
    """
    began = monotonic()
    with ExitStack() as held:
        topic = held.enter_context(topics_of(folder, settings, brokers))("events")
        production = Production(topic, refuse=partial(_tell_refused, settings), again=again)
        if brokers is not None:
            production.longest = settings.event_bytes
        if backfill and brokers is not None:
            _keep_behind(production, settings, brokers, held)
        with stopped_by_signals(production), _progress(production) as moved:
            try:
                production.run(lines, moved)
            except Exception:
                if production.appended:
                    say(
                        f"At least {_counted(production.appended, 'line')} of {source} are in the {topic.where}; "
                        "give the same command again once this is mended, nothing is decided twice."
                    )
                raise
        return Produced(production, topic.name, topic.where, source, monotonic() - began)


def _keep_behind(production: Production, settings: Settings, brokers: str, held: ExitStack) -> None:
    """Have a production wait while too much is undecided."""
    from connectors.kafka_backfill import Backfill
    from connectors.kafka_client import Brokers

    limit = settings.backfill_ahead
    waiting = Backfill(
        Brokers.at(brokers, settings),
        production.topic.name,
        f"{settings.topic_prefix}.decide",
        limit,
        production.stopping,
    )
    held.callback(waiting.close)
    production.pace = partial(waiting.wait, say)
    production.at_once = min(AT_ONCE, limit)


def _tell_refused(settings: Settings, refused: Refused) -> None:
    say(
        f"{refused.origin} was not sent: it has {refused.bytes:,} bytes, and at most "
        f"{settings.event_bytes:,} travel on Kafka; shorten it or split it, or raise "
        "LOOKFIRST_MESSAGE_KILOBYTES and the topic's max.message.bytes."
    )


@contextmanager
def _progress(production: Production) -> Iterator[Callable[[], None]]:
    """Keeps one line on stderr up to date; does nothing where nobody would see it."""
    console = notes()
    if not console.is_terminal:
        yield _unseen
        return
    began = shown = monotonic()
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def moved() -> None:
            nonlocal shown
            now = monotonic()
            if now - shown >= _PERIOD:
                shown = now
                live.update(Text(_line(production, now - began), no_wrap=True, overflow="ellipsis"), refresh=True)

        yield moved


def _line(production: Production, seconds: float) -> str:
    parts = [f"{production.appended:,} appended", f"{production.appended / seconds:,.0f} lines/s"]
    if production.problems:
        parts.append(f"{production.problems:,} no events")
    if production.refused:
        parts.append(f"{len(production.refused):,} refused")
    if production.is_stopping:
        parts.append("stopping…")
    return " · ".join(parts)


def _unseen() -> None:
    pass


def _next(data: Path, brokers: str | None) -> str:
    if brokers is not None:
        return f"`lookfirst run decide --brokers {brokers}` decides them, at once where it runs."
    run = "lookfirst run" if data == DATA else f"lookfirst run --data {data}"
    return f"A run in progress decides them, else the next `{run}` does."


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

"""`lookfirst run`: everything in one process, over one data folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from time import monotonic
from typing import Final

import click

from connectors.topic_file import TopicFile
from flows.cli.console import cell, emit, page, say
from flows.cli.lines import InputLines, opened
from flows.cli.options import DATA, data_option, health_option, json_option, refuse_options_before, shown_over_http
from flows.cli.pages import task_table
from flows.cli.progress import progress
from flows.cli.result import Result
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.judge.named import judge_named
from flows.parse import read_event
from flows.stopping import stopped_by_signals
from store.record import Record
from store.schema import Arrival, TaskRow, load_settings
from store.schema.identity import decision_id
from store.sql import IN_KEYS

_ON_KAFKA: Final[Mapping[str, str]] = {"decide": "decide_command", "apply": "apply_command"}
_TASKS: Final = 20
"""Tasks shown after a run (rows)."""
_COUNTED: Final = 100_000
"""Messages of the events topic that are gone through after a stop, to say how many are left (count)."""


class _Run(click.Group):
    """The flows on Kafka are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_ON_KAFKA)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from flows.cli import run_kafka

        name = _ON_KAFKA.get(cmd_name)
        return getattr(run_kafka, name) if name else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in _ON_KAFKA and not args[0].startswith("-"):
            raise click.UsageError(
                f"`run` has no flow {args[0]!r}; on Kafka it has {' and '.join(_ON_KAFKA)}.", ctx
            )
        return super().resolve_command(ctx, args)


@click.group(cls=_Run, invoke_without_command=True)
@data_option
@click.option(
    "--from",
    "source",
    metavar="FILE|-",
    help="Events to add first: JSON lines of a file, or of stdin as they come.",
)
@click.option("--paced", is_flag=True, help="Each event only when all before it can be searched: repeatable.")
@health_option
@json_option("One JSON object with the counts instead.")
@click.pass_context
def run(
    context: click.Context, data: Path, source: str | None, paced: bool, health: str | None, as_json: bool
) -> None:
    """Decide and apply events until none is waiting.

    Then show what became of them, in counts that add up, and the newest tasks.
    Without --from it goes on with what an earlier run left. Ctrl-C and SIGTERM stop it in order, with exit code
    0: what is not decided by then is left for the next run. A second one ends it at once.

    On Kafka the flows are processes of their own: `run decide` and `run apply`.
    """
    if context.invoked_subcommand is not None:
        refuse_options_before(context, context.invoked_subcommand)
        return
    settings = load_settings()
    folder = DataFolder.at(data, settings)
    embedded = EmbeddedRun(folder, settings, judge_named(settings), paced)
    with (
        shown_over_http(embedded.vitals, health),
        opened(source) if source is not None else nullcontext() as lines,
    ):
        began = monotonic()
        with stopped_by_signals(embedded), progress(embedded) as watcher:
            tally = embedded.run(lines or (), watcher)
        seconds = monotonic() - began
    record = folder.store().record
    stopped = embedded.signals.stopping.is_set()
    result = Result(
        tally,
        seconds,
        folder.topic("dead-letters").path,
        stopped,
        _left(folder.topic("events"), record) if stopped else 0,
    )
    if as_json:
        emit(json.dumps(result.for_programs(), ensure_ascii=False))
    else:
        _print(result, record, data)
    _explain(result, lines)


def _print(result: Result, record: Record, data: Path) -> None:
    out = page()
    out.print(*result.for_people(), sep="\n")
    total = record.count("tasks")
    if not total:
        return
    shown = task_table(record, record.listed("tasks", TaskRow, newest="updated", limit=_TASKS), out.width)
    shown.title = "Tasks"
    out.print()
    out.print(shown)
    if total > _TASKS:
        where = "" if data == DATA else f" --data {data}"
        out.print(cell(f"and {total - _TASKS:,} more: lookfirst tasks --limit {total}{where}"))


def _explain(result: Result, lines: InputLines | None) -> None:
    """Whatever a person should know beyond the counts."""
    if lines and lines.finished and not lines.taken:
        say(f"{lines.name} has no events.")
    if result.stopped:
        left = "what is not decided" if result.left is None else _events(result.left)
        say(f"Stopped; left for the next run: {left}.")
        if lines and not (lines.finished and lines.taken == result.tally.produced):
            say(
                f"Of {lines.name} the first {_events(result.tally.produced)} were taken; run the same command "
                "again for the rest, nothing is decided twice."
            )
    if result.tally.unkeyed:
        say(
            f"Warning: {_events(result.tally.unkeyed)} came without the key workspace/thread, so their order "
            "within a thread is the order of arrival; produce them with that key."
        )
    if result.tally.memory_failure:
        say(
            f"Warning: the record is complete, but the memory that is searched lags behind it "
            f"({result.tally.memory_failure}); the next run tries to bring it up to date."
        )
    if result.tally.unembedded:
        why = f" ({result.tally.embedder_failure})" if result.tally.embedder_failure else ""
        say(
            f"Warning: {result.tally.unembedded:,} tasks are not embedded yet{why}, so the vector lane does not "
            "find them; the next run makes their vectors."
        )


def _events(count: int) -> str:
    return f"{count:,} event{'' if count == 1 else 's'}"


def _left(events: TopicFile, record: Record) -> int | None:
    """Events of the topic that have neither a decision nor a dead letter; None when there are too many."""
    if events.end().offset > _COUNTED:
        return None
    left: set[str] = set()
    for found in events.batches(at_once=IN_KEYS):
        read = [each for each in map(read_event, found) if isinstance(each, Arrival)]
        latest = {each.event.uid: each.seq for each in read}
        by_decision = {decision_id(uid): uid for uid in latest}
        decided = record.standing_offsets(by_decision)
        undecided = {uid for decision, uid in by_decision.items() if decision not in decided}
        rows = record.events(undecided)
        # One that was parked and stands on the topic again after that was brought back, and waits.
        left |= {uid for uid in undecided if uid not in rows or latest[uid] > rows[uid].seq}
    return len(left)

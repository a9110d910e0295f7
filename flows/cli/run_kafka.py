"""`lookfirst run decide` and `run apply`: one flow a process, topics on brokers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import click

from connectors.kafka_client import Brokers
from flows.apply_run import ApplyRun
from flows.cli.console import cell, emit, page, say
from flows.cli.options import (
    brokers_option,
    data_option,
    health_option,
    json_option,
    offsets_typed,
    shown_over_http,
)
from flows.cli.progress import progress
from flows.cli.result import Result
from flows.data_folder import DataFolder
from flows.decide_run import DecideRun
from flows.judge.named import judge_named
from flows.kafka_run import Member
from flows.stopping import stopped_by_signals
from store.schema import UsageError, load_settings

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _flow_options(command: _Command) -> _Command:
    for option in (
        json_option("One JSON object with the counts at the end instead."),
        health_option,
        click.option("--parent", type=int, hidden=True, help="Process without which it stops in order."),
        click.option("--until-end", is_flag=True, help="End when all that is in the topic now is done."),
        click.option(
            "--addresses", metavar="HOST:PORT;…", help="Where each process of the set listens, by number."
        ),
        click.option("--process-id", type=int, metavar="N", help="Number of this process in its set, from 0."),
        data_option,
        brokers_option("Brokers to begin with.", required=True),
    ):
        command = option(command)
    return command


@click.command("decide")
@_flow_options
@click.option(
    "--offsets",
    metavar="P:O,…",
    help="Go on from offset O in partition P, whatever the state says; for a place that is gone.",
)
def decide_command(
    brokers: str,
    data: Path,
    process_id: int | None,
    addresses: str | None,
    offsets: str | None,
    until_end: bool,
    parent: int | None,
    health: str | None,
    as_json: bool,
) -> None:
    """Decide the events of a topic: read the store, write operations. Runs until it is stopped.

    It waits for `run apply`, which makes the store. Several processes decide together when each is told its number
    and the addresses of all (`lookfirst up` does that); where one dies, all end, and are started again together.
    Ctrl-C and SIGTERM stop it in order: what is not decided by then is left for the next run.
    """
    settings = load_settings()
    run = DecideRun(
        DataFolder.at(data, settings),
        settings,
        Brokers.at(brokers, settings),
        say,
        until_end,
        parent,
        judge=judge_named(settings),
        member=Member.of(process_id, addresses),
        forced=offsets_typed(offsets) if offsets else None,
    )
    began = monotonic()
    with shown_over_http(run.vitals, health), stopped_by_signals(run), progress(run) as watcher:
        tally = run.run(watcher)
    result = Result(tally, monotonic() - began, f"the topic {run.folder.prefix}.dead-letters", run.is_stopping)
    if as_json:
        emit(json.dumps(result.for_programs(), ensure_ascii=False))
    else:
        page().print(*result.for_people(), sep="\n")


@click.command("apply")
@_flow_options
def apply_command(
    brokers: str,
    data: Path,
    process_id: int | None,
    addresses: str | None,
    until_end: bool,
    parent: int | None,
    health: str | None,
    as_json: bool,
) -> None:
    """Apply the operations of a topic to the store of a data folder, which it makes. Runs until it is stopped.

    There is one for a folder, and it is one process: nobody else may write the store.
    """
    if process_id is not None or addresses is not None:
        raise UsageError(
            "`run apply` is the only writer of a store and runs as one process; `run decide` may be many."
        )
    settings = load_settings()
    run = ApplyRun(DataFolder.at(data, settings), settings, Brokers.at(brokers, settings), say, until_end, parent)
    began = monotonic()
    with shown_over_http(run.vitals, health), stopped_by_signals(run), progress(run) as watcher:
        tally = run.run(watcher)
    counts = {"applied": tally.applied, "dropped": tally.dropped, "applied_to": tally.applied_to}
    more = {"memory_failure": tally.memory_failure, "stopped": run.is_stopping}
    if as_json:
        emit(json.dumps({**counts, **more, "seconds": round(monotonic() - began, 3)}))
        return
    page().print(cell(f"{tally.applied:,} operations messages applied, {tally.dropped:,} of them dropped."))
    if tally.memory_failure:
        say(
            f"Warning: the record is complete, but the memory that is searched lags behind it "
            f"({tally.memory_failure}); the next run tries to bring it up to date."
        )

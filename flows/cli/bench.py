"""`lookfirst bench`: figures beside their baselines."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table

from flows.bench.overhead import Overhead, overhead
from flows.bench.replay import Replay, replay
from flows.bench.resume import Resume, resume
from flows.cli.bench_search import COMMANDS
from flows.cli.console import say
from flows.cli.figures import figures_option, figures_table, out_option, report, seed_option
from flows.judge.named import judge_named
from store.schema import load_settings


@click.group()
def bench() -> None:
    """Take a figure and print it beside its baseline of the same run.

    Time on a shared machine is noisy: compare the ratios, not the rates of two runs. Benches that name a DIR read
    labelled data of others from it, or from the folder that LOOKFIRST_DATA names.
    """


for _command in COMMANDS:
    bench.add_command(_command)


@bench.command("overhead")
@click.option("--rows", type=click.IntRange(min=1), multiple=True, help="Tasks in the store; may be repeated.")
@click.option("--events", type=click.IntRange(min=1), default=2_000, show_default=True, help="Events decided.")
@seed_option
@out_option("overhead")
@figures_option
def bench_overhead(rows: tuple[int, ...], events: int, seed: int, out: Path, as_json: bool) -> None:
    """Events a second through decide and apply, beside the bare rate of exactly the reads that took.

    Filling a store with 100,000 tasks takes some minutes.
    """
    settings = load_settings()
    sizes = rows or (1_000, 100_000)
    results = [overhead(size, events, judge_named(settings), settings, seed, say) for size in sizes]
    report("overhead", seed, results, _overhead_table(results), out, as_json)


@bench.command("replay")
@click.option(
    "--messages",
    type=click.IntRange(min=1),
    multiple=True,
    default=(5_000,),
    show_default=True,
    help="Decisions on the topic; may be repeated.",
)
@seed_option
@out_option("replay")
@figures_option
def bench_replay(messages: tuple[int, ...], seed: int, out: Path, as_json: bool) -> None:
    """Operations a second into an empty store, beside the bare rate of validating the same JSON lines."""
    settings = load_settings()
    results = [replay(size, settings, seed, say) for size in messages]
    report("replay", seed, results, _replay_table(results), out, as_json)


@bench.command("resume")
@click.option(
    "--threads",
    type=click.IntRange(min=1),
    multiple=True,
    default=(10_000, 300_000),
    show_default=True,
    help="Threads that were seen before the kill; may be repeated.",
)
@out_option("resume")
@figures_option
def bench_resume(threads: tuple[int, ...], out: Path, as_json: bool) -> None:
    """Seconds from start to first decision after a kill, beside those of a run with nothing to take up.

    Going through 300,000 threads first takes some minutes.
    """
    settings = load_settings()
    results = [resume(size, settings, say) for size in threads]
    report("resume", None, results, _resume_table(results), out, as_json)


def _overhead_table(results: list[Overhead]) -> Table:
    heads = ("rows", "events/s", "bare reads, events/s", "share of bare", "queries/event", "text/event", "MB")
    return figures_table(
        "overhead",
        heads,
        (
            (
                f"{r.rows:,}",
                f"{r.events_per_second:,.1f}",
                f"{r.bare_events_per_second:,.1f}",
                f"{r.share_of_bare:.0%}",
                f"{r.queries_per_event:.2f}",
                f"{r.text_queries_per_event:.2f}",
                f"{r.resident_megabytes:,.0f}",
            )
            for r in results
        ),
    )


def _replay_table(results: list[Replay]) -> Table:
    heads = (
        "messages",
        "characters each",
        "operations/s",
        "bare validation, operations/s",
        "share of bare",
        "tasks",
    )
    return figures_table(
        "replay",
        heads,
        (
            (
                f"{r.messages:,}",
                f"{r.message_characters:,}",
                f"{r.operations_per_second:,.1f}",
                f"{r.bare_operations_per_second:,.1f}",
                f"{r.share_of_bare:.1%}",
                f"{r.tasks:,}",
            )
            for r in results
        ),
    )


def _resume_table(results: list[Resume]) -> Table:
    heads = ("threads", "seconds", "in a new folder", "share", "state, rows", "state, KB", "operations, MB")
    return figures_table(
        "resume",
        heads,
        (
            (
                f"{r.threads:,}",
                f"{r.seconds:.2f}",
                f"{r.fresh_seconds:.2f}",
                f"{r.share_of_fresh:.0%}",
                f"{r.recovery_rows:,}",
                f"{r.recovery_bytes / 1e3:,.0f}",
                f"{r.operations_bytes / 1e6:,.1f}",
            )
            for r in results
        ),
    )

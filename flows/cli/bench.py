"""`lookfirst bench`: figures beside their baselines."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click
from rich.table import Table

from flows.bench.overhead import Overhead, overhead
from flows.cli.console import cell, emit, page, say
from flows.cli.options import json_option
from flows.judge.named import judge_named
from store.schema import load_settings


@click.group()
def bench() -> None:
    """Take a figure and print it beside its baseline of the same run.

    Time on a shared machine is noisy: compare the ratios, not the rates of two runs.
    """


@bench.command("overhead")
@click.option("--rows", type=click.IntRange(min=1), multiple=True, help="Tasks in the store; may be repeated.")
@click.option("--events", type=click.IntRange(min=1), default=2_000, show_default=True, help="Events decided.")
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the made-up events.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench-overhead.json"), show_default=True)
@json_option("The figures as JSON on stdout too.")
def bench_overhead(rows: tuple[int, ...], events: int, seed: int, out: Path, as_json: bool) -> None:
    """Events a second through decide and apply, beside the bare rate of exactly the reads that took.

    Filling a store with 100,000 tasks takes some minutes.
    """
    settings = load_settings()
    sizes = rows or (1_000, 100_000)
    results = [overhead(size, events, judge_named(settings), settings, seed, say) for size in sizes]
    text = json.dumps({"bench": "overhead", "seed": seed, "figures": [asdict(r) for r in results]}, indent=2)
    out.write_text(text + "\n", encoding="utf-8")
    if as_json:
        emit(text)
    else:
        page().print(_table(results))
    say(f"Written to {out}.")


def _table(results: list[Overhead]) -> Table:
    table = Table(title="overhead")
    heads = ("rows", "events/s", "bare reads, events/s", "share of bare", "queries/event", "text/event", "MB")
    for head in heads:
        table.add_column(head, justify="right")
    for r in results:
        values = (
            f"{r.rows:,}",
            f"{r.events_per_second:,.1f}",
            f"{r.bare_events_per_second:,.1f}",
            f"{r.share_of_bare:.0%}",
            f"{r.queries_per_event:.2f}",
            f"{r.text_queries_per_event:.2f}",
            f"{r.resident_megabytes:,.0f}",
        )
        table.add_row(*(cell(value) for value in values))
    return table

"""Figures on a page and in a file: what the commands of `lookfirst bench` share."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
from rich.table import Table

from flows.cli.console import cell, emit, page, say
from flows.cli.options import json_option

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_Command = TypeVar("_Command", bound=Callable[..., object])


def seed_option(command: _Command) -> _Command:
    """`--seed`, of everything that is made up."""
    return click.option(
        "--seed", type=int, default=7, show_default=True, help="Seed of everything that is made up."
    )(command)


def out_option(name: str) -> Callable[[_Command], _Command]:
    """`--out FILE`, where the figures go."""
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        default=Path(f"bench-{name}.json"),
        show_default=True,
        metavar="FILE",
        help="Where the figures are written as JSON.",
    )


figures_option = json_option("The figures as JSON on stdout too.")


def report(
    name: str,
    seed: int | None,
    figures: Sequence[DataclassInstance],
    table: Table,
    out: Path,
    as_json: bool,
) -> None:
    """The figures as JSON in a file, and on stdout as a table or as JSON."""
    seeded = {} if seed is None else {"seed": seed}
    text = json.dumps({"bench": name, **seeded, "figures": [asdict(each) for each in figures]}, indent=2)
    out.write_text(text + "\n", encoding="utf-8")
    if as_json:
        emit(text)
    else:
        page().print(table)
    say(f"Written to {out}.")


def figures_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Figures under heads, one row each."""
    table = Table(title=title)
    for head in heads:
        table.add_column(head, justify="right")
    for row in rows:
        table.add_row(*(cell(value) for value in row))
    return table

"""`lookfirst doctor`: what is in a data folder, and whether it fits together."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click
from rich.console import RenderableType
from rich.table import Table

from flows.cli.console import cell, emit, page, table
from flows.cli.maintain import size
from flows.cli.options import FOLDER_VARIABLE, data_option, json_option
from flows.cli.settings import Effective, effective
from flows.cli.steps import steps
from flows.data_folder import DataFolder
from flows.diagnosis import Check, Report, State
from flows.doctor import examine
from store.schema import load_settings
from store.schema.failpoint import VARIABLE

_STYLES: Final[Mapping[State, str]] = {"ok": "green", "note": "yellow", "wrong": "bold red"}
_OTHERS: Final = frozenset({FOLDER_VARIABLE, VARIABLE, "LOOKFIRST_DATA"})
"""Variables of ours that are no settings."""
_KINDS: Final = 12
"""Kinds of dead letters on the page (count)."""


@click.command()
@data_option
@json_option("One JSON object with everything instead.")
def doctor(data: Path, as_json: bool) -> int:
    """Look at a data folder, change nothing, and say what is in it and whether it fits together.

    Works while a run is going on. Exit code 1 when something is wrong; a note is not.
    """
    settings = load_settings()
    shown = [each for each in effective(settings, os.environ) if each.value != each.default]
    with steps() as progress:
        report = examine(DataFolder.at(data, settings), settings, progress)
    report = report.model_copy(update={"checks": (*report.checks, *_mistyped(settings_of(os.environ)))})
    if as_json:
        found = report.model_dump(mode="json")
        emit(
            json.dumps({**found, "settings": [each.model_dump(mode="json") for each in shown]}, ensure_ascii=False)
        )
    else:
        page().print(*for_people(report, shown), sep="\n")
    return 0 if report.is_well else 1


def settings_of(environment: Mapping[str, str]) -> list[str]:
    """Names of variables that begin like a setting and are none."""
    known = {each.variable.upper() for each in effective(load_settings(), {})} | _OTHERS
    return sorted(
        name for name in environment if name.upper().startswith("LOOKFIRST_") and name.upper() not in known
    )


def _mistyped(names: list[str]) -> Iterator[Check]:
    if names:
        said = f"{', '.join(names)} begins like a setting and is none of this release."
        yield Check(name="settings", state="note", said=said, remedy="`lookfirst settings` lists them all")


def for_people(report: Report, settings: list[Effective]) -> Iterator[RenderableType]:
    """What is there in tables, then each check with its remedy, and the verdict."""
    yield cell(" · ".join(f"{name} {number}" for name, number in report.versions.items()))
    for each in settings:
        yield cell(f"{each.variable}={each.value} ({each.source}; default {each.default})")
    yield cell(f"A run is using {report.folder}." if report.running else f"No run is using {report.folder}.")
    yield _topics(report)
    if report.tables:
        yield _tables(report)
    if report.letters:
        yield _letters(report)
    yield _checks(report)
    wrong = sum(check.state == "wrong" for check in report.checks)
    yield cell(f"{wrong:,} wrong." if wrong else "Nothing is wrong.", "bold red" if wrong else "green")


def _topics(report: Report) -> Table:
    made = table("Topics", "topic", "id", "messages", "size")
    for topic in report.topics:
        made.add_row(
            cell(topic.name), cell(topic.id or "not there"), cell(f"{topic.messages:,}"), cell(size(topic.bytes))
        )
    return _right(made, 2, 3)


def _tables(report: Report) -> Table:
    made = table("Tables", "table", "rows", "unindexed", "fragments", "versions", "size")
    for each in report.tables:
        unindexed = max((index.unindexed for index in each.indexes), default=0)
        counts = (each.rows, unindexed, each.fragments, each.versions)
        made.add_row(cell(each.name), *(cell(f"{count:,}") for count in counts), cell(size(each.bytes)))
    return _right(made, 1, 2, 3, 4, 5)


def _letters(report: Report) -> Table:
    made = table("Dead letters", "count", "topic", "class", "reason")
    for kind in report.letters[:_KINDS]:
        made.add_row(cell(f"{kind.count:,}"), cell(kind.topic), cell(kind.failure), cell(kind.reason))
    if len(report.letters) > _KINDS:
        rest = sum(kind.count for kind in report.letters[_KINDS:])
        made.add_row(cell(f"{rest:,}"), cell(""), cell(""), cell("other reasons"))
    return _right(made, 0)


def _checks(report: Report) -> Table:
    made = table("Checks", "state", "check", "finding")
    for check in report.checks:
        remedy = f" Remedy: {check.remedy}." if check.remedy else ""
        made.add_row(cell(check.state, _STYLES[check.state]), cell(check.name), cell(f"{check.said}{remedy}"))
    return made


def _right(made: Table, *columns: int) -> Table:
    for column in columns:
        made.columns[column].justify = "right"
    return made

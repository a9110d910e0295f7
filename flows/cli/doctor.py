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

from flows.cli.console import cell, emit, moment, page, say, table
from flows.cli.find import short_id
from flows.cli.maintain import size
from flows.cli.options import (
    BROKERS_VARIABLE,
    FOLDER_VARIABLE,
    data_option,
    json_option,
    limit_option,
    refuse_options_before,
    settings_and_store,
    workspace_option,
)
from flows.cli.settings import Effective, effective
from flows.cli.steps import steps
from flows.data_folder import DataFolder
from flows.diagnosis import Check, Report, State
from flows.doctor import examine
from flows.twins import TitleChange, Twins, find_twins
from store.schema import load_settings
from store.schema.failpoint import VARIABLE

_STYLES: Final[Mapping[State, str]] = {"ok": "green", "note": "yellow", "wrong": "bold red"}
_OTHERS: Final = frozenset(
    {FOLDER_VARIABLE, BROKERS_VARIABLE, VARIABLE, "LOOKFIRST_DATA", "LOOKFIRST_TEST_BROKERS"}
)
"""Variables of ours that are no settings."""
_KINDS: Final = 12
"""Kinds of dead letters on the page (count)."""
_PAIRS: Final = 50


@click.group(invoke_without_command=True)
@data_option
@json_option("One JSON object with everything instead.")
@click.pass_context
def doctor(context: click.Context, data: Path, as_json: bool) -> int:
    """Look at a data folder, change nothing, and say what is in it and whether it fits together.

    Works while a run is going on. Exit code 1 when something is wrong; a note is not.
    """
    if context.invoked_subcommand is not None:
        return 0
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


@doctor.command("twins")
@data_option
@workspace_option("Tasks of this workspace only.")
@limit_option(_PAIRS)
@json_option("One JSON object with the pairs instead.")
@click.pass_context
def twins_command(context: click.Context, data: Path, workspace: str | None, limit: int, as_json: bool) -> None:
    """List pairs of tasks that look like one, those with the latest activity first.

    Tasks of one workspace whose titles share three quarters of their content words, unless they name different
    identifiers, amounts, days or numbers. Nothing is merged or changed; finding some is no fault.
    """
    if context.parent:
        refuse_options_before(context.parent, "twins")
    store = settings_and_store(data)[1]
    with steps() as progress:
        found = find_twins(store, workspace, limit, progress)
    if as_json:
        emit(found.model_dump_json())
        return
    if found.pairs:
        page().print(_twins(found))
    else:
        page().print(cell(f"No two of {found.compared:,} tasks look like one."))
    if found.left_out:
        more = "more than " if found.more else ""
        say(f"Left out here: {more}{found.left_out:,} pairs; raise --limit to see them.")


def _twins(found: Twins) -> Table:
    columns = ["likeness", "id", "state", "title", "titled (UTC)", "by", "workspace"]
    if len({pair.workspace for pair in found.pairs}) == 1:
        columns.remove("workspace")
    made = table("Tasks that look like one", *columns)
    for pair in found.pairs:
        for number, task in enumerate(pair.tasks):
            titled = task.titled
            cells = (
                "" if number else f"{pair.likeness:.2f}",
                short_id(task.id),
                task.state,
                task.title,
                moment(titled.at) if titled else "",
                _titled_by(titled),
                pair.workspace,
            )
            made.add_row(*(cell(each) for each in cells[: len(columns)]), end_section=number == 1)
    return made


def _titled_by(titled: TitleChange | None) -> str:
    if titled is None:
        return ""
    source = f"event {short_id(titled.event)}" if titled.event else "a person"
    return f"{titled.by} by {source}"


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

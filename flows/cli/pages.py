"""`lookfirst tasks`, `people` and `events`: the rows of the record, as it is or as it was, newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click
from rich.table import Table
from rich.text import Text

from flows.cli.console import cell, emit, moment, page, say, table
from flows.cli.find import short_id
from flows.cli.moments import Moments, past_options
from flows.cli.options import data_option, json_option, limit_option, settings_and_store, workspace_option
from flows.retrieve.slices import label_of, shorten
from store.past import Reads
from store.schema import EventRow, Frozen, PersonRow, TaskRow, TaskState
from store.schema.rows import EventOutcome

_LIMIT: Final = 50
EXCERPT: Final = 200
"""Characters of an event's text where it is not the thing that is shown."""
_WIDE: Final = 110
"""Width from which on every column is shown (characters)."""
_SPARE: Final = ("requester", "updated (UTC)", "first seen (UTC)", "thread")
"""Columns that a narrow page goes without; `show` and `--json` have them."""
_STYLES: Final[Mapping[str, str]] = {
    "in_progress": "yellow",
    "blocked": "red",
    "done": "green",
    "cancelled": "dim",
    "created": "green",
    "updated": "yellow",
    "not_a_task": "dim",
    "parked": "red",
}

_Row = TypeVar("_Row", bound=Frozen)
_Columns = Mapping[str, Callable[[_Row], Text]]
_Command = TypeVar("_Command", bound=Callable[..., Any])
_JSON = "One JSON object a line instead, each a whole row."


def _page_options(command: _Command) -> _Command:
    for option in (
        json_option(_JSON),
        limit_option(_LIMIT),
        workspace_option("Rows of this workspace only."),
        past_options,
        data_option,
    ):
        command = option(command)
    return command


@click.command()
@_page_options
@click.option("--state", type=click.Choice(get_args(TaskState)), help="Tasks in this state only.")
@click.option("--thread", metavar="T", help="Tasks that come from this thread only.")
def tasks(
    data: Path,
    workspace: str | None,
    limit: int,
    as_json: bool,
    state: str | None,
    thread: str | None,
    as_of: datetime | None,
    known_at: datetime | None,
) -> None:
    """List the tasks, those with the latest activity first."""
    then = Moments(as_of, known_at)
    reads = then.reads(settings_and_store(data)[1])
    rows = reads.listed(
        "tasks", TaskRow, newest="updated", limit=limit + 1, workspace=workspace, state=state, thread=thread
    )
    _show(rows, limit, as_json, partial(task_table, reads), "tasks", then)


@click.command()
@_page_options
def people(
    data: Path,
    workspace: str | None,
    limit: int,
    as_json: bool,
    as_of: datetime | None,
    known_at: datetime | None,
) -> None:
    """List the people, those seen last first."""
    then = Moments(as_of, known_at)
    reads = then.reads(settings_and_store(data)[1])
    rows = reads.listed("people", PersonRow, newest="last_seen", limit=limit + 1, workspace=workspace)
    _show(rows, limit, as_json, _people_table, "people", then)


@click.command()
@_page_options
@click.option("--outcome", type=click.Choice(get_args(EventOutcome)), help="Events with this outcome only.")
@click.option("--thread", metavar="T", help="Events of this thread only.")
def events(
    data: Path,
    workspace: str | None,
    limit: int,
    as_json: bool,
    outcome: str | None,
    thread: str | None,
    as_of: datetime | None,
    known_at: datetime | None,
) -> None:
    """List the events with what became of them, the latest first."""
    then = Moments(as_of, known_at)
    reads = then.reads(settings_and_store(data)[1])
    rows = reads.listed(
        "events", EventRow, newest="at", limit=limit + 1, workspace=workspace, outcome=outcome, thread=thread
    )
    _show(rows, limit, as_json, _events_table, "events", then)


def task_table(reads: Reads, rows: Sequence[TaskRow], width: int) -> Table:
    """Tasks for people to read."""
    who = labels(reads, (person for row in rows for person in (row.requester, *row.assignees)))
    columns: _Columns[TaskRow] = {
        "id": lambda row: cell(short_id(row.id)),
        "state": lambda row: cell(row.state, _STYLES.get(row.state, "")),
        "due": lambda row: cell(row.due.isoformat() if row.due else ""),
        "title": lambda row: cell(row.title),
        "assignees": lambda row: cell(", ".join(who[person] for person in row.assignees)),
        "requester": lambda row: cell(who[row.requester] if row.requester else ""),
        "updated (UTC)": lambda row: cell(moment(row.updated)),
        "workspace": lambda row: cell(row.workspace),
    }
    return _table(rows, columns, width)


def labels(reads: Reads, ids: Iterable[str | None]) -> dict[str, str]:
    """What to call people on a page; somebody the record does not know keeps the id."""
    wanted = list(dict.fromkeys(person for person in ids if person))
    known = reads.people(wanted)
    return {person: label_of(known[person]) if person in known else person for person in wanted}


def _people_table(rows: Sequence[PersonRow], width: int) -> Table:
    columns: _Columns[PersonRow] = {
        "id": lambda row: cell(short_id(row.id)),
        "names": lambda row: cell(", ".join(row.names)),
        "addresses": lambda row: cell(", ".join(row.addresses)),
        "first seen (UTC)": lambda row: cell(moment(row.first_seen)),
        "last seen (UTC)": lambda row: cell(moment(row.last_seen)),
        "workspace": lambda row: cell(row.workspace),
    }
    return _table(rows, columns, width)


def _events_table(rows: Sequence[EventRow], width: int) -> Table:
    columns: _Columns[EventRow] = {
        "id": lambda row: cell(short_id(row.id)),
        "outcome": lambda row: cell(row.outcome, _STYLES.get(row.outcome, "")),
        "at (UTC)": lambda row: cell(moment(row.at)),
        "thread": lambda row: cell(row.thread),
        "author": lambda row: cell(row.author_label),
        "text": lambda row: cell(shorten(row.text or row.subject or "", EXCERPT)),
        "workspace": lambda row: cell(row.workspace),
    }
    return _table(rows, columns, width)


def _table(rows: Sequence[_Row], columns: _Columns[_Row], width: int) -> Table:
    """The rows under the columns there is room for; the workspace only where there is more than one."""
    left_out = set() if width >= _WIDE else set(_SPARE)
    if len({columns["workspace"](row).plain for row in rows}) == 1:
        left_out.add("workspace")
    shown = {name: drawn for name, drawn in columns.items() if name not in left_out}
    made = table("", *shown)
    for row in rows:
        made.add_row(*(drawn(row) for drawn in shown.values()))
    return made


def _show(
    rows: Sequence[_Row],
    limit: int,
    as_json: bool,
    drawn: Callable[[Sequence[_Row], int], Table],
    name: str,
    then: Moments,
) -> None:
    """Print rows for a program or a person; one row more than `limit` says that there are more."""
    shown = rows[:limit]
    when = f" {then.words}" if then.words else ""
    if as_json:
        for row in shown:
            emit(row.model_dump_json())
    elif shown:
        out = page()
        made = drawn(shown, out.width)
        made.title = f"{name.capitalize()}{when}" if when else None
        out.print(made)
    else:
        say(f"There are no such {name}{when}.")
    if len(rows) > limit:
        say(f"There are more than {limit} {name}; raise --limit to see them.")

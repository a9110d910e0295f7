"""`lookfirst edit`, `delete` and `restore`: what a person says of a task, on its way to the record."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar, get_args

import click

from connectors.topic import Offsets, Topic
from flows.cli.console import emit, fields, page, say
from flows.cli.find import find_task
from flows.cli.options import DATA, brokers_option, data_option, json_option, settings_and_store
from flows.cli.pages import labels
from flows.data_folder import DataFolder, check_positions
from flows.parse import outgoing, read_operation
from flows.person import Found, Signature, Wishes, delete, edit, found, person_named, restore
from flows.topics import topics_of
from store.derive import Applied, derive
from store.record import Record
from store.schema import (
    Change,
    Coordinates,
    Edit,
    PersonOperation,
    PersonRow,
    StoreError,
    TaskRow,
    TaskState,
    UsageError,
    clean_text,
    load_settings,
)

_LOOKED: Final = 0.05
"""Time between two looks at how far the record is (s)."""
_LONGEST: Final = 3_600.0
"""Longest wait that can be asked for (s)."""
_PEOPLE: Final = 1_000_000
"""People of a workspace among whom one is found (rows)."""
_DONE: Final[Mapping[str, str]] = {"edit": "edited", "delete": "deleted", "restore": "restored"}

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Given:
    """The options that the three commands share."""

    task: str
    data: Path
    brokers: str | None
    by: str | None
    wait: float | None
    as_json: bool


def _person_command(command: _Command) -> _Command:
    for option in (
        json_option("The operation and where it stands, as one JSON object instead."),
        click.option(
            "--wait",
            type=click.FloatRange(0, _LONGEST),
            metavar="SECONDS",
            help="Wait until it can be read in the record, this long at most.",
        ),
        click.option("--by", metavar="NAME", help="Who does it; your login name unless given."),
        brokers_option("Append to the operations topic on these brokers instead of the one in the folder."),
        data_option,
        click.argument("task", metavar="ROW"),
    ):
        command = option(command)
    return command


@click.command("edit")
@_person_command
@click.option("--title", metavar="T", help="The title, one line.")
@click.option("--state", type=click.Choice(get_args(TaskState)), help="The state.")
@click.option("--due", metavar="DATE", help="The due date, like 2026-03-20.")
@click.option("--clear-due", is_flag=True, help="No due date any more.")
@click.option("--assign", multiple=True, metavar="P", help="Somebody more who does it; may be repeated.")
@click.option("--unassign", multiple=True, metavar="P", help="Somebody who does it no longer; may be repeated.")
def edit_command(
    title: str | None,
    state: TaskState | None,
    due: str | None,
    clear_due: bool,
    assign: tuple[str, ...],
    unassign: tuple[str, ...],
    **given: Any,
) -> None:
    """Change the named fields of a task, ROW, and no other.

    An edit beats every message that arrived before it, also one that is being decided at this moment. ROW may be
    the beginning of an id, as for `show`. P is the id of a person or its beginning, an address, or a name that
    one person of the workspace has.
    """
    by_date = _date(due)

    def edited(record: Record, task: Found, signature: Signature) -> PersonOperation:
        people = list(_people(record, task.workspace)) if assign or unassign else []
        wishes = Wishes(
            title=title,
            state=state,
            due=by_date,
            clear_due=clear_due,
            assign=tuple(person_named(typed, people) for typed in assign),
            unassign=tuple(person_named(typed, people) for typed in unassign),
        )
        return edit(task, wishes, signature, load_settings().title_characters)

    _append(_Given(**given), edited)


@click.command("delete")
@_person_command
def delete_command(**given: Any) -> None:
    """Delete a task, ROW: no message brings it back, only `restore` does.

    It is no longer listed, searched or shown to a judge; `lookfirst why` still tells its story. ROW may be the
    beginning of an id, as for `show`.
    """
    _append(_Given(**given), lambda _, task, signature: delete(task, signature))


@click.command("restore")
@_person_command
def restore_command(**given: Any) -> None:
    """Bring a deleted task, ROW, back.

    It has all that was said of it before it was deleted. What messages said of it between then and now stays
    without effect. ROW may be the beginning of its id, which `delete` has printed.
    """
    _append(_Given(**given), lambda _, task, signature: restore(task, signature))


def _append(given: _Given, build: Callable[[Record, Found, Signature], PersonOperation]) -> None:
    """Find the task, build the operation, append it and say what will happen."""
    by = _by(given.by)
    settings, store = settings_and_store(given.data)
    with topics_of(DataFolder.at(given.data, settings), settings, given.brokers) as opened:
        operations = opened("operations")
        reached = check_positions(store, operations)
        task_id = find_task(store.record, given.task)
        emitted, end = _emitted(operations, reached, task_id)
        # Read after the topic: what is applied in between is in both, and counts once.
        task = found(task_id, store.record.changes([task_id])[task_id], emitted)
        operation = build(store.record, task, Signature(by, end))
        place = operations.append([outgoing(operation)])
    applied = given.wait is not None and _applied(store.record, place, given.wait)
    if given.as_json:
        stands = {"topic": place.topic, "partition": place.partition, "offset": place.offset, "applied": applied}
        emit(json.dumps({"operation": operation.model_dump(mode="json"), **stands}, ensure_ascii=False))
    else:
        page().print(fields(_told(store.record, operation, task.row)))
    run = _run(given)
    if applied:
        say("It is applied.")
    elif given.wait is None:
        say(f"A run in progress applies it at once, else the next `{run}` does.")
    else:
        raise StoreError(
            f"It was appended and is not lost, but no run applied it within {given.wait:g} s; `{run}` does."
        )


def _run(given: _Given) -> str:
    """The command that applies what was appended."""
    command = "lookfirst run"
    if given.brokers is not None:
        command = f"{command} apply --brokers {given.brokers}"
    return command if given.data == DATA else f"{command} --data {given.data}"


def _emitted(operations: Topic, reached: Offsets, task: str) -> tuple[list[Change], int]:
    """Changes of a task that are not applied yet, and the offset at which the topic ends, added up."""
    changes: list[Change] = []
    ends = operations.ends()
    for incoming in chain.from_iterable(operations.walk(reached, ends)):
        # An id is spelled in one way, so that most messages need not be read to know that they leave it alone.
        if task in incoming.value and isinstance(read := read_operation(incoming), Applied):
            changes += (change for change in derive(read).changes if change.row_id == task)
    return changes, sum(ends.values())


def _applied(record: Record, appended: Coordinates, seconds: float) -> bool:
    """Wait until the record has reached a message, so long at most."""
    deadline = time.monotonic() + seconds
    while True:
        if any(
            place.part == "record"
            and (place.topic, place.partition) == (appended.topic, appended.partition)
            and place.next_offset > appended.offset
            for place in record.positions()
        ):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOKED)


def _told(record: Record, operation: PersonOperation, row: TaskRow | None) -> Iterator[tuple[str, str]]:
    yield _DONE[operation.kind], operation.row
    if isinstance(operation, Edit) and row:
        yield from _changed(record, operation, row)
    elif row:
        yield "title", row.title
    yield "by", operation.by


def _changed(record: Record, operation: Edit, row: TaskRow) -> Iterator[tuple[str, str]]:
    who = labels(record, [*operation.assign, *operation.unassign])
    if operation.title is not None:
        yield "title", f"{row.title} → {operation.title}"
    if operation.state is not None:
        yield "state", f"{row.state} → {operation.state}"
    if operation.due is not None or operation.clear_due:
        yield "due", f"{row.due or 'none'} → {operation.due or 'none'}"
    yield from (("assignees", f"+ {who[person]}") for person in operation.assign)
    yield from (("assignees", f"- {who[person]}") for person in operation.unassign)


def _people(record: Record, workspace: str) -> list[PersonRow]:
    return record.listed("people", PersonRow, newest="last_seen", limit=_PEOPLE, workspace=workspace)


def _date(typed: str | None) -> date | None:
    if typed is None:
        return None
    try:
        return date.fromisoformat(typed)
    except ValueError as error:
        raise UsageError(f"{typed!r} is no date; write --due like 2026-03-20.") from error


def _by(named: str | None) -> str:
    try:
        by = clean_text(getpass.getuser() if named is None else named).strip()
    except (KeyError, OSError, ImportError):
        by = ""
    if not by:
        raise UsageError("Nobody is named who does it; give --by NAME.")
    return by

"""`lookfirst show`: one task, person or event, whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from flows.cli.console import emit, fields, moment, page
from flows.cli.find import find_row
from flows.cli.options import data_option, json_option, settings_and_store
from flows.cli.pages import EXCERPT, labels
from flows.retrieve.slices import shorten
from store.record import Record
from store.schema import EventRow, PersonRow, TaskRow


@click.command()
@click.argument("row_id", metavar="ID")
@data_option
@json_option("The row as one JSON object instead.")
def show(row_id: str, data: Path, as_json: bool) -> None:
    """Show one task, person or event, whole.

    ID may be the beginning of one: the letter, the dash and at least 6 digits.
    """
    record = settings_and_store(data)[1].record
    row = _row(record, find_row(record, row_id))
    if as_json:
        emit(row.model_dump_json())
    else:
        page().print(fields(_told(record, row)))


def excerpt(event: EventRow) -> str:
    """An event in one line: who, when, where, and the beginning of what was said."""
    said = shorten(" ".join((event.text or event.subject or "").split()), EXCERPT)
    return f"{event.author_label or 'somebody'}, {moment(event.at)}, {event.source} {event.thread}: {said}"


def _row(record: Record, row_id: str) -> TaskRow | PersonRow | EventRow:
    match row_id[0]:
        case "t":
            return record.tasks([row_id])[row_id]
        case "p":
            return record.people([row_id])[row_id]
        case _:
            return record.events([row_id])[row_id]


def _told(record: Record, row: TaskRow | PersonRow | EventRow) -> Iterator[tuple[str, str]]:
    match row:
        case TaskRow():
            return _task(record, row)
        case PersonRow():
            return _person(row)
        case EventRow():
            return _event(record, row)


def _task(record: Record, task: TaskRow) -> Iterator[tuple[str, str]]:
    who = labels(record, [task.requester, *task.assignees])
    yield "task", task.id
    yield "title", task.title
    yield "state", task.state
    yield "due", task.due.isoformat() if task.due else "-"
    yield "assignees", ", ".join(who[person] for person in task.assignees) or "-"
    yield "requester", who[task.requester] if task.requester else "-"
    yield "workspace", task.workspace
    yield "thread", task.thread
    yield "created", f"{moment(task.created)} UTC"
    yield "updated", f"{moment(task.updated)} UTC"
    yield "body", task.body
    known = record.events(task.evidence)
    for uid in task.evidence:
        yield "evidence", excerpt(known[uid]) if uid in known else uid


def _person(person: PersonRow) -> Iterator[tuple[str, str]]:
    yield "person", person.id
    yield "names", ", ".join(person.names) or "-"
    yield "addresses", ", ".join(person.addresses) or "-"
    yield "workspace", person.workspace
    yield "first seen", f"{moment(person.first_seen)} UTC"
    yield "last seen", f"{moment(person.last_seen)} UTC"


def _event(record: Record, event: EventRow) -> Iterator[tuple[str, str]]:
    yield "event", event.id
    yield "outcome", event.outcome.replace("_", " ")
    yield "workspace", event.workspace
    yield "source", f"{event.source} {event.kind}"
    yield "thread", event.thread
    yield "source id", event.source_id
    yield "at", f"{moment(event.at)} UTC{' (it claims a later time)' if event.postdated else ''}"
    yield "arrived", f"{moment(event.arrived)} UTC"
    yield "author", event.author_label or "-"
    if event.subject:
        yield "subject", event.subject
    yield "text", event.text
    tasks = record.tasks(event.rows)
    for row_id in event.rows:
        title = tasks[row_id].title if row_id in tasks else "(not listed)"
        yield "tasks", f"{row_id} {title}"

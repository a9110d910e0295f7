"""`lookfirst show`: one task, person or event, whole, as it is or as it was."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

from flows.cli.console import emit, fields, moment, page
from flows.cli.find import find_row, find_task
from flows.cli.moments import Moments, past_options
from flows.cli.options import data_option, json_option, settings_and_store
from flows.cli.pages import EXCERPT, labels
from flows.retrieve.slices import shorten
from store import Store
from store.past import Reads
from store.record import Record
from store.schema import Action, EventRow, PersonRow, TaskRow, UsageError


@click.command()
@click.argument("row_id", metavar="ID")
@data_option
@past_options
@json_option("The row as one JSON object instead.")
def show(row_id: str, data: Path, as_json: bool, as_of: datetime | None, known_at: datetime | None) -> None:
    """Show one task, person or event, whole.

    ID may be the beginning of one: the letter, the dash and at least 6 digits.
    """
    store, then = settings_and_store(data)[1], Moments(as_of, known_at)
    reads = then.reads(store)
    row = _found(store, reads, row_id, then)
    if as_json:
        emit(row.model_dump_json())
    else:
        page().print(fields([*then.told(), *_told(reads, row)]))


def excerpt(event: EventRow) -> str:
    """An event in one line: who, when, where, and the beginning of what was said."""
    said = shorten(" ".join((event.text or event.subject or "").split()), EXCERPT)
    return f"{event.author_label or 'somebody'}, {moment(event.at)}, {event.source} {event.thread}: {said}"


def _found(store: Store, reads: Reads, typed: str, then: Moments) -> TaskRow | PersonRow | EventRow:
    """The row; raises UsageError when there is none, or when there was none then."""
    record = store.record
    # A task that is deleted by now may have been there then.
    row_id = find_task(record, typed) if then.words and typed.startswith("t-") else find_row(record, typed)
    row = _row(reads, row_id)
    if row is None:
        raise UsageError(_absence(record, row_id, then))
    return row


def _row(reads: Reads, row_id: str) -> TaskRow | PersonRow | EventRow | None:
    match row_id[0]:
        case "t":
            return reads.tasks([row_id]).get(row_id)
        case "p":
            return reads.people([row_id]).get(row_id)
        case _:
            return reads.events([row_id]).get(row_id)


def _absence(record: Record, row_id: str, then: Moments) -> str:
    """Why a row was not there then."""
    if row_id[0] == "e":
        event = record.events([row_id])[row_id]
        return f"There is no event {row_id} {then.words}; {then.since([(event.at, event.arrived)])}."
    changes = record.changes([row_id]).get(row_id, [])
    if row_id[0] == "p":
        seen = [(change.version.at, change.arrived) for change in changes]
        return f"There is no person {row_id} {then.words}; {then.since(seen)}."
    created = [(change.version.at, change.arrived) for change in changes if change.action is Action.CREATE]
    if not created:
        return f"The task {row_id} is not created yet; `lookfirst why {row_id}` tells its story."
    if since := then.since(created):
        return f"There is no task {row_id} {then.words}; {since}."
    return f"The task {row_id} is deleted {then.words}; `lookfirst why {row_id}{then.options}` tells its story."


def _told(reads: Reads, row: TaskRow | PersonRow | EventRow) -> Iterator[tuple[str, str]]:
    match row:
        case TaskRow():
            return _task(reads, row)
        case PersonRow():
            return _person(row)
        case EventRow():
            return _event(reads, row)


def _task(reads: Reads, task: TaskRow) -> Iterator[tuple[str, str]]:
    who = labels(reads, [task.requester, *task.assignees])
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
    known = reads.events(task.evidence)
    for uid in task.evidence:
        yield "evidence", excerpt(known[uid]) if uid in known else uid


def _person(person: PersonRow) -> Iterator[tuple[str, str]]:
    yield "person", person.id
    yield "names", ", ".join(person.names) or "-"
    yield "addresses", ", ".join(person.addresses) or "-"
    yield "workspace", person.workspace
    yield "first seen", f"{moment(person.first_seen)} UTC"
    yield "last seen", f"{moment(person.last_seen)} UTC"


def _event(reads: Reads, event: EventRow) -> Iterator[tuple[str, str]]:
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
    tasks = reads.tasks(event.rows)
    for row_id in event.rows:
        title = tasks[row_id].title if row_id in tasks else "(not listed)"
        yield "tasks", f"{row_id} {title}"

"""`lookfirst why`: how a task became what it is, or what it was, change by change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

import click

from flows.cli.console import cell, emit, fields, moment, page
from flows.cli.find import find_task
from flows.cli.moments import Moments, past_options
from flows.cli.options import data_option, json_option, settings_and_store
from flows.cli.pages import labels
from flows.cli.show import excerpt
from flows.cli.story import FieldStep, Step, Story, story_of
from flows.cli.view_page import asked, found_titles
from store.record import Record
from store.schema import Action, Create, Evidence, UsageError, View

_DONE: Final[Mapping[Action | None, str]] = {
    Action.CREATE: "created",
    Action.DELETE: "deleted",
    Action.RESTORE: "restored",
    None: "changed",
}


@click.command()
@click.argument("task", metavar="TASK")
@data_option
@past_options
@json_option("The whole story as one JSON object instead.")
def why(task: str, data: Path, as_json: bool, as_of: datetime | None, known_at: datetime | None) -> None:
    """Explain how a TASK became what it is, change by change.

    Each change with the event it came from, what was visible, what was decided and why, and what was refused.
    A deleted task is explained as well. TASK may be the beginning of an id, as for `show`.
    """
    store, then = settings_and_store(data)[1], Moments(as_of, known_at)
    story = story_of(store, find_task(store.record, task), then)
    if not story.steps:
        raise UsageError(_silence(store.record, story.task, then))
    if as_json:
        emit(story.model_dump_json())
        return
    people = (
        person
        for step in story.steps
        for field in step.fields
        if field.field in ("assignees", "requester")
        for person in (field.before, field.after)
    )
    who = labels(then.reads(store), people)
    out = page()
    out.print(cell(_heading(story), "bold"))
    if then.words:
        out.print(cell(then.words))
    for number, step in enumerate(story.steps, start=1):
        out.print()
        out.print(cell(f"{number}. {moment(step.version.at)} UTC · {_DONE[step.whole]}", "bold"))
        out.print(fields(_told(step, who)))


def _heading(story: Story) -> str:
    if story.row is None:
        deleted = any(step.whole is Action.DELETE for step in story.steps)
        state = "deleted" if deleted else "not listed: it is not created yet"
        return f"{story.task} {story.last_title} ({state})"
    due = f", due {story.row.due.isoformat()}" if story.row.due else ""
    return f"{story.task} {story.row.title} ({story.row.state}{due})"


def _silence(record: Record, task: str, then: Moments) -> str:
    """What to say of a task of which nothing had been said then."""
    changes = record.changes([task])[task]
    since = then.since((change.version.at, change.arrived) for change in changes)
    return f"Nothing is said of the task {task} {then.words}; {since}."


def _told(step: Step, who: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for field in step.fields:
        if field.field:
            yield "change", _field(field, who)
    if step.absorbed:
        yield "effect", "none: the task was deleted at this time"
    if step.event_id is None:
        yield "by", f"{step.by or 'somebody'}, in person"
    else:
        yield "event", f"{excerpt(step.event)} ({step.event_id})" if step.event else step.event_id
    if step.hindsight:
        yield "decided", "later, from what had not happened by then: left out"
    if step.segments and step.operation:
        yield "piece", f"{step.operation.segment + 1} of {len(step.segments.spans)}, for the text is long"
        if step.segments.unjudged:
            begin, end = step.segments.unjudged
            yield "unjudged", f"characters {begin:,} to {end:,}: the text has more pieces than are judged"
    if step.view:
        yield from asked(step.view)
        yield from found_titles(step.view)
    if step.operation:
        yield "decided", f"{step.operation.kind.replace('_', ' ')}, by {step.judge}"
        yield "because", step.operation.reason
        if isinstance(step.operation, Create):
            yield "not nothing", step.operation.not_nothing
        for item in step.operation.evidence:
            yield "evidence", _evidence(item, step.view)
    for rejection in step.rejected:
        yield "rejected", f"attempt {rejection.attempt}, {rejection.rule}: {rejection.reason}"


def _field(field: FieldStep, who: Mapping[str, str]) -> str:
    before, after = who.get(field.before, field.before), who.get(field.after, field.after)
    match field.action:
        case Action.ADD:
            return f"{field.field}: + {after}"
        case Action.REMOVE:
            return f"{field.field}: - {before}"
        case _ if before:
            return f"{field.field}: {before} → {after or 'none'}"
        case _:
            return f"{field.field}: {after or 'none'}"


def _evidence(item: Evidence, view: View | None) -> str:
    row = view.task(item.handle) if view else None
    return f"{item.handle}: {row.title}" if row else f"{item.handle}: {item.row_id}"

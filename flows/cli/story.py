"""Why a task is what it is: its changes in order, each with the event and the decision it came from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import groupby
from typing import Final

from flows.cli.moments import NOW, Moments
from store import Store
from store.schema import (
    Action,
    Change,
    Decision,
    EventRow,
    Frozen,
    JudgedOperation,
    Rejection,
    Segmentation,
    TaskRow,
    Version,
    View,
    parse_message,
)
from store.schema.base import UtcTime
from store.schema.identity import decision_id, session_entry_id

_ORDER: Final = ("", "title", "state", "due", "assignees", "requester", "thread", "body")
_WHOLE: Final = (Action.CREATE, Action.DELETE, Action.RESTORE)


class FieldStep(Frozen):
    """One field that became something else; an empty field name is the whole row."""

    field: str
    action: Action
    before: str = ""
    after: str


class Step(Frozen):
    """What one operation did to the task, and why."""

    version: Version
    arrived: UtcTime
    fields: tuple[FieldStep, ...]
    absorbed: bool
    """The task was deleted at this time, so that nothing came of it."""
    by: str | None = None
    """Who did it, for a person's operation."""
    event_id: str | None = None
    """None for a person's operation."""
    event: EventRow | None = None
    operation: JudgedOperation | None = None
    judge: str | None = None
    view: View | None = None
    segments: Segmentation | None = None
    """How the event was cut, when it was too long to be judged in one piece; `view` is that of the piece."""
    rejected: tuple[Rejection, ...] = ()
    hindsight: bool = False
    """It was decided from what happened after the moment that is asked for, so that how is left out."""

    @property
    def whole(self) -> Action | None:
        """What it did to the whole row, if anything."""
        return next((step.action for step in self.fields if step.action in _WHOLE), None)


class Story(Frozen):
    """A task and all its steps, listed or deleted."""

    task: str
    row: TaskRow | None
    """None while it is not listed."""
    last_title: str
    steps: tuple[Step, ...]


def story_of(store: Store, task: str, then: Moments = NOW) -> Story:
    """Read what is kept of a task, and tell it in the order of versions, up to a moment.

    A task of which nothing had been said by then has no steps.
    """
    record, reads = store.record, then.reads(store)
    changes = reads.changes([task]).get(task, [])
    uids = {change.event for change in changes if change.event}
    rows = record.decisions(decision_id(uid) for uid in uids)
    standing = (parse_message(row.message) for row in rows if row.stands)
    decisions = {message.event.uid: message for message in standing if isinstance(message, Decision)}
    own = {session_entry_id(c.version.operation): c.version.operation for c in changes if not c.event}
    by = {own[entry.id]: json.loads(entry.payload)["by"] for entry in record.entries(own).values()}
    steps = tell(changes, reads.events(uids), decisions, by)
    titles = [field.after for step in steps for field in step.fields if field.field == "title"]
    return Story(
        task=task,
        row=reads.tasks([task]).get(task),
        last_title=titles[-1] if titles else "",
        steps=tuple(_without_hindsight(step, then.as_of) for step in steps),
    )


def _without_hindsight(step: Step, as_of: datetime | None) -> Step:
    """A late mail tells of what happened early, and was judged beside what has happened since (U10)."""
    if as_of is None or step.view is None:
        return step
    views = (step.view, *(step.segments.views if step.segments else ()))
    if not any(_shows_later(view, as_of, step.arrived) for view in views):
        return step
    judgment = {"operation": None, "judge": None, "view": None, "segments": None, "rejected": ()}
    return step.model_copy(update={**judgment, "hindsight": True})


def _shows_later(view: View, as_of: datetime, arrived: datetime) -> bool:
    seen = [moment for row in view.tasks() for moment in (row.version.at, row.last_activity)]
    seen += [person.last_seen for person in view.standby.people]
    # A summary does not say of when it is.
    return any(moment > as_of for moment in seen) or (view.summary is not None and arrived > as_of)


def tell(
    changes: Iterable[Change],
    events: Mapping[str, EventRow],
    decisions: Mapping[str, Decision],
    by: Mapping[str, str],
) -> tuple[Step, ...]:
    """The steps of one row: a pure function of its changes and of where they came from.

    Events by uid, their Decisions by the same, and who did a person's operation by its id.
    """
    ordered = sorted(changes, key=lambda change: change.version)
    created_by = next((c.version.operation for c in ordered if c.action is Action.CREATE), None)
    current: dict[str, str] = {}
    deleted = False
    steps: list[Step] = []
    for operation, group in groupby(ordered, key=lambda change: change.version.operation):
        made = sorted(group, key=lambda c: _ORDER.index(c.field) if c.field in _ORDER else len(_ORDER))
        actions = {change.action for change in made}
        absorbed = deleted and operation != created_by and Action.RESTORE not in actions
        fields = tuple(_field(change, current) for change in made if change.action is not Action.UNION)
        if not absorbed:
            current.update({change.field: change.value for change in made if change.action is Action.SET})
        deleted = (deleted or Action.DELETE in actions) and Action.RESTORE not in actions
        step = _step(made[0], fields, absorbed, events, decisions)
        steps.append(step.model_copy(update={"by": by.get(operation)}))
    return tuple(steps)


def _step(
    change: Change,
    fields: tuple[FieldStep, ...],
    absorbed: bool,
    events: Mapping[str, EventRow],
    decisions: Mapping[str, Decision],
) -> Step:
    step = Step(version=change.version, arrived=change.arrived, fields=fields, absorbed=absorbed)
    if change.event is None:
        return step
    decision = decisions.get(change.event)
    known: dict[str, object] = {"event_id": change.event, "event": events.get(change.event)}
    if decision:
        made = next((each for each in decision.operations if each.id == change.version.operation), None)
        known |= {
            "operation": made,
            "judge": decision.judge,
            "view": decision.views[made.segment if made else 0],
            "segments": decision.segments,
            "rejected": decision.rejected,
        }
    return step.model_copy(update=known)


def _field(change: Change, current: Mapping[str, str]) -> FieldStep:
    match change.action:
        case Action.REMOVE:
            return FieldStep(field=change.field, action=change.action, before=change.value, after="")
        case Action.SET:
            before = current.get(change.field, "")
            return FieldStep(field=change.field, action=change.action, before=before, after=change.value)
        case _:
            return FieldStep(field=change.field, action=change.action, after=change.value)

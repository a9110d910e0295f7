"""What a message means for the store: one pure function from a message to changes and rows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from store.identifiers import find_identifiers
from store.schema import (
    Action,
    Arrival,
    Change,
    Coordinates,
    Create,
    Decision,
    DecisionRow,
    Delete,
    Edit,
    Event,
    EventRow,
    Matched,
    Message,
    NotATask,
    Parked,
    Restore,
    SessionEntry,
    Update,
    Version,
)
from store.schema.change import PERSON_SEQ, TableName
from store.schema.identity import session_entry_id
from store.schema.rows import EntryKind, EventOutcome

_IDENTIFIERS = 16
"""Identifiers of one event under which its row is found from then on (count)."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A message of the operations topic with where and when it was appended."""

    message: Message
    coordinates: Coordinates
    arrived: datetime
    raw: str
    """The message as it stands in the topic, JSON."""


@dataclass(frozen=True, slots=True)
class Derived:
    """Everything that follows from one message; `entry.parent` is left to whoever knows the leaf."""

    changes: tuple[Change, ...] = ()
    event: EventRow | None = None
    entry: SessionEntry | None = None
    decision: DecisionRow | None = None


def derive(applied: Applied) -> Derived:
    """Changes, event row, session entry and decision row of one message that stands."""
    message = applied.message
    match message:
        case Decision():
            return Derived(
                changes=decision_changes(message),
                event=_event_row(message.arrival, _outcome(message), message.id, _touched(message)),
                entry=_entry(applied, message.event.workspace, message.event.thread, "decision", message.id),
                decision=decision_row(applied, message, stands=True),
            )
        case Parked():
            return Derived(event=_event_row(message.arrival, "parked", None, ()))
        case Edit() | Delete() | Restore():
            return Derived(
                changes=tuple(_personal_changes(applied, message)),
                entry=_entry(applied, message.workspace, message.thread, message.kind, message.id),
            )
        case _:
            return Derived(entry=_entry(applied, message.workspace, message.thread, message.kind, message.id))


def decision_row(applied: Applied, decision: Decision, *, stands: bool) -> DecisionRow:
    """The decision as it is kept, whole; also for one that was dropped."""
    where = applied.coordinates
    return DecisionRow(
        id=f"{decision.id}@{where.partition}:{where.offset}",
        decision=decision.id,
        event=decision.event.uid,
        workspace=decision.event.workspace,
        partition=where.partition,
        position=where.offset,
        stands=stands,
        arrived=applied.arrived,
        message=applied.raw,
    )


def decision_changes(decision: Decision) -> tuple[Change, ...]:
    """The changes of a Decision: of the tasks it touches, and of the people its event names."""
    return (*_task_changes(decision), *_person_changes(decision.arrival))


def _task_changes(decision: Decision) -> Iterator[Change]:
    arrival = decision.arrival
    for operation in decision.operations:
        if isinstance(operation, Matched | NotATask):
            continue
        version = Version(at=arrival.happened, seq=arrival.seq, operation=operation.id)
        seen = operation.seen if isinstance(operation, Update) else None
        steps = [*_steps(operation), ("evidence", Action.UNION, arrival.event.uid)]
        steps += (("participants", Action.UNION, person) for person in arrival.event.people)
        if isinstance(operation, Create):
            steps.append(("thread", Action.SET, arrival.event.thread))
        steps += (("identifiers", Action.UNION, key) for key in _named(arrival.event, operation))
        for field, action, value in steps:
            yield _event_change(arrival, "tasks", operation.task, field, action, value, version, seen)


def _named(event: Event, operation: Create | Update) -> tuple[str, ...]:
    """Identifiers that an event gives a task beside its title and body: those of its subject, and of an update."""
    quote = operation.quote if isinstance(operation, Update) else ""
    found = find_identifiers(f"{event.subject or ''}\n{quote}")[:_IDENTIFIERS]
    return tuple(identifier.key for identifier in found)


def _event_change(
    arrival: Arrival,
    table: TableName,
    row_id: str,
    field: str,
    action: Action,
    value: str,
    version: Version,
    seen: Version | None = None,
) -> Change:
    # Made of values that were validated when the message was read; there are ten for each event.
    return Change.model_construct(
        table=table,
        row_id=row_id,
        workspace=arrival.event.workspace,
        field=field,
        action=action,
        value=value,
        version=version,
        seen=seen,
        event=arrival.event.uid,
        arrived=arrival.arrived,
    )


_Step = tuple[str, Action, str]


def _steps(operation: Create | Update | Edit) -> Iterator[_Step]:
    """Only the fields that are set are versioned."""
    if isinstance(operation, Create):
        yield "", Action.CREATE, ""
        yield "body", Action.SET, operation.quote
        if operation.requester:
            yield "requester", Action.SET, operation.requester
        yield from (("assignees", Action.ADD, person) for person in operation.assignees)
    else:
        if operation.clear_due:
            yield "due", Action.SET, ""
        yield from (("assignees", Action.ADD, person) for person in operation.assign)
        yield from (("assignees", Action.REMOVE, person) for person in operation.unassign)
    if operation.title is not None:
        yield "title", Action.SET, operation.title
    if operation.state is not None:
        yield "state", Action.SET, operation.state
    if operation.due is not None:
        yield "due", Action.SET, operation.due.isoformat()


def _personal_changes(applied: Applied, operation: Edit | Delete | Restore) -> Iterator[Change]:
    version = Version(at=applied.arrived, seq=PERSON_SEQ + applied.coordinates.offset, operation=operation.id)
    steps: Iterator[_Step]
    match operation:
        case Edit():
            steps = _steps(operation)
        case Delete():
            steps = iter([("", Action.DELETE, "")])
        case Restore():
            steps = iter([("", Action.RESTORE, "")])
    for field, action, value in steps:
        yield Change(
            table="tasks",
            row_id=operation.row,
            workspace=operation.workspace,
            field=field,
            action=action,
            value=value,
            version=version,
            seen=operation.seen,
            arrived=applied.arrived,
        )


def _person_changes(arrival: Arrival) -> Iterator[Change]:
    event = arrival.event
    version = Version(at=arrival.happened, seq=arrival.seq, operation=event.uid)
    moment = arrival.happened.isoformat()
    said: dict[tuple[str, str, str], Action] = {}
    for participant in (event.author, *event.mentions):
        row_id = event.person(participant)
        if row_id is None:
            continue
        if participant.name:
            said[row_id, "names", participant.name] = Action.UNION
        if participant.address:
            said[row_id, "addresses", participant.address] = Action.UNION
        said[row_id, "first_seen", moment] = Action.MINIMUM
        said[row_id, "last_seen", moment] = Action.MAXIMUM
    for (row_id, field, value), action in said.items():
        yield _event_change(arrival, "people", row_id, field, action, value, version)


def _outcome(decision: Decision) -> EventOutcome:
    kinds = {operation.kind for operation in decision.operations}
    if "create" in kinds:
        return "created"
    if "update" in kinds:
        return "updated"
    return "matched" if "matched" in kinds else "not_a_task"


def _touched(decision: Decision) -> tuple[str, ...]:
    tasks = (operation.task for operation in decision.operations if not isinstance(operation, NotATask))
    return tuple(dict.fromkeys(tasks))


def _event_row(arrival: Arrival, outcome: EventOutcome, decision: str | None, rows: tuple[str, ...]) -> EventRow:
    event = arrival.event
    return EventRow(
        id=event.uid,
        workspace=event.workspace,
        source=event.source,
        thread=event.thread,
        source_id=event.id,
        kind=event.kind,
        at=arrival.happened,
        arrived=arrival.arrived,
        seq=arrival.seq,
        author=event.person(event.author),
        author_label=event.author.label,
        subject=event.subject,
        text=event.text,
        outcome=outcome,
        decision=decision,
        rows=rows,
        postdated=arrival.postdated,
        unkeyed=arrival.unkeyed,
    )


def _entry(applied: Applied, workspace: str, thread: str, kind: EntryKind, made_by: str) -> SessionEntry:
    payload = json.dumps({"decision": made_by}) if kind == "decision" else applied.raw
    return SessionEntry(
        id=session_entry_id(made_by),
        workspace=workspace,
        thread=thread,
        parent=None,
        kind=kind,
        position=applied.coordinates.offset,
        at=applied.arrived,
        payload=payload,
    )

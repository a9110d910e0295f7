"""The rows of the record."""

from __future__ import annotations

from datetime import date
from typing import Literal

from store.schema.base import Frozen, UtcTime
from store.schema.change import Version
from store.schema.event import EventKind

TaskState = Literal["open", "in_progress", "blocked", "done", "cancelled"]
EventOutcome = Literal["created", "updated", "matched", "not_a_task", "parked"]
EntryKind = Literal["decision", "edit", "delete", "restore", "summary", "gap", "collapse", "metadata"]


class TaskRow(Frozen):
    """A task: the fold of its changes."""

    id: str
    workspace: str
    thread: str
    title: str
    state: TaskState
    due: date | None = None
    body: str
    """The event's own words, never a model's (R50)."""
    assignees: tuple[str, ...] = ()
    requester: str | None = None
    participants: tuple[str, ...] = ()
    """People of the events that created or changed it, authors and mentioned, by first appearance, then id."""
    identifiers: tuple[str, ...] = ()
    """Keys of the exact identifiers that subjects and updates have given it; those of title and body are there."""
    evidence: tuple[str, ...] = ()
    """Uids of the events that created or changed it."""
    created: UtcTime
    updated: UtcTime
    version: Version
    """That of its latest change."""


class PersonRow(Frozen):
    """A person, identified by an address or a source's user id, never by a name alone."""

    id: str
    workspace: str
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    first_seen: UtcTime
    last_seen: UtcTime


class EventRow(Frozen):
    """An event with what became of it. Written last: once it is readable, all of its Decision is."""

    id: str
    """Uid of the event's identity."""
    workspace: str
    source: str
    thread: str
    source_id: str
    kind: EventKind
    at: UtcTime
    arrived: UtcTime
    seq: int
    author: str | None
    """Person id."""
    author_label: str | None
    subject: str | None
    text: str
    outcome: EventOutcome
    decision: str | None
    """Decision id; None while the event is only parked."""
    rows: tuple[str, ...] = ()
    """Ids of the tasks that were created, updated or matched."""
    postdated: bool = False
    unkeyed: bool = False


class SessionEntry(Frozen):
    """One entry of the append-only log of a thread."""

    id: str
    workspace: str
    thread: str
    parent: str | None
    kind: EntryKind
    position: int
    """Offset of the message it was derived from: the order within the log."""
    at: UtcTime
    payload: str
    """JSON: the message, or for a Decision the ids that lead to it."""


class DecisionRow(Frozen):
    """A message of the operations topic as it was applied, standing or dropped."""

    id: str
    """Decision id and coordinates: a second decision of the same event is another row."""
    decision: str
    event: str
    workspace: str
    partition: int
    position: int
    stands: bool
    """False for a second decision of an identity: it was dropped whole."""
    arrived: UtcTime
    message: str
    """The whole message, JSON."""


class Position(Frozen):
    """How far a part of the store has followed a partition of a topic."""

    id: str
    part: Literal["record", "memory"]
    topic: str
    topic_id: str
    partition: int
    next_offset: int

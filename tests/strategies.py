"""Hypothesis strategies: messages of the operations topic over few rows, with event times that collide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import get_args

from hypothesis import strategies as st

from store.derive import Applied
from store.schema import (
    Action,
    Arrival,
    Change,
    Complete,
    Coordinates,
    Create,
    Decision,
    Delete,
    Edit,
    Event,
    Evidence,
    FailureClass,
    JudgedOperation,
    Matched,
    Message,
    NotATask,
    Parked,
    Participant,
    Query,
    Read,
    Restore,
    Segmentation,
    Slice,
    TaskState,
    Update,
    Version,
    View,
)
from store.schema.identity import derive_id, event_uid, operation_id, task_id
from tests.workplace import START

WORKSPACES = ("default", "other")
THREADS = ("t", "u")
PEOPLE = (
    Participant(id="anna", name="Anna", address="anna@example.org"),
    Participant(id="anna.b", name="Anna B.", address="Anna@example.org"),
    Participant(id="ben", name="Ben"),
    Participant(id="ben", name="Benjamin", address=None),
    Participant(name="a name alone"),
)
TITLES = ("review", "the review", "ship it")
ASSIGNEES = ("p-1", "p-2", "p-3")
DAYS = (date(2024, 5, 10), date(2024, 6, 1))
EVENTS = "lookfirst.events"
OPERATIONS = "lookfirst.operations"

moments = st.integers(0, 3).map(lambda minutes: START + timedelta(minutes=minutes))
"""Whole minutes, few of them: what chat exports give, and what makes versions collide."""
states = st.sampled_from(get_args(TaskState))
versions = st.builds(Version, at=moments, seq=st.integers(0, 3), operation=st.sampled_from(("o-1", "o-2", "o-3")))


def seen(*tasks: str, event: str = "e-0") -> View:
    """A View that permits every operation on these tasks."""
    slices = tuple(
        Slice(
            handle=f"S{number}",
            row_id=task,
            title="seen",
            state="open",
            last_activity=START,
            head="seen",
            version=Version(at=START, seq=0, operation="o-seen"),
        )
        for number, task in enumerate(dict.fromkeys(tasks), 1)
    )
    reads = ("text", "thread", "standby_tasks", "standby_people")
    return View(
        event=event,
        queries=(Query(lane="text", terms=("review",)),),
        reads=tuple(Read(name=name, outcome=Complete()) for name in reads),
        slices=slices,
    )


def decision(arrival: Arrival, operations: Iterable[JudgedOperation]) -> Decision:
    """The Decision of an event, with a View that makes it valid."""
    given = tuple(operations)
    tasks = [operation.task for operation in given if isinstance(operation, Update | Matched)]
    view = seen(*tasks, event=arrival.event.uid)
    handles = {found.row_id: found.handle for found in view.slices}
    backed = tuple(
        operation.model_copy(
            update={"evidence": (Evidence(handle=handles[operation.task], row_id=operation.task),)}
        )
        if isinstance(operation, Update | Matched)
        else operation
        for operation in given
    )
    last = max(operation.segment for operation in given)
    spans = tuple((number * 100, number * 100 + 100) for number in range(last + 1))
    segments = Segmentation(spans=spans, views=(view,) * last) if last else None
    return Decision(arrival=arrival, view=view, segments=segments, operations=backed, judge="strategy/1")


def applied(message: Message, offset: int, arrived: datetime = START) -> Applied:
    """A message as it is read from the operations topic."""
    return Applied(message, Coordinates(topic=OPERATIONS, offset=offset), arrived, message.model_dump_json())


@st.composite
def updates(draw: st.DrawFn, task: str, uid: str, number: int) -> Update:
    """An update that names at least one field, and each person at most once."""
    due = draw(st.sampled_from((None, None, *DAYS)))
    joining, leaving = draw(_changes_of_people())
    found = Update(
        id=operation_id(uid, 0, number),
        number=number,
        task=task,
        seen=draw(versions),
        title=draw(st.none() | st.sampled_from(TITLES)),
        state=draw(st.none() | states),
        due=due,
        clear_due=due is None and draw(st.booleans()),
        assign=joining,
        unassign=leaving,
        quote="quoted",
        reason="it says so",
    )
    return found if found.fields else found.model_copy(update={"state": "done"})


@st.composite
def creates(draw: st.DrawFn, uid: str, number: int) -> Create:
    """A create of the row that this operation makes."""
    operation = operation_id(uid, 0, number)
    return Create(
        id=operation,
        number=number,
        task=task_id(operation),
        title=draw(st.sampled_from(TITLES)),
        state=draw(states),
        due=draw(st.none() | st.sampled_from(DAYS)),
        quote=f"the words of {uid}",
        assignees=tuple(draw(st.lists(st.sampled_from(ASSIGNEES), unique=True, max_size=2))),
        requester=draw(st.none() | st.sampled_from(ASSIGNEES)),
        reason="it asks",
        not_nothing="nothing says it already",
    )


@st.composite
def decisions(draw: st.DrawFn, arrival: Arrival, rows: Sequence[str]) -> Decision:
    """A Decision: creates, updates, matches and nothings, each row touched by one operation."""
    uid = arrival.event.uid
    operations: list[JudgedOperation] = []
    if draw(st.booleans()):
        operations.append(draw(creates(uid, 0)))
    own = task_id(operation_id(uid, 0, 0))
    others = st.lists(st.sampled_from([row for row in rows if row != own]), unique=True, max_size=2)
    for number, row in enumerate(draw(others), 1):
        if draw(st.integers(0, 3)):
            operations.append(draw(updates(row, uid, number)))
        else:
            matched = Matched(id=operation_id(uid, 0, number), number=number, task=row, reason="it is there")
            operations.append(matched)
    if not operations:
        operations.append(NotATask(id=operation_id(uid, 0, 0), number=0, reason="small talk"))
    return decision(arrival, operations)


@st.composite
def personal(draw: st.DrawFn, row: str, number: int) -> Edit | Delete | Restore:
    """What a person does to a row by hand; deletes and restores are as likely as edits."""
    common = {
        "id": derive_id("o", "by hand", number),
        "workspace": WORKSPACES[0],
        "thread": THREADS[0],
        "row": row,
        "seen": draw(st.none() | versions),
        "by": "ben",
    }
    kind = draw(st.sampled_from((Edit, Delete, Restore)))
    if kind is not Edit:
        return kind(**common)
    due = draw(st.sampled_from((None, None, *DAYS)))
    joining, leaving = draw(_changes_of_people())
    return Edit(
        **common,
        title=draw(st.none() | st.sampled_from(TITLES)),
        state=draw(st.none() | states),
        due=due,
        clear_due=due is None and draw(st.booleans()),
        assign=joining,
        unassign=leaving,
    )


@st.composite
def arrivals(draw: st.DrawFn, count: int) -> list[Arrival]:
    """Events of distinct identity: some old mail that comes late, some dated after they arrived."""
    arrived = sorted(draw(st.lists(moments, min_size=count, max_size=count)))
    found = []
    for offset, when in enumerate(arrived):
        people = st.lists(st.sampled_from(PEOPLE), max_size=2)
        event = Event(
            id=str(offset),
            workspace=draw(st.sampled_from((WORKSPACES[0], WORKSPACES[0], WORKSPACES[1]))),
            source="chat",
            thread=draw(st.sampled_from(THREADS)),
            at=draw(moments | moments.map(lambda moment: moment + timedelta(minutes=7))),
            author=draw(st.sampled_from(PEOPLE)),
            mentions=tuple(draw(people)),
            text=f"event {offset}",
        )
        found.append(Arrival(event=event, arrived=when, coordinates=Coordinates(topic=EVENTS, offset=offset)))
    return found


@st.composite
def histories(draw: st.DrawFn, events: int = 6, by_hand: int = 4, parked: int = 0) -> list[Applied]:
    """Messages of distinct identity as they stand in the operations topic, each with its place and time.

    Updates name rows of any event, also of a later one, and one row that nobody ever creates. The events of
    `parked` more messages may have a Decision or not.
    """
    came = draw(arrivals(draw(st.integers(1, events))))
    rows = [task_id(operation_id(arrival.event.uid, 0, 0)) for arrival in came[:3]]
    rows.append(task_id(operation_id(event_uid("default", "chat", "t", "never"), 0, 0)))
    messages: list[Message] = [draw(decisions(arrival, rows)) for arrival in came]
    for number in range(draw(st.integers(0, by_hand))):
        messages.append(draw(personal(draw(st.sampled_from(rows)), number)))
    for arrival in draw(st.lists(st.sampled_from(came), max_size=parked)):
        messages.append(Parked(arrival=arrival, failure=FailureClass.CONTENT, reason="no answer", attempts=3))
    order = draw(st.permutations(messages))
    times = sorted(draw(st.lists(moments, min_size=len(order), max_size=len(order))))
    return [
        applied(message, offset, when) for offset, (message, when) in enumerate(zip(order, times, strict=True))
    ]


@st.composite
def person_changes(draw: st.DrawFn) -> list[Change]:
    """The changes of one and the same person row that follow from one message."""
    when = draw(moments)
    version = Version(at=when, seq=draw(st.integers(0, 3)), operation="e-1")
    steps = [("first_seen", Action.MINIMUM, when.isoformat()), ("last_seen", Action.MAXIMUM, when.isoformat())]
    for name in draw(st.lists(st.sampled_from(("Anna", "Anna B.")), unique=True)):
        steps.append(("names", Action.UNION, name))
    if draw(st.booleans()):
        steps.append(("addresses", Action.UNION, "anna@example.org"))
    common = {"table": "people", "row_id": "p-anna", "workspace": "default", "version": version, "arrived": when}
    return [Change(field=field, action=action, value=value, **common) for field, action, value in steps]


def cuts(size: int) -> st.SearchStrategy[list[int]]:
    """Where to cut a list of this size into batches."""
    return st.lists(st.integers(0, size), max_size=4).map(lambda marks: sorted({0, size, *marks}))


def batches(messages: Sequence[Applied], marks: Sequence[int]) -> list[list[Applied]]:
    """The messages in batches, none of them empty."""
    pairs = pairwise(marks)
    return [list(messages[start:end]) for start, end in pairs if start < end]


@st.composite
def _changes_of_people(draw: st.DrawFn) -> tuple[tuple[str, ...], tuple[str, ...]]:
    named = draw(st.lists(st.sampled_from(ASSIGNEES), unique=True, max_size=3))
    split = draw(st.integers(0, len(named)))
    return tuple(named[:split]), tuple(named[split:])

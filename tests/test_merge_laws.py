"""The algebra of changes: rows do not depend on order, repetition or cuts, and the newest word stands."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from store.derive import Applied, derive
from store.identifiers import find_identifiers
from store.merge import fold_person, fold_task
from store.schema import (
    Arrival,
    Change,
    Coordinates,
    Create,
    Decision,
    Delete,
    Edit,
    Event,
    PersonRow,
    Restore,
    TaskRow,
    Update,
    Version,
)
from store.schema.identity import operation_id, person_id, task_id
from tests.strategies import EVENTS, applied, cuts, decision, histories, person_changes, versions
from tests.workplace import ANNA, START

laws = settings(deadline=None, print_blob=True)
heavy = settings(laws, max_examples=60)
"""For laws whose inputs take longer to make than to check."""
MINUTE = timedelta(minutes=1)


# The rows once more, in the plainest way, from the design alone: a list of writes, and the largest key wins.
Key = tuple[datetime, int, str]
Write = tuple[Key, str, str, str]
"""Key, what it does, field, value."""


def reference(messages: Iterable[Applied]) -> dict[str, TaskRow | PersonRow]:
    """Every row that these messages amount to."""
    writes: defaultdict[str, set[Write]] = defaultdict(set)
    workspaces: dict[str, str] = {}
    people: dict[str, PersonRow] = {}
    for one in messages:
        message = one.message
        if isinstance(message, Decision):
            _note_people(people, message.arrival)
            for operation in message.operations:
                if isinstance(operation, Create | Update):
                    event = message.event
                    moment = min(event.at, message.arrival.arrived)
                    key = (moment, message.arrival.coordinates.offset, operation.id)
                    writes[operation.task] |= {(key, *write) for write in _writes(operation)}
                    writes[operation.task].add((key, "union", "evidence", event.uid))
                    writes[operation.task] |= {(key, "union", "participants", who) for who in event.people}
                    quote = operation.quote if isinstance(operation, Update) else ""
                    named = find_identifiers(f"{event.subject or ''}\n{quote}")
                    writes[operation.task] |= {(key, "union", "identifiers", found.key) for found in named}
                    if isinstance(operation, Create):
                        workspaces[operation.task] = event.workspace
                        writes[operation.task].add((key, "set", "thread", event.thread))
        if isinstance(message, Edit | Delete | Restore):
            # Past every event of the same instant, whatever its place in its own topic.
            key = (one.arrived, 2**62 + one.coordinates.offset, message.id)
            what = _writes(message) if isinstance(message, Edit) else [(message.kind, "", "")]
            writes[message.row] |= {(key, *write) for write in what}
    rows = {row: _row(row, workspaces[row], sorted(found)) for row, found in writes.items() if row in workspaces}
    return {**{row: task for row, task in rows.items() if task}, **people}


def _writes(operation: Create | Update | Edit) -> list[tuple[str, str, str]]:
    found = [("set", "title", operation.title), ("set", "state", operation.state)]
    found.append(("set", "due", operation.due and operation.due.isoformat()))
    if isinstance(operation, Create):
        found += [("create", "", ""), ("set", "body", operation.quote), ("set", "requester", operation.requester)]
        found += [("add", "assignees", person) for person in operation.assignees]
    else:
        found += [("set", "due", "")] if operation.clear_due else []
        found += [("add", "assignees", person) for person in operation.assign]
        found += [("remove", "assignees", person) for person in operation.unassign]
    return [(action, field, value) for action, field, value in found if value is not None]


def _row(row: str, workspace: str, ordered: list[Write]) -> TaskRow | None:
    """`ordered` is by key: what is written over something is newer than it."""
    (created,) = {key for key, action, _, _ in ordered if action == "create"}
    fields: dict[str, str] = {}
    assignees: set[str] = set()
    grown: dict[str, list[str]] = {"evidence": [], "participants": [], "identifiers": []}
    deleted, last = False, created
    for key, action, field, value in ordered:
        if action == "delete":
            deleted = True
        if action == "restore":
            deleted = False
        if deleted and key != created:
            continue
        last = max(last, key)
        if action == "set":
            fields[field] = value
        if action == "add":
            assignees.add(value)
        if action == "remove":
            assignees.discard(value)
        if action == "union" and value not in grown[field]:
            grown[field].append(value)
    if deleted:
        return None
    return TaskRow(
        id=row,
        workspace=workspace,
        thread=fields["thread"],
        title=fields["title"],
        state=fields["state"],  # type: ignore[arg-type]
        due=date.fromisoformat(fields["due"]) if fields.get("due") else None,
        body=fields["body"],
        assignees=tuple(sorted(assignees)),
        requester=fields.get("requester"),
        participants=tuple(grown["participants"]),
        identifiers=tuple(grown["identifiers"]),
        evidence=tuple(grown["evidence"]),
        created=created[0],
        updated=last[0],
        version=Version(at=last[0], seq=last[1], operation=last[2]),
    )


def _note_people(people: dict[str, PersonRow], arrival: Arrival) -> None:
    event = arrival.event
    moment = min(event.at, arrival.arrived)
    for said in (event.author, *event.mentions):
        row = person_id(event.workspace, event.source, said.id, said.address)
        if row is None:
            continue
        old = people.get(row)
        names = {*(old.names if old else ()), *({said.name} if said.name else ())}
        addresses = {*(old.addresses if old else ()), *({said.address} if said.address else ())}
        people[row] = PersonRow(
            id=row,
            workspace=event.workspace,
            names=tuple(sorted(names)),
            addresses=tuple(sorted(addresses)),
            first_seen=min(old.first_seen, moment) if old else moment,
            last_seen=max(old.last_seen, moment) if old else moment,
        )


def changes_of(messages: Iterable[Applied]) -> list[Change]:
    """The changes of messages, in their order."""
    return [change for message in messages for change in derive(message).changes]


def folded(changes: Iterable[Change]) -> dict[str, TaskRow | PersonRow]:
    """The rows of the code under test."""
    tasks: defaultdict[str, list[Change]] = defaultdict(list)
    people: defaultdict[str, list[Change]] = defaultdict(list)
    for change in changes:
        (tasks if change.table == "tasks" else people)[change.row_id].append(change)
    found = {row: fold_task(mine) for row, mine in tasks.items()}
    grown = {row: fold_person(None, mine) for row, mine in people.items()}
    return {row: value for row, value in {**found, **grown}.items() if value}


@heavy
@given(history=histories(), repeats=st.data(), chance=st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_order_and_repetition(
    history: list[Applied], repeats: st.DataObject, chance: random.Random
) -> None:
    """Messages in any order, any of them any number of times, give the rows of the plain reference."""
    again = repeats.draw(st.lists(st.sampled_from(history), max_size=6))
    shuffled = [*history, *again]
    chance.shuffle(shuffled)
    assert reference(history) == folded(changes_of(shuffled))


@heavy
@given(history=histories(), chance=st.randoms(use_true_random=False))
def test_rows_do_not_depend_on_the_order_of_single_changes(history: list[Applied], chance: random.Random) -> None:
    """A table gives its rows back in any order: the changes of one message may be torn apart."""
    changes = changes_of(history)
    chance.shuffle(changes)
    assert reference(history) == folded(changes)


@laws
@given(said=st.lists(person_changes(), min_size=1, max_size=6), data=st.data())
def test_person_folded_in_pieces_is_the_person_folded_at_once(
    said: list[list[Change]], data: st.DataObject
) -> None:
    """Any cut between messages, any order and any repetition of a person's changes amount to one row."""
    order = data.draw(st.permutations([*said, *data.draw(st.lists(st.sampled_from(said), max_size=3))]))
    row = None
    for start, end in pairwise(data.draw(cuts(len(order)))):
        row = fold_person(row, [change for message in order[start:end] for change in message])
    assert fold_person(None, [change for message in said for change in message]) == row


@laws
@given(one=versions, two=versions, three=versions)
def test_versions_are_in_one_total_order(one: Version, two: Version, three: Version) -> None:
    """Of two versions exactly one is earlier unless they are equal, and earlier is transitive."""
    assert 1 == [one < two, one == two, two < one].count(True)
    assert (one < two or one == two) == (one <= two)
    assert sorted([one, two, three]) == sorted([three, two, one])
    if one < two and two < three:
        assert one < three


# From here on one row, by hand.
CREATED = task_id(operation_id("e", 0, 0))


def mail(number: int, at: datetime, arrived: datetime | None = None, name: str | None = None) -> Arrival:
    """The event at offset `number`."""
    event = Event(id=name or str(number), source="mail", thread="t", at=at, author=ANNA, text="the review")
    return Arrival(
        event=event, arrived=arrived or max(at, START), coordinates=Coordinates(topic=EVENTS, offset=number)
    )


def creating(arrival: Arrival, **fields: object) -> Applied:
    """A message that creates the row."""
    given: dict[str, object] = {"title": "review", "quote": "about the review", **fields}
    operation = Create(
        id=operation_id(arrival.event.uid, 0, 0),
        number=0,
        task=CREATED,
        reason="it asks",
        not_nothing="new",
        **given,  # type: ignore[arg-type]
    )
    return applied(decision(arrival, [operation]), arrival.seq)


def updating(arrival: Arrival, **fields: object) -> Applied:
    """A message that updates the row."""
    operation = Update(
        id=operation_id(arrival.event.uid, 0, 0),
        number=0,
        task=CREATED,
        seen=Version(at=START, seq=0, operation="o-seen"),
        quote="about the review",
        reason="it says so",
        **fields,  # type: ignore[arg-type]
    )
    return applied(decision(arrival, [operation]), arrival.seq)


def by_hand(kind: type[Edit] | type[Delete] | type[Restore], arrived: datetime, **fields: object) -> Applied:
    """A message of what a person does to the row at a time."""
    message = kind(
        id=f"o-{kind.__name__}-{arrived.isoformat()}",
        workspace="default",
        thread="t",
        row=CREATED,
        seen=None,
        by="ben",
        **fields,  # type: ignore[arg-type]
    )
    return applied(message, int((arrived - START).total_seconds()) + 1_000, arrived)


def row_of(*messages: Applied) -> TaskRow | None:
    """The row, which must be the same the other way round."""
    row = fold_task(changes_of(messages))
    assert row == fold_task(changes_of(reversed(messages)))
    return row


def listed(*messages: Applied) -> TaskRow:
    """The row, which must be there."""
    row = row_of(*messages)
    assert row is not None
    return row


@pytest.mark.promise("U9")
def test_late_old_mail_does_not_undo_newer_news() -> None:
    """A mail of March that arrives after a mail of May leaves May's state, and stays as history."""
    january, march, may = (datetime(2024, month, 1, tzinfo=START.tzinfo) for month in (1, 3, 5))
    create = creating(mail(0, january))
    news = updating(mail(1, may), state="done", title="reviewed")
    late = updating(mail(2, march, arrived=may + MINUTE), state="blocked", due=date(2024, 3, 9))
    row = listed(create, news, late)
    assert ("done", "reviewed", date(2024, 3, 9)) == (row.state, row.title, row.due)
    assert (may, 3) == (row.updated, len(row.evidence))


@pytest.mark.promise("U4")
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a"), ("1", "7"), ("7", "1")])
def test_of_two_events_of_one_minute_the_later_place_wins(names: tuple[str, str]) -> None:
    """Cancelled and on again within a minute: the row is open, both are its history, whatever the ids."""
    create = creating(mail(0, START - MINUTE))
    off = updating(mail(1, START, name=names[0]), state="cancelled")
    on = updating(mail(2, START, name=names[1]), state="open")
    row = listed(create, off, on)
    history = sorted((change.version, change.value) for change in changes_of([on, off]) if change.field == "state")
    assert "open" == row.state
    assert ["cancelled", "open"] == [value for _, value in history]
    assert 3 == len(row.evidence)


@pytest.mark.promise("Q10")
@laws
@given(
    edited=st.integers(0, 5),
    events=st.lists(st.tuples(st.integers(-3, 9), st.integers(0, 5)), min_size=1, max_size=4),
)
def test_persons_edit_beats_every_event_that_arrived_before_it(edited: int, events: list[tuple[int, int]]) -> None:
    """However late their Decisions come, and also within one instant; an event that arrives later may win."""
    create = creating(mail(0, START - 9 * MINUTE))
    edit = by_hand(Edit, START + edited * MINUTE, state="done", title="as Ben said")
    said = [
        updating(mail(9_000_000 + number, START + at * MINUTE, arrived=START + came * MINUTE), state="blocked")
        for number, (at, came) in enumerate(events)
    ]
    row = listed(create, edit, *said)
    newer = any(came > edited and min(at, came) > edited for at, came in events)
    assert ("blocked" if newer else "done") == row.state
    assert "as Ben said" == row.title


def test_persons_second_edit_of_one_instant_wins_over_the_first() -> None:
    """Two edits with one arrival time are told apart by their place in the topic."""
    create = creating(mail(0, START))
    first, second = (by_hand(Edit, START, state=state) for state in ("done", "open"))
    second = applied(second.message.model_copy(update={"id": "o-a"}), first.coordinates.offset + 1, START)
    assert "open" == listed(create, first, second).state


@pytest.mark.promise("Q10")
def test_tombstone_absorbs_everything_but_a_persons_restore() -> None:
    """A deleted row stays away whatever comes; restored, it is what it was when it was deleted."""
    create = creating(mail(0, START))
    delete = by_hand(Delete, START + 2 * MINUTE)
    update = updating(mail(1, START + 3 * MINUTE), state="done")
    edit = by_hand(Edit, START + 4 * MINUTE, title="renamed while it was deleted")
    restore = by_hand(Restore, START + 5 * MINUTE)
    after = updating(mail(2, START + 6 * MINUTE), state="blocked")
    assert row_of(create, delete, update, edit, after) is None
    restored = listed(create, delete, update, edit, restore)
    assert ("open", "review", 1) == (restored.state, restored.title, len(restored.evidence))
    assert "blocked" == listed(create, delete, update, edit, restore, after).state


def test_news_from_before_the_tombstone_counts_after_a_restore() -> None:
    """What happened before the row was deleted, and came late, is part of what is restored."""
    create = creating(mail(0, START))
    delete = by_hand(Delete, START + 2 * MINUTE)
    late = updating(mail(1, START + MINUTE, arrived=START + 3 * MINUTE), state="done")
    assert "done" == listed(create, delete, late, by_hand(Restore, START + 5 * MINUTE)).state


@pytest.mark.promise("H3")
def test_row_without_its_create_is_not_listed() -> None:
    """Changes of a row nobody created are kept and show nothing, until the create comes."""
    update = updating(mail(1, START), state="done")
    edit = by_hand(Edit, START, title="renamed")
    assert row_of(update, edit, by_hand(Restore, START + MINUTE)) is None
    assert "done" == listed(update, creating(mail(0, START))).state


@pytest.mark.promise("R51")
@laws
@given(data=st.data())
def test_update_changes_only_the_fields_it_names(data: st.DataObject) -> None:
    """A newer update leaves every other field of the row as it was."""
    named = {"title": "renamed", "state": "blocked", "due": date(2030, 1, 1), "assign": ("p-9",)}
    chosen = data.draw(st.lists(st.sampled_from(sorted(named)), unique=True, min_size=1))
    create = creating(mail(0, START), due=date(2024, 6, 1), assignees=("p-1",), requester="p-2")
    before = listed(create)
    after = listed(create, updating(mail(1, START + MINUTE), **{field: named[field] for field in chosen}))
    changed = {field for field in TaskRow.model_fields if getattr(before, field) != getattr(after, field)}
    fields = {"assignees" if field == "assign" else field for field in chosen}
    assert {*fields, "evidence", "updated", "version"} == changed


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"due": date(2024, 6, 1), "clear_due": True}, id="due"),
        pytest.param({"assign": ("p-1",), "unassign": ("p-1",)}, id="assignees"),
    ],
)
def test_operation_that_contradicts_itself_is_refused(fields: dict[str, object]) -> None:
    """Both halves would have one version, and the order in which they are read would decide."""
    with pytest.raises(ValidationError):
        updating(mail(1, START), **fields)
    with pytest.raises(ValidationError):
        by_hand(Edit, START, **fields)


@laws
@given(ahead=st.integers(-10, 10_000), arrived=st.integers(0, 100))
def test_event_time_is_never_later_than_arrival(ahead: int, arrived: int) -> None:
    """A time from after the arrival is cut to it, and marked when it was over five minutes ahead."""
    came = START + timedelta(seconds=arrived)
    arrival = mail(1, came + timedelta(seconds=ahead), arrived=came)
    message = creating(arrival)
    row, derived = listed(message), derive(message)
    happened = came + timedelta(seconds=min(ahead, 0))
    assert derived.event is not None
    assert (happened, happened, ahead > 300) == (row.created, derived.event.at, derived.event.postdated)
    assert {happened} == {change.version.at for change in derived.changes}
    assert {came} == {change.arrived for change in derived.changes}


@heavy
@given(history=histories())
def test_what_follows_from_a_message_follows_from_the_message_alone(history: Sequence[Applied]) -> None:
    """Deriving twice, also from the message as it stands in the topic, gives equal values."""
    for message in history:
        read = type(message.message).model_validate_json(message.raw)
        again = Applied(read, message.coordinates, message.arrived, message.raw)
        assert derive(message) == derive(again)

"""Combining the operations of the segments of one event: the last word of each field, each said once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.judge.combine import combine
from store.derive import decision_changes
from store.merge import fold_task
from store.schema import (
    Arrival,
    Change,
    Coordinates,
    Create,
    Event,
    Evidence,
    JudgedOperation,
    Matched,
    NotATask,
    TaskRow,
    Update,
)
from store.schema.identity import operation_id
from tests.strategies import creates, decision, updates
from tests.workplace import START

UID = "e-long"
KNOWN = ("t-known", "t-other")
"""Rows that were there before the event."""


def _arrival(number: int = 0) -> Arrival:
    at = START + timedelta(minutes=number)
    event = Event(id=str(number), source="chat", thread="t", at=at, author={"id": "anna"}, text="a long note")
    return Arrival(event=event, arrived=at, coordinates=Coordinates(topic="lookfirst.events", offset=number))


def _placed(operation: JudgedOperation, segment: int, number: int) -> JudgedOperation:
    return operation.model_copy(update={"segment": segment, "number": number})


@st.composite
def judged(draw: st.DrawFn) -> list[JudgedOperation]:
    """Operations of some segments: each may create rows, and touch any row that was there or made before."""
    operations: list[JudgedOperation] = []
    rows = list(KNOWN)
    for segment in range(draw(st.integers(1, 5))):
        uid = f"{UID}/{segment}"
        for number in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(("create", "update", "update", "update", "matched", "nothing")))
            made = operation_id(uid, 0, number)
            operation: JudgedOperation
            match kind:
                case "create":
                    operation = draw(creates(uid, number))
                case "update":
                    operation = draw(updates(draw(st.sampled_from(rows)), uid, number))
                case "matched":
                    operation = Matched(id=made, number=number, task=draw(st.sampled_from(rows)), reason="there")
                case _:
                    operation = NotATask(id=made, number=number, reason="small talk")
            operations.append(_placed(operation, segment, number))
        rows = [*KNOWN, *(operation.task for operation in operations if isinstance(operation, Create))]
    return operations


def _rows(changes: Sequence[Change]) -> dict[str, TaskRow]:
    known = [_create(row, number=number) for number, row in enumerate(KNOWN)]
    everything = [*decision_changes(decision(_arrival(), known)), *changes]
    tasks = {change.row_id for change in everything if change.table == "tasks"}
    folded = {task: fold_task([change for change in everything if change.row_id == task]) for task in tasks}
    return {task: row for task, row in folded.items() if row is not None}


def _create(task: str, number: int = 0, **fields: object) -> Create:
    common = {"id": f"o-{task}", "number": number, "quote": "words", "reason": "r", "not_nothing": "n"}
    return Create.model_validate({**common, "task": task, "title": "as it was", **fields})


def _said(row: TaskRow) -> dict[str, object]:
    return row.model_dump(include={"id", "thread", "title", "state", "due", "body", "assignees", "requester"})


@given(judged())
def test_each_row_has_the_last_word_of_each_field(operations: list[JudgedOperation]) -> None:
    """One Decision of all segments gives the rows that a Decision a segment, one after the other, would give."""
    together = decision_changes(decision(_arrival(1), combine(operations)))
    one_by_one: list[Change] = []
    for number, operation in enumerate(operations, 1):
        one_by_one.extend(decision_changes(decision(_arrival(number), [operation])))
    expected = {task: _said(row) for task, row in _rows(one_by_one).items()}
    assert expected == {task: _said(row) for task, row in _rows(together).items()}


@given(judged())
def test_what_comes_out_is_a_decision(operations: list[JudgedOperation]) -> None:
    """There is always an operation, and no field of a row is set twice, whatever the segments said."""
    combined = combine(operations)
    kept = decision(_arrival(), combined).operations
    assert [operation.id for operation in combined] == [operation.id for operation in kept]


@given(judged())
def test_every_operation_keeps_its_place_and_its_grounds(operations: list[JudgedOperation]) -> None:
    """Ids, ordinals, evidence and reasons are those of the judge, in the judge's order."""
    given_by_id = {operation.id: operation for operation in operations}
    combined = combine(operations)
    assert [o.id for o in operations if o.id in {c.id for c in combined}] == [o.id for o in combined]
    for operation in combined:
        told = ("segment", "number", "evidence", "reason")
        first = given_by_id[operation.id]
        assert [getattr(first, name) for name in told] == [getattr(operation, name) for name in told]


@given(judged())
def test_nothing_that_was_done_is_dropped(operations: list[JudgedOperation]) -> None:
    """Every create and every update is still told of; a kind of nothing stands only where nothing was done."""
    combined = combine(operations)
    done = {operation.id for operation in operations if isinstance(operation, Create | Update)}
    assert done <= {operation.id for operation in combined}
    if any(not isinstance(operation, NotATask) for operation in operations):
        assert not any(isinstance(operation, NotATask) for operation in combined)
    else:
        assert (operations[0],) == combined


def _update(number: int, **fields: object) -> Update:
    evidence = (Evidence(handle="S1", row_id="t-known"),)
    common = {
        "id": f"o-{number}",
        "segment": number,
        "number": 0,
        "seen": {"at": START, "seq": 0, "operation": "o"},
    }
    return Update.model_validate(
        {"task": "t-known", "quote": "q", "reason": f"r{number}", "evidence": evidence, **common, **fields}
    )


def test_a_later_word_goes_into_the_first_operation_that_named_the_field() -> None:
    """Of two updates the first gets the later title, the second keeps what it alone names."""
    first, second = combine([_update(0, title="draft"), _update(1, title="final", state="done")])
    assert _update(0, title="final") == first
    assert _update(1, state="done") == second


def test_a_create_takes_all_that_is_said_of_its_row() -> None:
    """Title, state, due date and people of later segments become the create's own; the updates become matches."""
    create = _create("t-new", title="draft", assignees=("p-1", "p-2"))
    later = [
        _update(1, task="t-new", title="final", state="blocked", due=date(2024, 5, 10)),
        _update(2, task="t-new", clear_due=True, assign=("p-3",), unassign=("p-1",)),
    ]
    combined = combine([create, *later])
    expected = create.model_copy(update={"title": "final", "state": "blocked", "assignees": ("p-2", "p-3")})
    assert expected == combined[0]
    assert [("matched", o.id, o.reason, o.evidence) for o in later] == [
        (o.kind, o.id, o.reason, o.evidence) for o in combined[1:]
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"due": date(2024, 5, 10)}, {"clear_due": True}, {"clear_due": True}),
        ({"clear_due": True}, {"due": date(2024, 5, 10)}, {"due": date(2024, 5, 10)}),
        ({"assign": ("p-1",)}, {"unassign": ("p-1",)}, {"unassign": ("p-1",)}),
        ({"unassign": ("p-1",)}, {"assign": ("p-1", "p-2")}, {"assign": ("p-1", "p-2")}),
        ({"assign": ("p-1",)}, {"assign": ("p-2",)}, {"assign": ("p-1", "p-2")}),
    ],
    ids=("cleared", "set again", "unassigned", "assigned again", "one more"),
)
def test_the_later_word_wins(
    before: dict[str, object], after: dict[str, object], expected: dict[str, object]
) -> None:
    """A date that is cleared or set again, and people who come and go, end as they were said last."""
    combined = combine([_update(0, **before), _update(1, **after)])
    assert _update(0, **expected) == combined[0]
    assert "matched" == combined[1].kind


def test_a_match_of_a_row_that_is_changed_says_nothing_more() -> None:
    """Beside an update of its row a match is dropped, before it and after it; one of another row stays."""
    before = Matched(id="o-a", segment=0, number=0, task="t-known", reason="there")
    after = Matched(id="o-b", segment=2, number=0, task="t-known", reason="there")
    other = Matched(id="o-c", segment=3, number=0, task="t-other", reason="there")
    assert (_update(1, state="done"), other) == combine([before, _update(1, state="done"), after, other])


def test_of_nothing_alone_one_stays() -> None:
    """An event of which every segment is no task is no task, once."""
    nothings = [NotATask(id=f"o-{n}", segment=n, number=0, reason="small talk") for n in range(3)]
    assert (nothings[0],) == combine(nothings)


def test_creates_of_several_segments_stand_beside_each_other() -> None:
    """Each segment may create rows of its own."""
    creates_ = [_create("t-a"), _create("t-b", segment=1)]
    assert tuple(creates_) == combine(creates_)

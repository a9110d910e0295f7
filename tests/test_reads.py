"""How each read ends, the standby, and the rows of the thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from store.schema import (
    Complete,
    Create,
    Cut,
    Decision,
    Empty,
    Failed,
    Participant,
    Settings,
    Update,
    describe,
    parse_message,
)
from tests.looking import (
    LIMITS,
    failing,
    ids,
    look,
    numbered,
    outcome,
    plant,
)
from tests.workplace import (
    ANNA,
    BEN,
    START,
    Workplace,
    answer,
    create,
    create_or_match,
    event,
    update,
)

# Every read says how it ended.


@pytest.mark.promise("R22")
def test_no_two_states_of_a_search_look_alike(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty, complete, cut, failed and lagging are five different outcomes, in value and in words."""
    asked = event("invoice")
    empty = outcome(look(workplace, asked), "text")
    plant(workplace, *numbered(3, "invoice {n}"))
    complete = outcome(look(workplace, asked), "text")
    workplace.judge.rule = create_or_match
    workplace.decided("a printer is needed", thread="late")
    lagging = outcome(look(workplace, asked), "text")
    workplace.apply()
    unfollowed = outcome(look(workplace, asked), "text")
    workplace.follow()
    workplace.decided("thanks", thread="late")
    workplace.settle()
    workplace.decided("bye", thread="late")
    plant(workplace, *numbered(20, "invoice of {n}"))
    cut = outcome(look(workplace, asked), "text")
    monkeypatch.setattr(workplace.store.memory, "text", failing(OSError("no disk")))
    failed = outcome(look(workplace, asked), "text")

    assert Empty() == empty
    assert Complete() == complete
    assert Complete(lag=1) == lagging
    assert isinstance(unfollowed, Complete)
    assert unfollowed.lag >= 1
    assert isinstance(cut, Cut)
    assert isinstance(failed, Failed)
    assert "no disk" in failed.reason
    told = [describe(each) for each in (empty, complete, lagging, cut, failed)]
    assert 5 == len(set(told))


@pytest.mark.promise("R22", "R39")
def test_a_search_that_hangs_has_failed(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that does not answer within its bound is a failure, and the other reads are as they are."""
    plant(workplace, event("invoice", thread="t"))

    def hangs(*_: object) -> list[str]:
        time.sleep(0.6)
        return []

    monkeypatch.setattr(workplace.store.memory, "text", hangs)
    view = look(workplace, event("invoice"), Settings(search_timeout=0.3))
    failed = outcome(view, "text")
    assert isinstance(failed, Failed)
    assert "no answer within 0.3 s" == failed.reason
    assert Complete() == outcome(view, "thread")


@pytest.mark.promise("R22", "R23")
@pytest.mark.parametrize(
    ("part", "method", "names"),
    [
        ("memory", "exact", {"exact"}),
        ("memory", "text", {"text"}),
        ("record", "thread_tasks", {"thread"}),
        ("record", "recent_tasks", {"standby_tasks"}),
        ("record", "people", {"standby_people"}),
        ("record", "summaries", {"summary"}),
        ("record", "tasks", {"exact", "text", "thread", "standby_tasks"}),
    ],
)
def test_each_read_fails_for_itself(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, part: str, method: str, names: set[str]
) -> None:
    """A read that fails is marked as failed, is never empty, and permits no create; the others stand."""
    plant(workplace, event("OPS-7 invoice", thread="t"))
    monkeypatch.setattr(getattr(workplace.store, part), method, failing(OSError("gone")))
    view = look(workplace, event("OPS-7 invoice"))
    assert names == {read.name for read in view.reads if isinstance(read.outcome, Failed)}
    assert {"exact", "text", "thread", "standby_tasks", "standby_people"} <= {read.name for read in view.reads}
    if names != {"summary"}:
        assert not view.permits_create


@pytest.mark.promise("R53")
def test_a_summary_that_cannot_be_read_holds_up_no_create(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Search, thread and standby were seen: that the summary was not is no reason to wait."""
    monkeypatch.setattr(workplace.store.record, "summaries", failing(OSError("gone")))
    workplace.judge.rule = create_or_match
    assert isinstance(workplace.decided("order a printer").operations[0], Create)


# The standby: for when search knows nothing.


@pytest.mark.promise("R24")
def test_an_empty_search_is_followed_by_the_standby(workplace: Workplace) -> None:
    """A matching row that only the standby reaches is shown before the judge is asked, so none is made."""
    workplace.judge.rule = create_or_match
    workplace.decided("order a new printer", thread="one")
    workplace.apply()  # readable, and search has not followed
    workplace.judge.rule = lambda event, view: answer(
        *(update(row.handle, event.text, state="done") for row in view.tasks())
    )
    workplace.log.clear()

    decision = workplace.decided("the printer is here", thread="two")

    assert Empty(lag=1) == outcome(decision.view, "text")
    assert () == decision.view.slices
    (found,) = decision.view.standby.tasks
    assert isinstance(decision.operations[0], Update)
    assert found.row_id == decision.operations[0].task
    reads = [workplace.log.index(call) for call in ("memory.text", "record.recent_tasks", "record.people")]
    assert max(reads) < workplace.log.index(f"judge {decision.event.id}")


@pytest.mark.promise("R26")
def test_the_standby_is_few_recent_rows_of_the_events_people_and_the_newest(workplace: Workplace) -> None:
    """Five rows of the newest fifty, the author's and the newest of all in turn; older ones are not among them."""
    old = plant(workplace, *numbered(10, "ancient chore {n}", author=ANNA))
    later = {"at": START + timedelta(days=1)}
    mine = plant(workplace, *numbered(3, "chore of mine {n}", author=ANNA, **later))
    for n, task in enumerate(mine):
        assert later["at"] == task.updated, n
    pool = plant(workplace, *numbered(47, "newer chore {n}", author=BEN, at=START + timedelta(days=2)))

    view = look(workplace, event("hello"))

    assert {task.id for task in mine} == set(ids(view.standby.tasks[::2]))
    assert set(ids(view.standby.tasks[1::2])) <= {task.id for task in pool}
    assert [("author",), ()] == [row.ties for row in view.standby.tasks[:2]]
    assert LIMITS.standby_tasks == len(view.standby.tasks)
    assert set() == {task.id for task in old} & set(ids(view.standby.tasks))
    # One more newer row and the oldest of the fifty is out, whoever it belongs to.
    plant(workplace, event("newest chore", id="last", thread="last", author=BEN, at=START + timedelta(days=3)))
    after = ids(look(workplace, event("hello")).standby.tasks)
    assert 2 == len({task.id for task in mine} & set(after))


@pytest.mark.promise("R26")
def test_standby_people_are_those_of_the_event(workplace: Workplace) -> None:
    """Author, mentioned and people of the found rows come with their role; nobody else does."""
    carl, dora = (Participant(id=name, name=name.title()) for name in ("carl", "dora"))
    plant(workplace, event("paint our fence", id="f", thread="f", author=carl))
    plant(workplace, event("mow your lawn", id="l", thread="l", author=dora))

    people = look(workplace, event("a new fence please", author=ANNA, mentions=(BEN,))).standby.people

    assert [("Anna", "author"), ("Ben", "mentioned"), ("Carl", "assignee")] == [
        (person.names[0], person.role) for person in people
    ]


@pytest.mark.promise("R26")
def test_standby_people_are_bounded(workplace: Workplace) -> None:
    """An event that mentions everybody is shown five of them, and told how many are left."""
    crowd = tuple(Participant(id=f"u{n}", name=f"User {n}") for n in range(30))
    view = look(workplace, event("hello all", mentions=crowd))
    assert LIMITS.standby_people == len(view.standby.people)
    assert "author" == view.standby.people[0].role
    assert Cut(left_out=26) == outcome(view, "standby_people")


@pytest.mark.promise("R27", "R36")
def test_searched_rows_thread_rows_and_standby_are_kept_apart(workplace: Workplace) -> None:
    """One searched, one thread and one recent row stand in a section each, in the Decision as it is kept."""
    (searched,) = plant(workplace, event("harbour crane", id="a", thread="a"))
    (own,) = plant(workplace, event("lend one stapler", id="b", thread="t"))
    (recent,) = plant(workplace, event("water many plants", id="c", thread="c"))
    workplace.log.clear()

    decision = workplace.decided("which crane", thread="t")
    workplace.settle()

    assert ["memory.text"] == workplace.calls("memory.text")
    (kept,) = workplace.store.record.decisions([decision.id])
    message = parse_message(kept.message)
    assert isinstance(message, Decision)
    assert [searched.id] == ids(message.view.slices)
    assert [own.id] == ids(message.view.thread_rows)
    assert [recent.id] == ids(message.view.standby.tasks)
    assert ["S1", "T1", "B1"] == [row.handle for row in message.view.tasks()]


# Rows of the thread, without search.


@pytest.mark.promise("R34")
@pytest.mark.parametrize("follow", [Workplace.apply, lambda workplace: None], ids=["unfollowed", "unapplied"])
def test_the_threads_own_row_is_seen_without_the_index(
    workplace: Workplace, follow: Callable[[Workplace], object]
) -> None:
    """The second message of a thread is shown the first one's row though search knows nothing of it."""
    workplace.judge.rule = create_or_match
    first = workplace.decided("order a new printer")
    follow(workplace)
    view = workplace.decided("any news of the printer?").view
    assert isinstance(first.operations[0], Create)
    assert [first.operations[0].task] == ids(view.thread_rows)
    assert [True] == [row.same_thread for row in view.thread_rows]
    assert Empty(lag=1) == outcome(view, "text")


@pytest.mark.promise("R35")
@pytest.mark.parametrize("follow", [Workplace.apply, lambda workplace: None], ids=["unfollowed", "unapplied"])
def test_rows_of_another_thread_are_not_thread_rows(
    workplace: Workplace, follow: Callable[[Workplace], object]
) -> None:
    """The same text in another thread, or in a thread of that name elsewhere, gives no thread row."""
    workplace.judge.rule = lambda event, view: answer(create(event.text))
    places = [("default", "other"), ("elsewhere", "t"), ("default", "T"), ("default", "t")]
    other, elsewhere, third, own = (
        made.task
        for workspace, thread in places
        for made in workplace.decided("order a new printer", thread=thread, workspace=workspace).operations
        if isinstance(made, Create)
    )
    follow(workplace)
    view = look(workplace, event("order a new printer", id="last", thread="t"))
    assert [own] == ids(view.thread_rows)
    assert {other, third} == set(ids(view.standby.tasks))
    assert [False, False] == [row.same_thread for row in view.standby.tasks]
    assert elsewhere not in view.model_dump_json()

"""Looking: what a judge is shown, and what does not fit."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from flows.retrieve.budget import memory_characters, within
from flows.retrieve.slices import Shown, cut_of, shorten, task_slice
from store.schema import (
    Complete,
    Cut,
    Edit,
    LaneRank,
    PersonRow,
    Settings,
    Slice,
    describe,
)
from tests.looking import (
    LIMITS,
    SHORTEST,
    a_slice,
    a_task,
    a_view,
    ids,
    law,
    look,
    numbered,
    opened,
    outcome,
    plant,
    summarize,
)
from tests.workplace import (
    BEN,
    START,
    Workplace,
    answer,
    event,
    update,
)

# A short cut of a bounded set, whatever there is.


@pytest.mark.promise("R15", "R16")
def test_a_judge_is_shown_a_bounded_part_of_everything(workplace: Workplace) -> None:
    """Of 200 long matching rows a View holds at most its caps, and of each only the head."""
    body = "report canary-{n:03d}. " + "quarterly figures and more of the same words " * 60 + "tail-{n:03d}"
    plant(workplace, *numbered(200, body))
    plant(workplace, *numbered(20, "own-{n:03d} of the thread " * 100 + "tail-{n:03d}", thread="t"))
    summarize(workplace, goal="g" * 400, critical_context="c" * 2_400)
    workplace.settle()

    view = look(workplace, event("where is the report with the quarterly figures", mentions=(BEN,)))

    said = view.model_dump_json()
    canaries = sum(f"canary-{n:03d}" in said for n in range(200)) + sum(f"own-{n:03d}" in said for n in range(20))
    assert 0 < canaries <= LIMITS.slices + LIMITS.thread_rows + LIMITS.standby_tasks
    assert LIMITS.slices == len(view.slices)
    assert LIMITS.thread_rows == len(view.thread_rows)
    assert LIMITS.standby_tasks == len(view.standby.tasks)
    assert "tail-" not in said
    assert 0 < memory_characters(view) <= LIMITS.memory_characters


@pytest.mark.promise("R15")
def test_a_row_that_nothing_leads_to_is_never_shown(workplace: Workplace) -> None:
    """Every shown row was searched, is of the thread, or is recent; an old unrelated one is nowhere."""
    (hidden,) = plant(workplace, event("zebra crossing repainted", id="old", thread="elsewhere"))
    plant(workplace, *numbered(60, "inventory item {n}"))
    (own,) = plant(workplace, event("lend me your stapler", id="own", thread="t"))
    summarize(workplace, goal="staplers")
    summarize(workplace, "elsewhere", goal="zebras")
    workplace.settle()

    view = look(workplace, event("inventory item 7"))

    newest = [stub.id for stub in workplace.store.record.recent_tasks("default", LIMITS.standby_pool)]
    assert all(each.lanes and "inventory" in each.title for each in view.slices)
    assert [own.id] == ids(view.thread_rows)
    assert 0 < len(view.standby.tasks)
    assert set() == set(ids(view.standby.tasks)) - set(newest)
    assert view.summary
    assert "staplers" in view.summary.text
    assert hidden.id not in view.model_dump_json()
    assert "zebra" not in view.model_dump_json()


@pytest.mark.promise("R17")
def test_a_slice_of_a_huge_body_is_short_and_marked(workplace: Workplace) -> None:
    """A body of many kilobytes gives a slice within its cap that ends at a whole character and says it was cut."""
    body = "Übersetzung 漢字😀é " * 500
    assert len(body.encode()) > 10_000
    (task,) = plant(workplace, event(body, thread="other"))
    (found,) = look(workplace, event("Übersetzung")).slices

    assert len(found.text) <= LIMITS.slice_characters
    assert found.text.endswith("…")
    assert task.body.startswith(found.head.removesuffix("…"))
    assert len(found.head) > 100


@pytest.mark.promise("R17")
def test_a_slice_says_six_things_and_no_more() -> None:
    """What a judge reads of a row: title, state, due date, participants, last activity, head of the body."""
    shown = a_slice(
        "S1", title="Ship it", state="blocked", due=date(2024, 6, 1), participants=("Anna",), head="Now"
    )
    assert "Ship it · blocked · due 2024-06-01 · Anna · 2024-05-01 09:00 · Now" == shown.text
    read = {"title", "state", "due", "participants", "last_activity", "head"}
    about = {
        "handle",
        "row_id",
        "people",
        "same_thread",
        "answered",
        "lanes",
        "identifiers",
        "ties",
        "recency",
        "version",
    }
    assert read | about == set(Slice.model_fields)


@pytest.mark.promise("R17")
@law
@given(
    title=st.text(min_size=1, max_size=200),
    body=st.text(max_size=2_000),
    people=st.lists(st.text(min_size=1, max_size=60), max_size=6, unique=True),
    due=st.none() | st.just(date(2024, 12, 24)),
    state=st.sampled_from(["open", "in_progress"]),
    characters=st.integers(SHORTEST, 500),
)
@example("t" * 200, "b" * 999, [f"{n} " + "p" * 60 for n in range(6)], date(2024, 12, 24), "in_progress", 320)
@example("t" * 200, "b" * 999, [f"{n} " + "p" * 60 for n in range(6)], date(2024, 12, 24), "in_progress", SHORTEST)
def test_a_slice_is_within_its_cap_whatever_the_row(
    title: str, body: str, people: list[str], due: date | None, state: str, characters: int
) -> None:
    """For each row and each permitted length: the slice is at most that long."""
    rows = {
        name: PersonRow(id=name, workspace="default", names=(name,), first_seen=START, last_seen=START)
        for name in people
    }
    fields = {"title": title, "body": body, "due": due, "state": state, "assignees": tuple(people)}
    shown = task_slice("S1", Shown(a_task(**fields)), event("x"), cut_of(a_task(**fields), rows, characters))
    assert len(shown.text) <= characters


@pytest.mark.promise("R17")
@law
@given(st.text(max_size=60), st.integers(1, 50))
def test_a_cut_is_marked_and_takes_nothing_else_away(text: str, characters: int) -> None:
    """A text that fits stays as it is; another keeps as much of its beginning as the mark leaves room for."""
    cut = shorten(text, characters)
    assert (text if len(text) <= characters else text[: characters - 1] + "…") == cut


@pytest.mark.promise("R18")
def test_a_body_is_not_repeated_however_often_its_row_is_found(workplace: Workplace) -> None:
    """A row that every query returns is shown once, and the middle of its body is not."""
    words = [f"subject{n}" for n in range(360)]
    body = " ".join(words) + " " + "filler " * 350 + "distinctive-middle " + "filler " * 350
    assert len(body) > 5_000
    (task,) = plant(workplace, event(body, thread="other"))
    plant(workplace, event("something else entirely", id="2", thread="third"))

    view = look(workplace, event(" ".join(words)))

    searches = [read for read in view.reads if read.name == "text"]
    assert 4 == len(searches)
    assert {Complete()} == {read.outcome for read in searches}
    assert 1 == view.model_dump_json().count(task.id)
    assert [task.id] == ids(view.slices)
    assert "distinctive-middle" not in view.model_dump_json()


@pytest.mark.promise("R29")
def test_the_row_with_most_identifiers_in_common_comes_first(workplace: Workplace) -> None:
    """Of 101 rows that name OPS-7, the one that names OPS-8 too is first in the exact lane, whatever its age."""
    (both,) = plant(workplace, event("OPS-7 and OPS-8 together", id="both", thread="both"))
    plant(workplace, *numbered(50, "OPS-7 chore {n}"), *numbered(50, "later chore {n} of OPS-7", author=BEN))
    # The edit rewrites its copy, which then is the last one that a search in storage order comes upon.
    workplace.emit(
        Edit(
            id="touch", workspace="default", thread="both", row=both.id, seen=None, by="anna", due=date(2024, 6, 1)
        )
    )
    workplace.settle()
    view = look(workplace, event("OPS-7 OPS-8"))
    assert [both.id] == [each.row_id for each in view.slices if LaneRank(lane="exact", rank=1) in each.lanes]
    assert "cut" == outcome(view, "exact").status


# What does not fit is told, not shown.


@pytest.mark.promise("R19", "R12")
@pytest.mark.parametrize(
    ("hits", "told", "words"),
    [(20, Cut(left_out=5), "cut, 5 left out"), (9, Cut(left_out=None), "cut, more were left out")],
)
def test_what_exceeds_the_slices_is_counted_and_not_shown(
    tmp_path: Path, hits: int, told: Cut, words: str
) -> None:
    """With five more rows than fit, their ids and titles are nowhere, and the search says it was cut."""
    with opened(tmp_path, hits=hits, slices=5, slices_a_lane=2, standby_tasks=0) as workplace:
        tasks = plant(workplace, *numbered(10, "invoice for client-{n}"))
        view = workplace.decided("invoice").view

        shown = ids(view.slices)
        assert 5 == len(set(shown))
        left_out = [task for task in tasks if task.id not in shown]
        assert [] == [task for task in left_out if task.id in view.model_dump_json()]
        assert [] == [task for task in left_out if task.title in view.model_dump_json()]
        assert told == outcome(view, "text")
        assert words == describe(outcome(view, "text"))
        # Cut, not widened: nothing more was asked.
        assert 1 == workplace.log[workplace.log.index("apply") :].count("memory.text")


@pytest.mark.promise("R19")
def test_thread_rows_and_standby_say_what_they_left_out(tmp_path: Path) -> None:
    """Of 13 rows of the thread 8 are shown, open ones first; each section says how many it left out."""
    with opened(tmp_path, standby_tasks=2) as workplace:
        own = plant(workplace, *numbered(13, "invoice for client-{n}", thread="t"))
        closed = own[12]
        workplace.judge.rule = lambda event, view: answer(
            update(next(row.handle for row in view.tasks() if row.row_id == closed.id), "paid", state="done")
        )
        workplace.decided("client-12 paid", thread="other", at=START + timedelta(hours=1))
        plant(workplace, *numbered(3, "unrelated chore {n}", author=BEN))

        view = look(workplace, event("good morning"), Settings(standby_tasks=2))

        assert ids(view.thread_rows) == [task.id for task in reversed(own[4:12])]
        assert Cut(left_out=5) == outcome(view, "thread")
        assert Cut(left_out=6) == outcome(view, "standby_tasks")


@pytest.mark.promise("R20")
def test_a_small_budget_costs_standby_and_no_hit(tmp_path: Path) -> None:
    """With room for little, the one searched row stays and the standby shrinks, and says so."""
    small: dict[str, Any] = {"memory_characters": 2_000, "slices": 4, "standby_tasks": 20}
    with opened(tmp_path, **small) as workplace:
        (hit,) = plant(workplace, event("harbour crane inspection " * 20, id="hit", thread="crane"))
        (own,) = plant(workplace, event("tea kitchen " * 30, id="own", thread="t"))
        plant(workplace, *numbered(20, "stationery order {n} " * 20))

        view = look(workplace, event("harbour crane"), Settings(**small))

        assert [hit.id] == ids(view.slices)
        assert [own.id] == ids(view.thread_rows)
        assert 0 < len(view.standby.tasks) < 20
        assert Cut(left_out=20 - len(view.standby.tasks)) == outcome(view, "standby_tasks")
        assert memory_characters(view) <= 2_000
        assert [hit.id, own.id, *ids(view.standby.tasks)] == ids(tuple(view.tasks()))


@pytest.mark.promise("R20", "R63")
@law
@given(
    counts=st.tuples(*[st.integers(0, 6)] * 4),
    summary=st.none() | st.text(max_size=300),
    characters=st.integers(0, 4_000),
)
def test_what_is_trusted_least_goes_first(
    counts: tuple[int, int, int, int], summary: str | None, characters: int
) -> None:
    """Standby tasks, people, summary, thread rows go in that order, from their ends, and each is counted."""
    view = a_view(*counts, summary=summary)
    fitted = within(view, characters)

    assert view.slices == fitted.slices
    sections: list[tuple[str, tuple[object, ...], tuple[object, ...]]] = [
        ("standby_tasks", view.standby.tasks, fitted.standby.tasks),
        ("standby_people", view.standby.people, fitted.standby.people),
        ("summary", (view.summary,) if summary else (), (fitted.summary,) if fitted.summary else ()),
        ("thread", view.thread_rows, fitted.thread_rows),
    ]
    for number, (name, before, after) in enumerate(sections):
        assert before[: len(after)] == after
        gone = len(before) - len(after)
        assert (Cut(left_out=gone) if gone else Complete()) == outcome(fitted, name)
        if gone:
            assert [] == [kept for _, _, kept in sections[:number] if kept]
    assert memory_characters(fitted) <= characters or not any(after for _, _, after in sections)
    if memory_characters(view) <= characters:
        assert view == fitted

"""Looking: what a judge is shown, how each read ended, and that rows are believed before copies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flows.overlay import Overlay
from flows.retrieve.budget import memory_characters, within
from flows.retrieve.look import Looker
from flows.retrieve.slices import Shown, cut_of, shorten, task_slice
from store.schema import (
    Complete,
    Create,
    Cut,
    Decision,
    Delete,
    Edit,
    Empty,
    Event,
    Evidence,
    Failed,
    LaneRank,
    Matched,
    Participant,
    PersonRow,
    PersonSlice,
    Read,
    SearchOutcome,
    Settings,
    Slice,
    Standby,
    Summary,
    SummaryComponents,
    SummarySlice,
    TaskRow,
    Update,
    Version,
    View,
    describe,
    parse_message,
)
from store.schema.identity import operation_id
from tests.workplace import (
    ANNA,
    BEN,
    START,
    Script,
    Workplace,
    answer,
    create,
    create_or_match,
    event,
    rows_of,
    update,
)

LIMITS = Settings()
(SHORTEST,) = (rule.ge for rule in Settings.model_fields["slice_characters"].metadata if hasattr(rule, "ge"))
"""The shortest slice that can be set (characters)."""
law = settings(derandomize=False, print_blob=True, deadline=None, max_examples=60)


# How tests get their rows and their Views.


@contextmanager
def opened(path: Path, **limits: Any) -> Iterator[Workplace]:
    """A workplace with limits of its own."""
    with Workplace.opened(path / "own", Script(), Settings(**limits)) as workplace:
        yield workplace


def plant(workplace: Workplace, *events: Event) -> list[TaskRow]:
    """One task of each event's whole text, applied and searchable."""
    workplace.judge.rule = lambda event, view: answer(create(event.text))
    before = {task.id for task in workplace.tasks()}
    workplace.take(*events)
    workplace.settle()
    workplace.judge.rule = None
    return [task for task in workplace.tasks() if task.id not in before]


def numbered(count: int, text: str, **fields: Any) -> list[Event]:
    """Events with a number in their text, each of its own thread unless told otherwise, a minute apart."""
    return [
        event(
            text.format(n=n),
            **{
                "id": text.format(n=n)[:40],
                "thread": f"{text[:20]}-{n}",
                "at": START + timedelta(minutes=n),
                **fields,
            },
        )
        for n in range(count)
    ]


def look(workplace: Workplace, asked: Event, limits: Settings = LIMITS) -> View:
    """What a judgment of the event would see now."""
    waiting = workplace.store.record.events(workplace.overlay.oldest(len(workplace.overlay)))
    workplace.overlay.settle([uid for uid, row in waiting.items() if row.decision])
    with ThreadPoolExecutor(4) as pool:
        looker = Looker(workplace.store, workplace.overlay, limits, pool)
        (view,) = looker.look([workplace.arrive(asked)], {})
    return view


def outcome(view: View, name: str) -> SearchOutcome:
    """How the read of this name ended; there must be one."""
    (found,) = [read.outcome for read in view.reads if read.name == name]
    return found


def ids(slices: tuple[Slice, ...]) -> list[str]:
    """Row ids of slices."""
    return [each.row_id for each in slices]


def summarize(workplace: Workplace, thread: str = "t", **components: str) -> Summary:
    """A summary of a thread, appended to the operations topic."""
    summary = Summary(
        id=f"summary-{thread}-{len(workplace.emitted)}",
        workspace="default",
        thread=thread,
        first_event="1",
        last_event="2",
        components=SummaryComponents(**components),
    )
    workplace.emit(summary)
    return summary


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
    """A body of 100 kB gives a slice within its cap that ends at a whole character and says it was cut."""
    body = "Übersetzung 漢字😀é " * 4_000
    assert len(body.encode()) > 100_000
    (task,) = plant(workplace, event(body, thread="other"))
    (found,) = look(workplace, event("Übersetzung")).slices

    assert len(found.text) <= LIMITS.slice_characters
    assert found.text.endswith("…")
    assert task.body.startswith(found.head.removesuffix("…"))
    assert len(found.head) > 100


@pytest.mark.promise("R17")
def test_a_slice_says_six_things_and_no_more() -> None:
    """What a judge reads of a row: title, state, due date, participants, last activity, head of the body."""
    shown = _slice(
        "S1", title="Ship it", state="blocked", due=date(2024, 6, 1), participants=("Anna",), head="Now"
    )
    assert "Ship it · blocked · due 2024-06-01 · Anna · 2024-05-01 09:00 · Now" == shown.text
    read = {"title", "state", "due", "participants", "last_activity", "head"}
    about = {"handle", "row_id", "people", "same_thread", "answered", "lanes", "version"}
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
    shown = task_slice("S1", Shown(_task(**fields)), event("x"), cut_of(_task(**fields), rows, characters))
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
    words = [f"subject{n}" for n in range(90)]
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
    view = _view(*counts, summary=summary)
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
    monkeypatch.setattr(workplace.store.memory, "text", _failing(OSError("no disk")))
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
    assert "Timeout" in failed.reason
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
    monkeypatch.setattr(getattr(workplace.store, part), method, _failing(OSError("gone")))
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
    monkeypatch.setattr(workplace.store.record, "summaries", _failing(OSError("gone")))
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
def test_the_standby_is_few_recent_rows_of_the_events_people_first(workplace: Workplace) -> None:
    """Five rows of the newest fifty, those of the author before others; older ones are not among them."""
    old = plant(workplace, *numbered(10, "ancient chore {n}", author=ANNA))
    later = {"at": START + timedelta(days=1)}
    mine = plant(workplace, *numbered(3, "chore of mine {n}", author=ANNA, **later))
    for n, task in enumerate(mine):
        assert later["at"] == task.updated, n
    pool = plant(workplace, *numbered(47, "newer chore {n}", author=BEN, at=START + timedelta(days=2)))

    view = look(workplace, event("hello"))

    assert {task.id for task in mine} == set(ids(view.standby.tasks[:3]))
    assert set(ids(view.standby.tasks[3:])) <= {task.id for task in pool}
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


# Rows are the truth; summaries, slices and the index are copies.


@pytest.mark.promise("R03", "R15")
def test_a_summary_that_claims_a_task_is_done_closes_nothing(workplace: Workplace) -> None:
    """The summary is shown as a summary, the row beside it as it is: open, before and after the judgment."""
    (task,) = plant(workplace, event("order a new printer"))
    summarize(workplace, completed_work="an older claim")
    summarize(workplace, completed_work="order a new printer: done and paid")
    workplace.settle()
    workplace.judge.rule = create_or_match

    decision = workplace.decided("what about the printer?")
    workplace.settle()

    assert decision.view.summary
    assert "done and paid" in decision.view.summary.text
    assert 1 == decision.view.model_dump_json().count("completed work:")
    assert ["open"] == [row.state for row in decision.view.tasks()]
    assert [Matched] == [type(operation) for operation in decision.operations]
    assert [task] == workplace.tasks()


@pytest.mark.promise("R03", "R05")
def test_a_forged_or_outdated_slice_changes_no_row(workplace: Workplace) -> None:
    """A Decision whose View lies about a row writes the fields it names; the rest of the row is the record's."""
    (task,) = plant(workplace, event("order a new printer"))
    arrival = workplace.arrive(event("by June then", id="forged"))
    view = look(workplace, arrival.event)
    (shown,) = view.slices or view.thread_rows
    lie = {"title": "Cancel everything", "state": "cancelled", "head": "as agreed", "people": ("somebody",)}
    forged = shown.model_copy(update=lie)
    operation = Update(
        id=operation_id(arrival.event.uid, 0, 0),
        number=0,
        evidence=(Evidence(handle=shown.handle, row_id=task.id),),
        reason="it says so",
        task=task.id,
        seen=shown.version,
        due=date(2024, 6, 1),
        quote="by June then",
    )
    workplace.emit(
        Decision(
            arrival=arrival,
            view=view.model_copy(update={"slices": (), "thread_rows": (forged,)}),
            operations=(operation,),
            judge="forger",
        )
    )
    workplace.settle()

    (after,) = workplace.tasks()
    changed = {name for name in TaskRow.model_fields if getattr(task, name) != getattr(after, name)}
    assert {"due", "evidence", "version"} == changed
    assert date(2024, 6, 1) == after.due


@pytest.mark.promise("R04")
def test_whether_a_task_exists_is_answered_by_rows_alone(workplace: Workplace) -> None:
    """A commitment that only the summary tells of is no task; a row the summary leaves out is one."""
    (task,) = plant(workplace, event("order a new printer"))
    summarize(workplace, next_steps="Book the venue for the summer party")
    workplace.settle()
    assert [task] == workplace.tasks()

    view = look(workplace, event("venue for the summer party"))
    assert [task.id] == ids(tuple(view.tasks()))
    assert view.summary
    assert "printer" not in view.summary.text


@pytest.mark.promise("R06")
def test_operations_leave_summaries_views_and_other_copies_alone(workplace: Workplace) -> None:
    """Create, update and delete change rows; what was shown, summarised or copied of others stays as it was."""
    other, task = plant(
        workplace, event("water the plants", id="p", thread="p"), event("order a printer", id="q", thread="q")
    )
    summarize(workplace, "q", goal="a printer")
    workplace.settle()

    def kept(*changed: str) -> dict[str, object]:
        rows = workplace.store.tables["memory"].to_arrow().to_pylist()
        sessions = workplace.store.record.arrow("sessions").to_pylist()
        decisions = workplace.store.record.arrow("decisions").to_pylist()
        return {
            "memory": [row for row in rows if row["row_id"] == other.id],
            "summaries": [row for row in sessions if row["kind"] == "summary"],
            "decisions": [row for row in decisions if row["position"] < 2],
        }

    before = kept()
    assert all(before.values())
    workplace.judge.rule = lambda event, view: answer(
        update(next(row.handle for row in view.tasks() if row.row_id == task.id), event.text, state="done")
    )
    workplace.decided("printer ordered", thread="q")
    workplace.judge.rule = lambda event, view: answer(create(event.text))
    workplace.decided("order a scanner", thread="q")
    workplace.emit(Delete(id="gone", workspace="default", thread="q", row=task.id, seen=task.version, by="anna"))
    workplace.settle()

    assert before == kept()
    assert {"water the plants", "order a scanner"} == {row.title for row in workplace.tasks()}


@pytest.mark.promise("R05", "Q10")
def test_an_update_is_made_against_the_row_as_it_is(workplace: Workplace) -> None:
    """What changed between the View and the write survives, but for the field the update names."""
    (task,) = plant(workplace, event("order a new printer"))

    def while_the_judge_thinks(event: Event, view: View) -> Any:
        edit = Edit(
            id="edit",
            workspace="default",
            thread="t",
            row=task.id,
            seen=task.version,
            by="anna",
            title="Order two printers",
            due=date(2024, 5, 31),
        )
        workplace.emit(edit)
        workplace.apply()
        (row,) = view.tasks()
        return answer(update(row.handle, event.text, state="in_progress"))

    workplace.judge.rule = while_the_judge_thinks
    decision = workplace.decided("the printer is on its way")
    workplace.settle()

    (after,) = workplace.tasks()
    assert "order a new printer" == next(decision.view.tasks()).title
    assert ("Order two printers", date(2024, 5, 31), "in_progress") == (after.title, after.due, after.state)


@pytest.mark.promise("R07")
def test_a_rename_breaks_no_reference(workplace: Workplace) -> None:
    """After a rename the row is found by its new name, and evidence, decisions and updates lead to it."""
    (task,) = plant(workplace, event("order a new printer"))
    workplace.judge.rule = lambda event, view: answer(
        *(update(row.handle, event.text, due=date(2024, 6, 1)) for row in view.tasks())
    )
    referring = workplace.decided("the printer by June")
    workplace.settle()
    workplace.emit(
        Edit(
            id="rename",
            workspace="default",
            thread="t",
            row=task.id,
            seen=task.version,
            by="anna",
            title="Acquire a Gutenberg press",
        )
    )
    workplace.settle()

    (found,) = look(workplace, event("Gutenberg press", thread="elsewhere")).slices
    assert (task.id, "Acquire a Gutenberg press") == (found.row_id, found.title)
    (renamed,) = workplace.tasks()
    assert ["order a new printer", "the printer by June"] == [
        workplace.store.record.events([uid])[uid].text for uid in renamed.evidence
    ]
    (kept,) = workplace.store.record.decisions([referring.id])
    message = parse_message(kept.message)
    assert isinstance(message, Decision)
    assert {task.id} == {item.row_id for operation in message.operations for item in operation.evidence}

    workplace.judge.rule = lambda event, view: answer(
        *(update(row.handle, event.text, state="done") for row in view.slices)
    )
    workplace.decided("the Gutenberg press has arrived", thread="elsewhere")
    workplace.settle()
    assert [(task.id, "done")] == [(row.id, row.state) for row in workplace.tasks()]


@pytest.mark.promise("L6")
def test_a_deleted_row_whose_copy_remains_is_never_shown(workplace: Workplace) -> None:
    """Search still returns the id, the record does not list it: it is in no section and suppresses nothing."""
    (task,) = plant(workplace, event("OPS-7 order a new printer"))
    workplace.emit(Delete(id="gone", workspace="default", thread="t", row=task.id, seen=None, by="anna"))
    workplace.apply()
    assert [task.id] == workplace.store.memory.text("default", ("printer",), 9)

    workplace.judge.rule = create_or_match
    decision = workplace.decided("OPS-7 order a new printer")

    assert [] == list(decision.view.tasks())
    assert {"empty"} == {outcome(decision.view, name).status for name in ("exact", "text", "thread")}
    assert isinstance(decision.operations[0], Create)
    workplace.settle()
    assert task.id not in {row.id for row in workplace.tasks()}
    assert 1 == len(workplace.tasks())


# Workspaces.


@pytest.mark.promise("L9")
def test_a_small_workspace_beside_a_large_one_finds_its_rows(workplace: Workplace) -> None:
    """With 300 rows next door that match as well, and asked for in the same wave, its own rows come first."""
    plant(workplace, *numbered(300, "OPS-7 invoice {n} invoice invoice", workspace="big"))
    small = plant(
        workplace, *numbered(2, "the OPS-7 invoice among many other words, number {n}", workspace="small")
    )
    with ThreadPoolExecutor(4) as pool:
        looker = Looker(workplace.store, Overlay(), LIMITS, pool)
        asked = [
            event("OPS-7 invoice", id=f"{workspace}-{n}", workspace=workspace, thread=f"asks-{n}")
            for n in range(2)
            for workspace in ("big", "small")
        ]
        views = looker.look([workplace.arrive(each) for each in asked], {})

    assert {task.id for task in small} == set(ids(views[1].slices))
    assert set(ids(views[1].slices)) == set(ids(views[3].slices))
    assert {"exact", "text"} == {rank.lane for each in views[1].slices for rank in each.lanes}
    assert {Complete()} == {outcome(views[1], name) for name in ("exact", "text")}
    assert LIMITS.slices == len(views[0].slices)
    assert {"cut"} == {outcome(views[0], name).status for name in ("exact", "text")}


def test_workspaces_with_hostile_names_see_their_own_rows_only(workplace: Workplace) -> None:
    """Quotes and SQL in names of workspaces and threads are names: each sees its row, thread and people."""
    names = [
        "o'brien",
        "' OR 1=1 --",
        "x') OR ('1'='1",
        'a"b',
        "a\\",
        "a\\'",
        "%",
        "_",
        "default",
        "Default",
        "''",
    ]
    planted = {
        name: plant(
            workplace, event("OPS-7 order a printer", workspace=name, thread=name, author=Participant(id=name))
        )
        for name in names
    }
    assert [1] * len(names) == [len(rows) for rows in planted.values()]
    for name, (own,) in planted.items():
        view = look(workplace, event("OPS-7 printer", id="2", workspace=name, thread=name))
        assert [own.id] == ids(tuple(view.tasks())), name
        assert view.slices[0].same_thread
        other = look(workplace, event("hello", id="3", workspace=name, thread="' OR thread <> '"))
        assert ([], [own.id]) == (ids(other.thread_rows), ids(other.standby.tasks)), name

    everything = rows_of(workplace.store)
    gone = planted["' OR 1=1 --"][0]
    workplace.emit(
        Delete(id="gone", workspace=gone.workspace, thread=gone.thread, row=gone.id, seen=None, by="anna")
    )
    workplace.settle()
    assert [row for row in everything["tasks"] if row["id"] != gone.id] == rows_of(workplace.store)["tasks"]


# Values for the laws.


def _task(**fields: Any) -> TaskRow:
    values = {
        "id": "t-1",
        "workspace": "default",
        "thread": "t",
        "title": "title",
        "state": "open",
        "body": "",
        "created": START,
        "updated": START,
        "version": Version(at=START, seq=0, operation="o"),
    }
    return TaskRow.model_validate(values | fields)


def _slice(handle: str, **fields: Any) -> Slice:
    values = {
        "handle": handle,
        "row_id": f"row-{handle}",
        "title": f"title of {handle}",
        "state": "open",
        "last_activity": START,
        "head": "head " * 20,
        "version": Version(at=START, seq=0, operation="o"),
        "lanes": (LaneRank(lane="text", rank=1),) if handle.startswith("S") else (),
    }
    return Slice.model_validate(values | fields)


def _view(slices: int, thread_rows: int, standby: int, people: int, summary: str | None) -> View:
    names = ("text", "thread", "standby_tasks", "standby_people", "summary")
    return View(
        event="uid",
        queries=(),
        reads=tuple(Read.model_validate({"name": name, "outcome": Complete()}) for name in names),
        slices=tuple(_slice(f"S{n}") for n in range(slices)),
        thread_rows=tuple(_slice(f"T{n}") for n in range(thread_rows)),
        standby=Standby(
            tasks=tuple(_slice(f"B{n}") for n in range(standby)),
            people=tuple(
                PersonSlice(handle=f"P{n}", row_id=f"p{n}", names=("Anna",), last_seen=START, role="author")
                for n in range(people)
            ),
        ),
        summary=SummarySlice(text=summary) if summary else None,
    )


def _failing(error: Exception) -> Callable[..., Any]:
    def fails(*_: object, **__: object) -> Any:
        raise error

    return fails

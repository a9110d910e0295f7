"""The right row is in view, whatever the language, the age, the state and the neighbours of it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from flows.bench.generate import fill
from flows.bench.sight import input_size
from flows.bench.tokenizers import _CASES
from store.schema import Complete, Cut, Event, Participant, Settings, TaskRow, View
from store.terms import words
from tests.looking import LIMITS, ids, look, numbered, outcome, plant
from tests.workplace import ANNA, BEN, START, Workplace, answer, create, event, nothing, update

NOISE = (
    "the weekly numbers are in the folder",
    "bitte die Liste der Räume prüfen und weitergeben",
    "新しい机を二台注文する",
    "请把会议记录发给大家",
    "다음 달 휴가 계획을 알려 주세요",
    "يرجى إرسال قائمة الضيوف إلى الفندق",
)


def first(view: View) -> str | None:
    """The row that is shown first."""
    return view.slices[0].row_id if view.slices else None


def lanes_of(view: View, task: TaskRow) -> dict[str, int]:
    """The lanes that found a task, with its place."""
    found = [each for each in view.slices if each.row_id == task.id]
    return {rank.lane: rank.rank for each in found for rank in each.lanes}


@pytest.mark.promise("L13", "N4")
@pytest.mark.parametrize("language", _CASES)
def test_a_question_in_its_own_language_finds_the_row(workplace: Workplace, language: str) -> None:
    """Among rows of six languages the one that is asked about is in the first three, names as they are written."""
    plant(workplace, *(event(text, id=f"n{n}", thread=f"n{n}") for n, text in enumerate(NOISE)))
    for number, (row, question) in enumerate(_CASES[language]):
        (task,) = plant(workplace, event(row, id=f"r{number}", thread=f"r{number}"))
        hits = workplace.store.memory.text("default", words(question), 3)
        assert task.id in hits, (row, question)


@pytest.mark.promise("L13")
def test_a_word_that_is_nowhere_does_not_hide_the_row(workplace: Workplace) -> None:
    """One unknown word, then ten of them: the row that shares the others is still the first."""
    plant(workplace, *numbered(20, "weekly report number {n}"))
    (task,) = plant(workplace, event("renew the harbour licence", id="x", thread="x"))
    for unknown in ("quux", " ".join(f"qu{n}x" for n in range(10))):
        assert task.id == first(
            look(workplace, event(f"did anybody {unknown} renew the licence?", id=unknown[:9]))
        )


@pytest.mark.promise("D12")
def test_a_finished_row_is_still_a_candidate(workplace: Workplace) -> None:
    """The task is done; the same request again is shown it, with its state, before anything is decided."""
    (task,) = plant(workplace, event("order two antennas for the buoys", thread="a"))
    workplace.judge.then(update("T1", "ordered", state="done"))
    workplace.decided("ordered", thread="a", id="2")
    workplace.settle()
    view = look(workplace, event("order two antennas for the buoys", id="3", thread="b", author=BEN))
    assert (task.id, "done") == (view.slices[0].row_id, view.slices[0].state)


@pytest.mark.promise("R29")
def test_an_old_row_that_fits_beats_a_thousand_new_ones(workplace: Workplace) -> None:
    """The oldest of more than a thousand rows is first, beside two hundred unrelated ones of today."""
    (old,) = plant(workplace, event("renew the harbour licence for the northern pier", thread="old"))
    fill(workplace.store, 1_000, 3, LIMITS)
    later = START + timedelta(days=400)
    plant(workplace, *numbered(200, "unrelated chore {n}", at=later, author=BEN))
    view = look(
        workplace, event("is the harbour licence of the northern pier renewed?", id="q", thread="q", at=later)
    )
    assert old.id == first(view)


@pytest.mark.promise("R21")
def test_open_tasks_are_never_read_as_a_whole(workplace: Workplace) -> None:
    """From the event to its Decision the record is read by id, thread and recency, after memory was searched."""
    plant(workplace, *numbered(30, "open chore {n}"))
    workplace.log.clear()
    workplace.decided("open chore 7 again", id="q", thread="q")
    asked = {call.partition(".")[2] for call in workplace.log if call.startswith("record.")}
    by_key = {"tasks", "people", "events", "changes", "entries", "summaries", "standing_offsets"}
    assert asked <= by_key | {"thread_tasks", "recent_tasks", "rows_of_messages", "positions"}
    assert workplace.log.index("memory.text") < workplace.log.index("record.tasks")


@pytest.mark.promise("R31")
def test_each_judgment_sees_one_event(workplace: Workplace) -> None:
    """Of fifty events that wait at once each judgment is shown its own, and nothing of the others."""
    workplace.judge.rule = lambda event, view: answer(nothing())
    waiting = [event(f"canary{n} is not a task", id=str(n), thread=str(n)) for n in range(50)]
    workplace.take(*waiting)
    assert 50 == len(workplace.judge.views)
    for view, own in zip(workplace.judge.views, waiting, strict=True):
        assert own.uid == view.event
        others = [other.text.split()[0] for other in waiting if other.id != own.id]
        seen = view.model_dump_json()
        assert not [canary for canary in others if f"{canary} " in seen or f'"{canary}"' in seen]


@pytest.mark.slow
@pytest.mark.promise("Q7", "R21", "R30")
def test_what_a_judge_is_handed_does_not_grow() -> None:
    """At 10,000 rows it is within the bound and as much as at 1,000, within a tenth."""
    few, many = (input_size(rows, 60, LIMITS, 5, lambda said: None) for rows in (1_000, 10_000))
    assert max(few.most, many.most) <= LIMITS.memory_characters
    assert many.mean <= few.mean * 1.1


@pytest.mark.promise("Q7", "R30")
def test_what_a_judge_is_handed_is_bounded_from_the_start(tmp_path: Path) -> None:
    """A hundred rows fill the slices; a thousand hand over no more than the bound."""
    few, many = (input_size(rows, 20, LIMITS, 5, lambda said: None) for rows in (100, 1_000))
    assert 0 < few.mean <= few.most <= LIMITS.memory_characters
    assert 0 < many.mean <= many.most <= LIMITS.memory_characters


# Exact identifiers.


@pytest.mark.parametrize(
    "named",
    [
        "OPS-4711",
        "SR-2023-052",
        "https://git.example.org/team/app/pull/88",
        "#4821",
        "0f3a9c1d7e",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "123e4567-e89b-12d3-a456-426614174000",
        "<20260302.17@mail.example.org>",
        "Amendment 16",
        "第3版",
    ],
)
def test_whatever_a_scheme_names_is_found_exactly(workplace: Workplace, named: str) -> None:
    """The row that names it is first in the exact lane, in an event that shares no other word with it."""
    plant(workplace, *numbered(5, "weekly report {n} of the team"))
    (task,) = plant(workplace, event(f"please look into {named} today", id="x", thread="x"))
    view = look(workplace, event(f"was ist mit {named} los?", id="q", thread="q"))
    assert 1 == lanes_of(view, task).get("exact"), view.queries


def test_an_identifier_that_came_later_leads_to_the_row(workplace: Workplace) -> None:
    """The request named nothing; a reply gave the pull request; a mail about the pull request is shown the row."""
    (task,) = plant(workplace, event("fix the login page", thread="a"))
    link = "https://git.example.org/team/app/pull/88"
    workplace.judge.then(update("T1", f"working on it in {link}", state="in_progress"))
    workplace.decided(f"working on it in {link}", id="2", thread="a")
    workplace.settle()
    view = look(workplace, event(f"{link} was merged", id="9", thread="mail", kind="mail", author=BEN))
    assert {"exact": 1} == lanes_of(view, task)


def test_an_identifier_of_the_subject_leads_to_the_row(workplace: Workplace) -> None:
    """The title is what the mail asks for, the ticket stands in its subject: the ticket finds the task."""
    workplace.judge.then(create("please calibrate the tide gauge"))
    workplace.decided("please calibrate the tide gauge", id="1", subject="[PORT-118] tide gauge", kind="mail")
    workplace.settle()
    (task,) = workplace.tasks()
    view = look(workplace, event("PORT-118 ist erledigt", id="9", thread="chat", author=BEN))
    assert {"exact": 1} == lanes_of(view, task)
    assert ("ticket:PORT-118",) == view.slices[0].identifiers


def test_a_mail_leads_to_the_row_of_the_mail_it_answers(workplace: Workplace) -> None:
    """Another subject makes another thread; the message id still says what is answered."""
    mail = {"kind": "mail", "source": "mail"}
    (task,) = plant(workplace, event("please send the offer", id="<1@example.org>", thread="offer", **mail))
    plant(workplace, *numbered(5, "weekly report {n} of the team"))
    answered = event("erledigt", id="<2@example.org>", thread="AW", reply_to="<1@example.org>", author=BEN, **mail)
    view = look(workplace, answered)
    assert (task.id, True) == (view.slices[0].row_id, view.slices[0].answered)
    assert {"exact": 1} == lanes_of(view, task)
    referring = event("fyi", id="<3@example.org>", thread="WG", **mail)
    referring = referring.model_copy(update={"attrs": {"references": "<0@example.org> <1@example.org>"}})
    view = look(workplace, referring)
    assert (task.id, False) == (view.slices[0].row_id, view.slices[0].answered)


def test_an_id_of_a_chat_says_nothing_elsewhere(workplace: Workplace) -> None:
    """Message 17 of one channel is not message 17 of another, nor is a mail of another workspace."""
    (task,) = plant(workplace, event("please send the offer", id="17", thread="one"))
    asked = event("ok", id="18", thread="two", reply_to="17", author=BEN)
    assert task.id not in ids(look(workplace, asked).slices)
    plant(workplace, event("book the room", id="<1@example.org>", thread="m", workspace="other"))
    view = look(workplace, event("ok", id="<2@example.org>", thread="n", reply_to="<1@example.org>"))
    assert [] == [row for row in view.slices if row.answered]


# Who and when.


def test_who_ties_a_row_to_an_event_is_shown(workplace: Workplace) -> None:
    """The author's own row, one of somebody who is addressed, and one of neither."""
    carl = Participant(id="carl", name="Carl")
    for who in (ANNA, BEN, carl):
        plant(workplace, event("paint the fence of the harbour", id=f"{who.id}", thread=f"{who.id}", author=who))
    view = look(workplace, event("the fence of the harbour", id="q", thread="q", author=ANNA, mentions=(BEN,)))
    assert [{"author"}, {"addressee"}, set()] == [set(row.ties) for row in view.slices]
    assert {1, 2, 3} == {row.recency for row in view.slices}


def test_whoever_spoke_of_a_row_is_one_of_its_people(workplace: Workplace) -> None:
    """Ben neither asked for it nor has to do it; he said something about it, and it is shown as his too."""
    (task,) = plant(workplace, event("paint the fence", thread="a", author=ANNA))
    workplace.judge.then(update("T1", "es ist da", state="in_progress"))
    workplace.decided("es ist da", id="2", thread="a", author=BEN)
    workplace.settle()
    (row,) = workplace.tasks()
    assert 2 == len(row.participants)
    view = look(workplace, event("about the fence", id="q", thread="q", author=BEN))
    assert (task.id, ("author",), ("Anna", "Ben")) == (
        view.slices[0].row_id,
        view.slices[0].ties,
        view.slices[0].participants,
    )


def test_rows_beyond_the_slices_are_counted(workplace: Workplace) -> None:
    """Twenty rows fit and twelve are shown: the read says that it was cut, and nothing of the others is shown."""
    plant(workplace, *numbered(20, "paint fence {n}"))
    view = look(workplace, event("paint the fence", id="q", thread="q"))
    assert LIMITS.slices == len(view.slices)
    assert isinstance(outcome(view, "text"), Cut)


def test_without_an_embedder_there_is_no_vector_lane(workplace: Workplace) -> None:
    """It is not asked for and has not failed: a create is permitted."""
    view = look(workplace, event("paint the fence"))
    assert {"text", "thread", "standby_tasks", "standby_people"} == {read.name for read in view.reads}
    assert Complete() == outcome(view, "standby_people")
    assert view.permits_create


def test_longer_queries_stay_one_question(workplace: Workplace) -> None:
    """A message of eighty words is one text query: its time is that of a short one."""
    text = " ".join(f"word{n}" for n in range(80))
    asked: Event = event(text)
    assert [("text", 80)] == [(query.lane, len(query.terms)) for query in look(workplace, asked).queries]
    assert Settings().query_terms >= 80


def test_a_created_row_keeps_the_words_it_is_found_by(workplace: Workplace) -> None:
    """A renamed task is found by its new title and by the words of its body."""
    workplace.judge.then(create("paint the fence of the harbour"))
    workplace.decided("paint the fence of the harbour")
    workplace.judge.then(update("T1", "call it pier work", title="Pier work"))
    workplace.decided("call it pier work", id="2")
    workplace.settle()
    for asked in ("pier", "fence"):
        assert ["Pier work"] == [row.title for row in look(workplace, event(asked, id=asked, thread="q")).slices]

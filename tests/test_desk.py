"""The desk: look, then decide, once; wait while nothing can be seen; keep a thread's order."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.apply import record_positions
from flows.desk import Repeated
from flows.judge.contract import Answer
from flows.pending import Judged, Pending
from store.schema import (
    ClassifiedFailure,
    Create,
    Decision,
    Delete,
    Edit,
    Empty,
    Event,
    FailureClass,
    Matched,
    Parked,
    Settings,
    Slice,
    View,
    parse_message,
)
from tests.workplace import (
    START,
    Script,
    Workplace,
    answer,
    create,
    create_or_match,
    event,
    matched,
    nothing,
    rows_of,
    update,
)

LIMITS = Settings()
stream_law = settings(derandomize=False, print_blob=True, deadline=None, max_examples=8)

BUSY = ClassifiedFailure(FailureClass.TRANSIENT, "429 Too Many Requests")
NO_DISK = OSError("no disk")


def kinds(decision: Decision) -> list[str]:
    """Kinds of the operations of a Decision."""
    return [operation.kind for operation in decision.operations]


def creates(event: Event, view: View) -> Answer:
    """A judge that makes a task of everything."""
    return answer(create(event.text))


def report(event: Event, view: View) -> Answer:
    """One rule for a report that something is fixed: new, news of an open row, or known already."""
    known = [row for row in view.tasks() if "printer" in row.title]
    if not known:
        return answer(create(event.text))
    (row, *_) = known
    return answer(matched(row.handle) if row.state == "done" else update(row.handle, event.text, state="done"))


def searches_logged(workplace: Workplace, failures: dict[str, int] | None = None) -> None:
    """Log each finished search with its words; a word fails as often as it is told to."""
    search = workplace.store.memory.text
    left = dict(failures or {})

    def text(workspace: str, terms: Iterable[str], limit: int) -> list[str]:
        terms = list(terms)
        for term in terms:
            if left.get(term, 0) > 0:
                left[term] -= 1
                raise NO_DISK
        found = search(workspace, terms, limit)
        workplace.log.extend(f"searched {term}" for term in terms)
        return found

    workplace.store.memory.text = text  # type: ignore[method-assign]


# Nothing before a search.


@pytest.mark.promise("R08", "R09", "R23")
@stream_law
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans()), min_size=1, max_size=8),
)
def test_no_event_is_judged_or_written_before_its_search_finished(stream: list[tuple[str, int, bool]]) -> None:
    """Over any stream, with searches failing in between: searched, then judged once, then written once."""
    with tempfile.TemporaryDirectory() as folder, Workplace.opened(Path(folder), Script(), LIMITS) as workplace:
        searches_logged(workplace, {f"word{n}": fails for n, (_, fails, _) in enumerate(stream)})
        workplace.judge.rule = lambda event, view: (
            answer(create(event.text)) if event.attrs["asks"] else answer(nothing())
        )
        events = [
            event(f"word{n}", id=f"word{n}", thread=thread, attrs={"asks": asks})
            for n, (thread, _, asks) in enumerate(stream)
        ]
        settled = workplace.take(*events)
        for _ in range(20):
            settled += workplace.wait(60)
        workplace.settle()

        assert len(events) == len(settled) == len(workplace.emitted)
        for said in events:
            assert 1 == workplace.log.count(f"judge {said.id}")
            judged = workplace.log.index(f"judge {said.id}")
            assert f"searched {said.id}" in workplace.log[:judged]
        for thread in "abc":
            order = [said.id for said in events if said.thread == thread]
            assert order == [each.event.id for each in settled if each.event.thread == thread]  # type: ignore[union-attr]
        assert sum(asks for _, _, asks in stream) == len(workplace.tasks())


@pytest.mark.promise("R08", "R23")
@pytest.mark.parametrize("text", ["create a task: order a printer", "close it", "the printer is here", "thanks"])
@pytest.mark.parametrize("error", [NO_DISK, TimeoutError("10 s"), RuntimeError("unforeseen")])
def test_while_search_fails_nothing_is_judged_or_emitted(
    workplace: Workplace, text: str, error: Exception
) -> None:
    """Whatever an event says, and though the thread has a row: no search, no judgment, no verdict of any kind."""
    workplace.judge.rule = creates
    workplace.decided("order a printer", id="first")
    workplace.settle()
    before, emitted = rows_of(workplace.store), len(workplace.emitted)
    workplace.judge.rule = create_or_match
    workplace.faults["text"] = error

    assert [] == workplace.take(event(text, id="second"))
    assert [] == workplace.wait(30)
    workplace.settle()

    assert "judge second" not in workplace.log
    assert emitted == len(workplace.emitted)
    assert before == rows_of(workplace.store)
    assert ["second"] == [each.arrival.event.id for each in workplace.desk.pending("owner")]


@pytest.mark.promise("R09")
def test_what_waits_carries_no_operation() -> None:
    """An event that waits is its arrival and its failures; a judged segment of it has its View: never an operation
    before a search.
    """
    waits = ["arrival", "attempts", "tries", "failing_since", "not_before", "rejected", "judged"]
    assert waits == [field.name for field in fields(Pending)]
    assert ["span", "view", "operations"] == [field.name for field in fields(Judged)]


@pytest.mark.promise("R09")
def test_the_judge_is_asked_once_for_a_sound_answer(workplace: Workplace) -> None:
    """One judgment, one call; nothing is asked before the looking or after the deciding."""
    workplace.judge.rule = creates
    workplace.decided("order a printer")
    workplace.settle()
    workplace.wait(3_600)
    assert ["judge 1"] == [call for call in workplace.log if call.startswith("judge")]
    before = workplace.log[: workplace.log.index("judge 1")]
    assert {"memory.text", "record.thread_tasks", "record.recent_tasks", "record.people"} <= set(before)
    assert ["judge 1", "apply"] == workplace.log[len(before) :]


@pytest.mark.promise("R13", "R14")
@pytest.mark.parametrize(
    ("state", "kind", "rows"), [(None, "create", 1), ("open", "update", 1), ("done", "matched", 1)]
)
def test_one_event_is_three_things_in_three_records(
    workplace: Workplace, state: str | None, kind: str, rows: int
) -> None:
    """The same words, by the same rule: new where nothing is known, an update, or nothing to do."""
    if state:
        workplace.judge.then(create("the printer is broken", state=state))
        workplace.decided("the printer is broken", thread="reported")
        workplace.settle()
    workplace.judge.rule = report
    decision = workplace.decided("the printer works again", id="same", thread="replayed")
    workplace.settle()
    assert [kind] == kinds(decision)
    assert rows == len(workplace.tasks())


# Waiting.


@pytest.mark.promise("R23")
def test_an_event_waits_out_a_failing_search_and_is_decided_once(workplace: Workplace) -> None:
    """It is tried again after growing delays, and once search is back there is one Decision and one row."""
    workplace.judge.rule = creates
    workplace.faults["text"] = NO_DISK
    began = workplace.now
    assert [] == workplace.take(event("order a printer"))
    delays = []
    for _ in range(12):
        due = workplace.desk.next_at("owner")
        assert due is not None
        delays.append((due - workplace.now).total_seconds())
        assert [] == workplace.wait(delays[-1])
    assert pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60, 60]) == delays
    assert workplace.now > began + timedelta(minutes=4)

    del workplace.faults["text"]
    assert [] == workplace.wait(59)
    (decision,) = workplace.wait(1)
    assert [] == workplace.wait(3_600)
    workplace.settle()
    assert isinstance(decision, Decision)
    assert ["create"] == kinds(decision)
    assert 1 == len(workplace.tasks()) == len(workplace.emitted)
    assert 0 == len(workplace.desk)


@pytest.mark.promise("R23")
@pytest.mark.parametrize("method", ["exact", "thread_tasks", "recent_tasks", "people"])
def test_with_one_read_missing_only_a_seen_row_may_change(workplace: Workplace, method: str) -> None:
    """One read of several fails: an update and a match stand (C10), a create and a not-a-task wait for it."""
    workplace.judge.rule = creates
    workplace.decided("OPS-7 order a printer", thread="known")
    workplace.settle()
    workplace.faults[method] = NO_DISK

    workplace.judge.rule = lambda event, view: answer(update("S1", event.text, state="done"))
    assert ["update"] == kinds(workplace.decided("OPS-7 printer is here", thread="a"))
    workplace.judge.rule = lambda event, view: answer(matched("S1"))
    assert ["matched"] == kinds(workplace.decided("OPS-7 printer is here", thread="b"))

    for rule, kind in ((creates, "create"), (None, "not_a_task")):
        workplace.judge.rule = rule
        assert [] == workplace.take(event("OPS-7 something else", id=kind, thread=kind))
        assert [] == workplace.wait(1)
        del workplace.faults[method]
        (decision,) = workplace.wait(60)
        assert isinstance(decision, Decision)
        assert [kind] == kinds(decision)
        assert () == decision.view.failed_reads()
        workplace.faults[method] = NO_DISK


@pytest.mark.promise("R23")
def test_a_failing_record_is_waited_for(workplace: Workplace) -> None:
    """Not even the event's own row could be read: nothing is decided, and the first Decision still stands."""
    workplace.judge.rule = creates
    workplace.decided("order a printer", id="1")
    workplace.settle()
    workplace.decided("something else", id="2")
    workplace.faults["events"] = NO_DISK
    assert [] == workplace.take(event("order a printer", id="1"))
    del workplace.faults["events"]
    (again,) = workplace.wait(1)
    assert isinstance(again, Repeated)


@pytest.mark.promise("R25")
def test_an_empty_record_does_not_stop_a_decision(workplace: Workplace) -> None:
    """Nothing found and nothing recent: a request becomes a task in the same call."""
    workplace.judge.rule = creates
    (decision,) = workplace.take(event("order a printer"))
    assert isinstance(decision, Decision)
    assert ["create"] == kinds(decision)
    assert {Empty()} == {read.outcome for read in decision.view.reads if read.name != "standby_people"}
    assert 0 == len(workplace.desk)
    assert workplace.desk.next_at("owner") is None


@pytest.mark.promise("L1")
@pytest.mark.parametrize("error", [BUSY, TimeoutError("no answer"), ConnectionResetError("reset")])
def test_a_judge_that_is_unwell_is_asked_again_until_it_answers(workplace: Workplace, error: Exception) -> None:
    """However often the model is busy, the event stays pending; then it is decided once."""
    times = 4 * LIMITS.retry_cap
    workplace.judge.answers = [*[error] * times, answer(create("order a printer"))]
    assert [] == workplace.take(event("order a printer"))
    for _ in range(times - 1):
        assert [] == workplace.wait(60)
        assert [] == workplace.emitted
    (decision,) = workplace.wait(60)
    assert isinstance(decision, Decision)
    assert ["create"] == kinds(decision)
    assert [] == workplace.wait(60)
    assert times + 1 == workplace.log.count("judge 1")


@pytest.mark.promise("Q3")
def test_an_event_that_cannot_be_judged_is_parked_at_the_cap(workplace: Workplace) -> None:
    """Failures of the event's own fault are counted; at the cap it is parked, and nothing more happens."""
    unreadable = ClassifiedFailure(FailureClass.CONTENT, "the model refuses it")
    workplace.judge.answers = [unreadable] * 10
    settled = workplace.take(event("order a printer"))
    while not settled:
        settled = workplace.wait(60)
    (parked,) = settled
    assert isinstance(parked, Parked)
    assert (FailureClass.CONTENT, "the model refuses it", LIMITS.retry_cap) == (
        parked.failure,
        parked.reason,
        parked.attempts,
    )
    assert [] == workplace.wait(3_600)
    assert LIMITS.retry_cap == workplace.log.count("judge 1")
    assert (0, None) == (len(workplace.desk), workplace.desk.next_at("owner"))
    workplace.settle()
    row = workplace.store.record.events([parked.event.uid])[parked.event.uid]
    assert ("parked", None) == (row.outcome, row.decision)


@pytest.mark.promise("Q3")
def test_a_failure_nobody_foresaw_is_retried_for_an_hour(workplace: Workplace) -> None:
    """An unknown failure outlives the cap, and is parked as unknown when its time is up."""
    workplace.judge.answers = [RuntimeError("bug")] * 200
    assert [] == workplace.take(event("order a printer"))
    for _ in range(59):
        assert [] == workplace.wait(60)
    (parked,) = workplace.wait(120)
    assert isinstance(parked, Parked)
    assert FailureClass.UNKNOWN == parked.failure
    assert "RuntimeError: bug" == parked.reason
    assert workplace.desk.next_at("owner") is None


@pytest.mark.promise("R23", "R39")
def test_a_thread_waits_for_its_head_and_others_do_not(workplace: Workplace) -> None:
    """While the first event of a thread fails, the later ones of it wait in order; other threads are decided."""
    failing = ["a1"]

    def rule(event: Event, view: View) -> Answer:
        if event.id in failing:
            raise BUSY
        return answer(nothing())

    workplace.judge.rule = rule
    stream = [("a1", "a"), ("b1", "b"), ("a2", "a"), ("c1", "c"), ("b2", "b"), ("a3", "a")]
    settled = workplace.take(*(event("hello", id=id, thread=thread) for id, thread in stream))
    assert ["b1", "c1", "b2"] == [each.event.id for each in workplace_events(settled)]
    assert ["a1", "a2", "a3"] == [each.arrival.event.id for each in workplace.desk.pending("owner")]
    for _ in range(8):
        assert [] == workplace.wait(60)
    # What wakes the desk for another thread does not shorten the delay of this one.
    tried = workplace.log.count("judge a1")
    assert ["d1"] == [each.event.id for each in workplace_events(workplace.take(event("hi", id="d1", thread="d")))]
    assert tried == workplace.log.count("judge a1")
    failing.clear()
    assert ["a1", "a2", "a3"] == [each.event.id for each in workplace_events(workplace.wait(60))]


def workplace_events(settled: Sequence[object]) -> list[Decision]:
    """What was settled, each of which must be a Decision."""
    decisions = [each for each in settled if isinstance(each, Decision)]
    assert len(settled) == len(decisions)
    return decisions


# The same thread, however far the index is behind.

LAGS: dict[str, Callable[[Workplace], object]] = {
    "none": Workplace.settle,
    "unapplied": lambda workplace: None,
    "never followed": Workplace.apply,
}


@pytest.mark.promise("R37", "R38")
@pytest.mark.parametrize("lag", LAGS)
@pytest.mark.parametrize("found", [True, False], ids=["search ok", "search empty"])
def test_the_second_message_of_a_thread_makes_no_second_row(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, lag: str, found: bool
) -> None:
    """Whatever search knows, the second message matches the first one's row, at once."""
    workplace.judge.rule = create_or_match
    if not found:
        monkeypatch.setattr(workplace.store.memory, "text", lambda *_: [])
    first = workplace.decided("order a printer", id="1")
    LAGS[lag](workplace)
    second = workplace.decided("any news of that order?", id="2")
    workplace.settle()
    assert (["create"], ["matched"]) == (kinds(first), kinds(second))
    assert isinstance(first.operations[0], Create)
    assert isinstance(second.operations[0], Matched)
    assert first.operations[0].task == second.operations[0].task
    assert [first.operations[0].task] == [task.id for task in workplace.tasks()]


@pytest.mark.promise("R38")
def test_deciding_behind_a_lagging_index_takes_the_same_calls(tmp_path: Path) -> None:
    """No call is added, and nothing is polled, however far record and memory are behind."""
    made: dict[str, Counter[str]] = {}
    for lag, catch_up in LAGS.items():
        with Workplace.opened(tmp_path / lag.replace(" ", "-"), Script(create_or_match), LIMITS) as workplace:
            workplace.decided("order a printer", id="1")
            catch_up(workplace)
            workplace.log.clear()
            before = workplace.now
            workplace.decided("any news of that order?", id="2")
            made[lag] = Counter(workplace.log)
            assert timedelta(seconds=1) == workplace.now - before
    assert 1 == made["none"]["memory.text"]
    assert made["none"] == made["unapplied"] == made["never followed"]


@pytest.mark.promise("R37")
@stream_law
@given(st.lists(st.sampled_from(sorted(LAGS)), min_size=1, max_size=4))
def test_a_thread_of_any_length_has_one_row(lags: list[str]) -> None:
    """However apply and memory come along between the messages: one task, and every later message matches it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Workplace.opened(Path(folder), Script(create_or_match), LIMITS) as workplace,
    ):
        decisions = [workplace.decided("order a printer", id="0")]
        for n, lag in enumerate(lags, start=1):
            LAGS[lag](workplace)
            decisions.append(workplace.decided(f"message {n}", id=str(n)))
        workplace.settle()
        assert [["create"], *[["matched"]] * len(lags)] == [kinds(each) for each in decisions]
        assert 1 == len(workplace.tasks())


@pytest.mark.promise("R37")
def test_messages_taken_together_are_decided_one_after_the_other(workplace: Workplace) -> None:
    """Messages of one thread that arrive in one batch see each other's rows."""
    workplace.judge.rule = create_or_match
    settled = workplace.take(*(event(f"order a printer, message {n}", id=str(n)) for n in range(5)))
    assert ["create", *["matched"] * 4] == [kind for each in workplace_events(settled) for kind in kinds(each)]


# What a Decision holds.


@pytest.mark.promise("R45")
def test_each_commitment_of_an_event_is_an_operation_of_its_own(workplace: Workplace) -> None:
    """Three commitments, one of a known row: one update and two creates, each with its own words."""
    workplace.judge.then(create("order a printer"))
    workplace.decided("order a printer")
    workplace.settle()
    text = "The printer is ordered. Ben paints the fence. Anna books the venue."
    workplace.judge.rule = lambda event, view: answer(
        update(next(view.tasks()).handle, "The printer is ordered.", state="done"),
        create("Ben paints the fence.", "Paint the fence"),
        create("Anna books the venue.", "Book the venue"),
    )
    decision = workplace.decided(text)
    workplace.settle()

    assert ["update", "create", "create"] == kinds(decision)
    assert [0, 1, 2] == [operation.number for operation in decision.operations]
    tasks = {task.title: task for task in workplace.tasks()}
    assert {"order a printer", "Paint the fence", "Book the venue"} == set(tasks)
    assert "Ben paints the fence." == tasks["Paint the fence"].body
    assert "Anna books the venue." == tasks["Book the venue"].body
    assert "done" == tasks["order a printer"].state
    assert all(decision.event.uid in task.evidence for task in tasks.values())
    row = workplace.store.record.events([decision.event.uid])[decision.event.uid]
    assert {task.id for task in tasks.values()} == set(row.rows)


@pytest.mark.promise("R48")
@pytest.mark.parametrize("kind", ["not_a_task", "matched"])
def test_doing_nothing_is_an_outcome(workplace: Workplace, kind: str) -> None:
    """It is recorded like any other, counts as processed, changes no task and is not tried again."""
    workplace.judge.then(create("order a printer"))
    workplace.decided("order a printer")
    workplace.settle()
    tasks = workplace.tasks()
    workplace.judge.rule = create_or_match if kind == "matched" else None
    decision = workplace.decided("thanks", id="thanks")
    report = workplace.apply()
    workplace.follow()

    assert [kind] == kinds(decision)
    assert (1, 0, 0) == (report.decided, report.dropped, report.repeated)
    assert tasks == workplace.tasks()
    row = workplace.store.record.events([decision.event.uid])[decision.event.uid]
    assert (kind, decision.id) == (row.outcome, row.decision)
    assert ([tasks[0].id] if kind == "matched" else []) == list(row.rows)
    assert [] == workplace.wait(3_600)
    assert 1 == workplace.log.count("judge thanks")
    assert workplace.desk.next_at("owner") is None


@pytest.mark.promise("R52", "R03")
def test_what_was_visible_is_kept_before_a_row_is_written(workplace: Workplace) -> None:
    """The message that is emitted holds the View; only then are rows written, and the kept Decision is it."""
    workplace.judge.rule = creates
    workplace.decided("order a printer", thread="other")
    workplace.settle()
    before = rows_of(workplace.store)

    decision = workplace.decided("order a new printer", id="2")

    emitted = parse_message(workplace.emitted[-1].raw)
    assert isinstance(emitted, Decision)
    assert workplace.judge.views[-1] == emitted.view
    assert ["order a printer"] == [slice_.title for slice_ in emitted.view.slices]
    assert {"text", "thread", "standby_tasks", "standby_people"} == {read.name for read in emitted.view.reads}
    assert before == rows_of(workplace.store)
    assert [] == workplace.store.record.decisions([decision.id])

    workplace.settle()
    (kept,) = workplace.store.record.decisions([decision.id])
    assert workplace.emitted[-1].raw == kept.message
    assert 2 == len(workplace.tasks())


@pytest.mark.promise("R52")
def test_a_crash_between_deciding_and_writing_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """Emitted and not written: after a restart the message is applied, once however often it is read."""
    script = Script(creates)
    with Workplace.opened(tmp_path, script, LIMITS) as workplace:
        workplace.decided("order a printer")
        emitted = list(workplace.emitted)
        assert [] == workplace.tasks()
    with Workplace.opened(tmp_path, script, LIMITS) as restarted:
        assert [] == restarted.tasks()
        positions = record_positions(emitted, "lookfirst.operations", "id")
        once = restarted.writer.commit(emitted, positions)
        rows = rows_of(restarted.store, ("tasks", "people", "events", "decisions", "changes", "sessions"))
        twice = restarted.writer.commit(emitted, positions)
        assert (1, 1) == (once.decided, twice.repeated)
        assert rows == rows_of(restarted.store, tuple(rows))
        assert 1 == len(restarted.tasks())
        (again,) = restarted.take(event("order a printer"))
        assert isinstance(again, Repeated)


@pytest.mark.promise("N3")
@pytest.mark.parametrize("text", ["", " ", "\n\t\r\n", "\u00a0\u2003"])
def test_a_blank_event_costs_no_judgment(workplace: Workplace, text: str) -> None:
    """Nothing was said, nothing is asked: not a task, recorded with what was seen."""
    workplace.judge.rule = creates
    decision = workplace.decided(text, subject="  ")
    workplace.settle()
    assert ["not_a_task"] == kinds(decision)
    assert [] == [call for call in workplace.log if call.startswith("judge")]
    assert [] == workplace.tasks()
    row = workplace.store.record.events([decision.event.uid])[decision.event.uid]
    assert "not_a_task" == row.outcome


@pytest.mark.promise("N3")
def test_a_subject_alone_is_not_blank(workplace: Workplace) -> None:
    """A mail whose text is empty says what its subject says, and is judged."""
    workplace.judge.then(create("order a printer"))
    assert ["create"] == kinds(workplace.decided("", subject="order a printer"))


# Once only.


@pytest.mark.promise("D1", "D9", "L5")
@pytest.mark.parametrize("catch_up", LAGS.values(), ids=list(LAGS))
def test_an_event_sent_again_is_not_decided_again(
    workplace: Workplace, catch_up: Callable[[Workplace], object]
) -> None:
    """The same id an hour later, even in other words: the first Decision stands and nothing is emitted."""
    workplace.judge.rule = creates
    first = workplace.decided("order a printer", id="1")
    catch_up(workplace)
    (again,) = workplace.take(event("order a printer", id="1"))
    workplace.now += timedelta(hours=1)
    (later,) = workplace.take(event("order two printers", id="1", at=START + timedelta(hours=1)))
    workplace.settle()
    assert (Repeated, Repeated) == (type(again), type(later))
    assert ["judge 1"] == [call for call in workplace.log if call.startswith("judge")]
    assert [first] == [applied.message for applied in workplace.emitted]
    assert ["order a printer"] == [task.body for task in workplace.tasks()]


@pytest.mark.promise("D1")
def test_an_event_produced_twice_at_once_is_one_row(workplace: Workplace) -> None:
    """Two copies in one batch: one Decision, one repetition; elsewhere an equal id is another event."""
    workplace.judge.rule = creates
    twin = event("order a printer", id="1")
    settled = workplace.take(twin, twin, event("order a printer", id="1", thread="elsewhere"))
    workplace.settle()
    assert Counter([Decision, Repeated, Decision]) == Counter(type(each) for each in settled)
    assert 2 == len(workplace.tasks()) == len(workplace.emitted)


@pytest.mark.promise("D1")
def test_of_two_decisions_of_one_event_the_first_stands(workplace: Workplace, tmp_path: Path) -> None:
    """Two deciders that know nothing of each other: one row, of the first; the other Decision is kept, dropped."""
    workplace.judge.then(create("order a printer", "First"))
    first = workplace.decided("order a printer", id="1")
    with Workplace.opened(tmp_path / "blind", Script().then(create("order a printer", "Second")), LIMITS) as other:
        second = other.decided("order a printer", id="1")
    workplace.emit(second)
    report = workplace.apply()
    workplace.follow()
    assert first.id == second.id
    assert (1, 1) == (report.decided, report.dropped)
    assert ["First"] == [task.title for task in workplace.tasks()]
    assert [True, False] == [row.stands for row in workplace.store.record.decisions([first.id])]


# Time and people.


@pytest.mark.promise("U4")
@pytest.mark.parametrize("ids", [("1", "2"), ("2", "1"), ("9", "10")])
@pytest.mark.parametrize("catch_up", LAGS.values(), ids=list(LAGS))
def test_cancelled_and_on_again_within_a_minute_is_on(
    workplace: Workplace, ids: tuple[str, str], catch_up: Callable[[Workplace], object]
) -> None:
    """Two messages with one time count in the order they came, whatever their ids; both are in the history."""
    workplace.judge.rule = creates
    workplace.decided("the Friday review", id="0", at=START)
    catch_up(workplace)
    for number, (text, state) in enumerate(
        [("cancel the Friday review", "cancelled"), ("the Friday review is on again", "open")]
    ):
        workplace.judge.rule = lambda event, view, state=state: answer(
            update(next(view.tasks()).handle, event.text, state=state)
        )
        workplace.decided(text, id=ids[number], at=START + timedelta(minutes=1))
        catch_up(workplace)
    workplace.settle()
    (task,) = workplace.tasks()
    assert "open" == task.state
    history = workplace.store.record.changes([task.id])[task.id]
    states = sorted((each for each in history if each.field == "state"), key=lambda each: each.version)
    assert ["open", "cancelled", "open"] == [each.value for each in states]
    assert 3 == len(task.evidence)


@pytest.mark.promise("Q10")
@pytest.mark.parametrize("applied", [True, False], ids=["applied before", "applied together"])
def test_a_persons_change_during_a_judgment_survives_it(workplace: Workplace, applied: bool) -> None:
    """What a person set while the judge was thinking stays, also in the field the Decision sets."""
    task = _thinking(
        workplace,
        lambda row: Edit(
            id="edit",
            workspace="default",
            thread="t",
            row=row.row_id,
            seen=row.version,
            by="anna",
            title="Anna's title",
            state="blocked",
        ),
        applied=applied,
    )
    (row,) = workplace.tasks()
    assert ("Anna's title", "blocked", date(2024, 6, 1)) == (row.title, row.state, row.due)
    assert task == row.id


@pytest.mark.promise("Q10")
@pytest.mark.parametrize("applied", [True, False], ids=["applied before", "applied together"])
def test_a_row_deleted_during_a_judgment_stays_deleted(workplace: Workplace, applied: bool) -> None:
    """An update that was decided from the View does not bring back what a person has deleted since."""
    _thinking(
        workplace,
        lambda row: Delete(
            id="delete", workspace="default", thread="t", row=row.row_id, seen=row.version, by="anna"
        ),
        applied=applied,
    )
    assert [] == workplace.tasks()
    workplace.judge.rule = create_or_match
    assert ["create"] == kinds(workplace.decided("order a printer after all"))


def _thinking(workplace: Workplace, change: Callable[[Slice], Edit | Delete], *, applied: bool) -> str:
    """A row, and an update of it during whose judgment a person makes a change. Returns the row's id."""
    workplace.judge.rule = creates
    workplace.decided("order a printer")
    workplace.settle()
    (task,) = workplace.tasks()

    def rule(event: Event, view: View) -> Answer:
        (row,) = view.tasks()
        workplace.emit(change(row))
        if applied:
            workplace.apply()
        named: dict[str, Any] = {"state": "done", "title": "A title of the judge", "due": date(2024, 6, 1)}
        return answer(update(row.handle, event.text, **named))

    workplace.judge.rule = rule
    workplace.now += timedelta(hours=1)
    assert ["update"] == kinds(workplace.decided("the printer comes in June", at=START + timedelta(hours=1)))
    workplace.settle()
    return task.id


# What the desk takes.


def test_a_failing_thread_takes_no_room_from_the_others(tmp_path: Path) -> None:
    """Events are read a few waves ahead; those behind a failing one only count against the bound of pending."""
    limits = Settings(read_ahead=4, pending=10)
    with Workplace.opened(tmp_path, Script(), limits) as workplace:
        assert 4 == workplace.desk.room().messages
        workplace.judge.answers = [ClassifiedFailure(FailureClass.TRANSIENT, "429")] * 100
        assert [] == workplace.take(*(event("x", id=f"{n}", thread="failing") for n in range(3)))
        assert (3, 4) == (len(workplace.desk), workplace.desk.room().messages)
        assert [] == workplace.take(*(event("x", id=f"{n}", thread="failing too") for n in range(5)))
        assert (8, 2) == (len(workplace.desk), workplace.desk.room().messages)
        workplace.judge.answers = []
        assert 8 == len(workplace.wait(60))
        assert (0, 4) == (len(workplace.desk), workplace.desk.room().messages)


def test_searching_ahead_searches_nothing_twice(workplace: Workplace) -> None:
    """The searches of the next wave are started early and used: one search an event, and its lag is told."""
    said = [event(f"order item number{n}", id=f"{n}", thread=f"t{n % 3}") for n in range(12)]
    workplace.judge.rule = lambda event, view: answer(create(event.text))
    settled = workplace.take(*said)
    assert len(said) == len(settled) == len(workplace.calls("memory.text"))
    lags = [read.outcome.lag for view in workplace.judge.views for read in view.reads if read.name == "text"]
    assert sorted(lags) == lags
    assert 0 == lags[0] < lags[-1]

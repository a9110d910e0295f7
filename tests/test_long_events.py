"""Long events: judged segment by segment, each seeing what the earlier ones decided, and decided once."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.judge.contract import Answer
from store.schema import (
    ClassifiedFailure,
    Create,
    Decision,
    Event,
    FailureClass,
    Settings,
    View,
    parse_message,
)
from tests.workplace import Script, Workplace, answer, create, event, matched, nothing, update

LIMITS = Settings(segment_characters=1_000, segment_overlap=50, segments=6)
FILLER = "We talked about the weather and about nothing else for quite a while, as one does.\n"


def note(*said: str, filler: int = 14) -> str:
    """A note with lines that matter among lines that do not, about one to a segment."""
    return "".join(f"{FILLER * filler}{line}\n" for line in said)


def asks_for(*marks: str) -> Script:
    """A judge that creates a task for each line with one of these marks."""

    def rule(event: Event, view: View) -> Answer:
        lines = [line for line in event.text.splitlines() if any(mark in line for mark in marks)]
        return answer(*(create(line) for line in lines)) if lines else answer(nothing())

    return Script(rule=rule)


@pytest.mark.promise("L12")
@pytest.mark.promise("R28")
def test_the_last_line_of_a_long_note_is_judged(tmp_path: Path) -> None:
    """88,000 characters and the only commitment in the last line: it reaches the judge and becomes a task."""
    text = FILLER * (88_000 // len(FILLER)) + "Lena will send the offer by Friday"
    with Workplace.opened(tmp_path / "store", asks_for("Lena will"), Settings()) as workplace:
        decision = workplace.decided(text)
        workplace.settle()
        assert [o.segment for o in decision.operations if isinstance(o, Create)] == [len(decision.views) - 1]
        assert ["Lena will send the offer by Friday"] == [task.body for task in workplace.tasks()]
        assert decision.segments
        assert len(text) == decision.segments.spans[-1][1]
        assert all(len(view.queries) <= 4 for view in decision.views)


def test_a_short_event_has_no_segments(workplace: Workplace) -> None:
    """An event that fits is judged as it is."""
    decision = workplace.decided("x" * 12_000)
    assert (None, 1) == (decision.segments, len(decision.views))


@pytest.mark.promise("R05")
def test_a_later_segment_sees_and_changes_what_an_earlier_one_created(tmp_path: Path) -> None:
    """Asked for at the beginning, done at the end: one create, which carries the last word, and one row."""

    def rule(event: Event, view: View) -> Answer:
        if "please write" in event.text:
            return answer(create("please write the report"))
        if "the report is done" in event.text:
            (row,) = view.thread_rows
            return answer(update(row.handle, "the report is done", state="done"))
        return answer(nothing())

    text = note("please write the report", "", "the report is done")
    with Workplace.opened(tmp_path / "store", Script(rule=rule), LIMITS) as workplace:
        decision = workplace.decided(text)
        workplace.settle()
        assert len(decision.views) > 2
        (task,) = workplace.tasks()
        assert ("please write the report", "done") == (task.body, task.state)
        assert {"create", "matched"} == {operation.kind for operation in decision.operations}
        assert decision == parse_message(decision.model_dump_json())


def test_ordinals_are_of_segment_and_number(tmp_path: Path) -> None:
    """Two creates in two segments have ids of their own, the same whenever the event is judged."""
    text = note("ask one", "ask two")
    with Workplace.opened(tmp_path / "store", asks_for("ask"), LIMITS) as workplace:
        first = workplace.decided(text)
        workplace.settle()
        assert 2 == len({(o.segment, o.number) for o in first.operations}) == len(workplace.tasks())
    with Workplace.opened(tmp_path / "again", asks_for("ask"), LIMITS) as workplace:
        assert [o.id for o in first.operations] == [o.id for o in workplace.decided(text).operations]


def test_what_is_too_long_even_for_segments_says_what_nobody_read(tmp_path: Path) -> None:
    """Head and tail are judged; the range between them is recorded with the Decision."""
    text = note("ask at the head", filler=2) + FILLER * 400 + "ask in the tail"
    with Workplace.opened(tmp_path / "store", asks_for("ask"), LIMITS) as workplace:
        decision = workplace.decided(text)
        assert ["ask at the head", "ask in the tail"] == [
            o.quote for o in decision.operations if isinstance(o, Create)
        ]
        assert decision.segments
        assert decision.segments.unjudged
        begin, end = decision.segments.unjudged
        assert 0 < begin < end < len(text)
        assert LIMITS.segments == len(decision.views) == len(workplace.judge.views)


def test_a_failure_in_a_later_segment_repeats_only_that_one(tmp_path: Path) -> None:
    """The third judgment fails once: the event waits, and the first two segments are not judged again."""
    text = note("ask one", "ask two", "ask three")
    with Workplace.opened(tmp_path / "store", asks_for("ask"), LIMITS) as workplace:
        calls = 0
        well = workplace.judge.rule
        assert well

        def rule(event: Event, view: View) -> Answer:
            nonlocal calls
            calls += 1
            if calls == 3:
                raise ClassifiedFailure(FailureClass.TRANSIENT, "429")
            return well(event, view)

        workplace.judge.rule = rule
        assert [] == workplace.take(event(text))
        (waiting,) = workplace.desk.pending("owner")
        (decision,) = workplace.wait(60)
        assert isinstance(decision, Decision)
        assert calls == len(decision.views) + 1
        assert 2 == len(waiting.judged)  # type: ignore[union-attr]


def test_judged_segments_survive_in_the_state(tmp_path: Path) -> None:
    """What a snapshot holds is taken up: the next desk goes on with the third segment and sees the first two."""
    text = note("ask one", "ask two", "ask three")
    judge = asks_for("ask")
    well = judge.rule
    assert well

    def rule(event: Event, view: View) -> Answer:
        if "three" in event.text:
            raise ClassifiedFailure(FailureClass.TRANSIENT, "429")
        return well(event, view)

    judge.rule = rule
    with Workplace.opened(tmp_path / "store", judge, LIMITS) as workplace:
        assert [] == workplace.take(event(text))
        state = workplace.desk.pending("owner")
    again = asks_for("three")
    with Workplace.opened(tmp_path / "store", again, LIMITS) as workplace:
        workplace.desk.take("owner", state)
        workplace.now = workplace.now.replace(year=2030)
        (decision,) = workplace.work()
        assert isinstance(decision, Decision)
        assert 3 == sum(isinstance(o, Create) for o in decision.operations)
        assert any(row.title.startswith("ask one") for view in again.views for row in view.thread_rows)


def test_a_long_event_that_is_parked_leaves_nothing_behind(tmp_path: Path) -> None:
    """Refused in its last segment: parked whole; what its first segment would have created is seen by nobody."""
    text = note("ask one", "ask never")
    with Workplace.opened(tmp_path / "store", asks_for("ask one"), LIMITS) as workplace:
        well = workplace.judge.rule
        assert well
        workplace.judge.rule = lambda event, view: answer() if "never" in event.text else well(event, view)
        parked = workplace.parked(text)
        assert "R40" in parked.reason
        workplace.judge.rule = None
        after = workplace.decided("and now something else")
        assert [] == list(after.view.tasks())
        workplace.settle()
        assert [] == workplace.tasks()


def test_a_match_points_at_the_row_of_its_own_segment(tmp_path: Path) -> None:
    """Handles are of one View: the second segment's S1 is not the first one's."""
    with Workplace.opened(tmp_path / "store", Script(), LIMITS) as workplace:
        workplace.judge.rule = lambda event, view: answer(create(event.text))
        workplace.decided("order the blue paint", thread="a")
        workplace.decided("book the train to Kiel", thread="b")
        workplace.settle()

        def rule(event: Event, view: View) -> Answer:
            for words in ("blue paint", "train to Kiel"):
                if words in event.text:
                    row = next(row for row in view.slices if words in row.title)
                    return answer(matched(row.handle))
            return answer(nothing())

        workplace.judge.rule = rule
        decision = workplace.decided(note("as to the blue paint", "as to the train to Kiel", filler=10))
        by_id = {task.id: task.title for task in workplace.tasks()}
        assert ["order the blue paint", "book the train to Kiel"] == [
            by_id[operation.task] for operation in decision.operations if operation.kind == "matched"
        ]

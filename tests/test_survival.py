"""What a desk must get over: a snapshot at a bad moment, an outage nobody waits in, a crash of somebody else."""

from __future__ import annotations

import pickle
import threading
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest

from connectors.markers import Markers
from connectors.message import Outgoing
from connectors.topic_file import TopicFile
from flows.daemons import Daemons
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.judge.contract import Answer
from flows.parse import read_event
from store.schema import (
    Arrival,
    ClassifiedFailure,
    Decision,
    Event,
    FailureClass,
    Parked,
    Settings,
    View,
    load_settings,
)
from tests.cheap import CheapDesk
from tests.sample import opened
from tests.test_embedded import lines_of
from tests.test_outage import Slow
from tests.workplace import START, Script, Workplace, answer, create, create_or_match, event, nothing, update

DOWN = ClassifiedFailure(FailureClass.TRANSIENT, "connection refused")


def topic_with(path: Path, *events: Event) -> TopicFile:
    """A topic file that holds these events."""
    topic = TopicFile(path, "lookfirst.events", clock=lambda: START)
    topic.append([Outgoing(each.key, each.model_dump_json()) for each in events])
    return topic


def arrivals_on(topic: TopicFile) -> list[Arrival]:
    """The events of a topic as they are read."""
    read = [read_event(incoming) for incoming in topic.read(topic.start, 1_000)[0]]
    return [each for each in read if isinstance(each, Arrival)]


@pytest.mark.parametrize("text", ["pay the bill", "word " * 4_000])
def test_a_snapshot_between_settling_and_collecting_is_judged_again_once(tmp_path: Path, text: str) -> None:
    """Settled, not collected, and then the process ended: the next one judges it as if it never had, and ends."""
    first = CheapDesk(topic_with(tmp_path, event(text, id="1")), Script(), Settings(), tmp_path)
    first.read()
    while not first.desk.under_way:
        first.desk.work()
    state = pickle.loads(pickle.dumps(first.state()))  # noqa: S301
    (tmp_path / "next").mkdir()
    judge = Script()
    second = CheapDesk(TopicFile(tmp_path / "next", "lookfirst.events"), judge, Settings(), tmp_path / "next")
    second.desk.take("owner", state)
    (decision,) = second.work()
    assert isinstance(decision, Decision)
    assert (1, 0) == (len(judge.views) - (len(decision.views) - 1 - len(state[0].judged)), len(second.desk))


@pytest.mark.parametrize("characters", [40_000, 28_000, 6_000])
def test_a_half_judged_text_is_begun_again_when_it_is_cut_otherwise(tmp_path: Path, characters: int) -> None:
    """The segments of the state are not those of the settings any more: nothing is skipped, nothing loops."""
    text = "word " * 6_000
    first = CheapDesk(topic_with(tmp_path, event(text, id="1")), Script(), Settings(), tmp_path)
    first.read()
    first.desk.work()
    assert [1] == [len(each.judged) for each in first.state()]
    (tmp_path / "next").mkdir()
    topic, limits = TopicFile(tmp_path / "next", "lookfirst.events"), Settings(segment_characters=characters)
    second = CheapDesk(topic, Script(), limits, tmp_path / "next")
    second.desk.take("owner", first.state())
    (decision,) = second.work()
    assert isinstance(decision, Decision)
    spans = decision.segments.spans if decision.segments else ((0, len(text)),)
    assert (0, len(text)) == (spans[0][0], spans[-1][1])
    assert all(end - begin <= characters for begin, end in spans)
    assert len(spans) == len(decision.views)


def test_an_outage_with_nobody_left_to_find_out_ends(tmp_path: Path) -> None:
    """The last event of an outage is parked for another reason: one more is read, and it finds out."""
    judge = Script(answers=[DOWN] * 3 + [ValueError("odd")] * 200)
    limits = Settings(breaker_after=3, read_ahead=1, unknown_for=600)
    topic = topic_with(tmp_path, event("pay the bill", id="1"), event("and the other one", id="2", thread="z"))
    bench = CheapDesk(topic, judge, limits, tmp_path)
    bench.work()
    for _ in range(100):
        bench.pass_time(60)
        if judge.answers and any(isinstance(each, Parked) for each in bench.settled):
            judge.answers.clear()
    assert ["Parked", "Decision"] == [type(each).__name__ for each in bench.settled]


def test_a_hiccup_of_memory_over_blank_events_ends(tmp_path: Path) -> None:
    """Blank events ask memory for nothing, so its recovery has to be found out by the next one that does."""
    limits = Settings(breaker_after=3, read_ahead=5)
    events = [event(" ", id=str(number), thread=f"t{number}") for number in range(5)]
    topic = topic_with(tmp_path, *events, event("pay the bill", id="9", thread="z"))
    bench = CheapDesk(topic, Script(), limits, tmp_path)
    read, faults = bench.desk._record.events, [OSError("hiccup")]

    def flaky(ids: object) -> object:
        if faults:
            raise faults.pop()
        return read(ids)  # type: ignore[arg-type]

    bench.desk._record.events = flaky  # type: ignore[method-assign, assignment]
    bench.work()
    for _ in range(5):
        bench.pass_time(60)
    assert 6 == len(bench.settled)
    assert [] == list(bench.desk.vitals(START).problems())


def test_after_the_pause_somebody_finds_out_although_nobody_is_due(tmp_path: Path) -> None:
    """Delays of ten minutes, a pause of a second: the provider is asked after the pause, and all is decided."""
    limits = Settings(breaker_after=3, breaker_first=1, retry_first=600, retry_longest=600)
    judge = Script(answers=[DOWN] * 3)
    events = [event(f"do {number}", id=str(number), thread=f"t{number}") for number in range(3)]
    bench = CheapDesk(topic_with(tmp_path, *events), judge, limits, tmp_path)
    bench.work()
    assert [] == bench.settled
    bench.pass_time(2)
    assert 3 == len(bench.settled)


@pytest.mark.promise("Q5")
def test_kills_during_an_outage_charge_nobody(tmp_path: Path) -> None:
    """A judge that is down, nothing under way: whatever kills the process then is no suspect's fault."""
    events = [event("pay the bill", id=str(number), thread=f"t{number}") for number in range(12)]
    topic = topic_with(tmp_path, *events)
    Markers(tmp_path / "in_flight.json").enter(arrivals_on(topic))
    for _ in range(4):
        judge = Script(answers=[DOWN] * 100)
        bench = CheapDesk(topic, judge, Settings(), tmp_path)
        bench.work()
        assert [] == bench.settled
    left = Markers(tmp_path / "in_flight.json").suspects
    assert {0} == {suspect.charges for suspect in left}


@pytest.mark.promise("Q5")
def test_suspects_are_judged_one_at_a_time_before_the_others(tmp_path: Path) -> None:
    """Of twelve events three are suspects and sixteen may be judged at once: first one, one, one, then nine."""
    events = [event("pay the bill", id=str(number), thread=f"t{number}") for number in range(12)]
    topic = topic_with(tmp_path, *events)
    Markers(tmp_path / "in_flight.json").enter(arrivals_on(topic)[4:7])
    judge = Slow()
    judge.gate.set()
    with Daemons(16, "judge") as threads:
        bench = CheapDesk(topic, judge, Settings(inflight=16), tmp_path, threads)
        bench.read()
        waves = []
        for _ in range(3_000):
            before = len(bench.settled)
            bench.desk.work()
            waves.append(bench.desk.vitals(START).in_flight)
            bench.settled += bench.desk.collect("owner")
            if len(bench.settled) == 12:
                break
            threading.Event().wait(0.002 if before == len(bench.settled) else 0)
    assert ["4", "5", "6"] == [each.arrival.event.id for each in bench.settled[:3]]
    assert {1} == set(waves[: waves.index(9)])
    assert 0 == len(Markers(tmp_path / "in_flight.json").suspects)


@pytest.mark.promise("Q5")
def test_a_suspect_that_is_charged_up_to_the_cap_is_parked_unjudged(tmp_path: Path) -> None:
    """Alone at three unclean ends: parked with that reason, no judge is asked, and others are decided."""
    topic = topic_with(tmp_path, event("deadly", id="1", thread="d"), event("harmless", id="2", thread="h"))
    deadly = arrivals_on(topic)[0]
    for alone in (False, True, True, True):
        Markers(tmp_path / "in_flight.json").enter([deadly], alone=alone)
    judge = Script()
    bench = CheapDesk(topic, judge, Settings(), tmp_path)
    bench.work()
    (parked,) = [each for each in bench.settled if isinstance(each, Parked)]
    assert ("1", FailureClass.CONTENT, ["judge 2"]) == (parked.event.id, parked.failure, judge.log)
    assert "ended 3 times" in parked.reason


@pytest.mark.promise("Q5")
def test_nothing_of_others_is_begun_while_a_suspect_is_alone(tmp_path: Path) -> None:
    """A crash in the search of another event would be charged to the suspect: none is started ahead."""
    topic = topic_with(tmp_path, event("innocent", id="1", thread="s"), event("another", id="2", thread="x"))
    Markers(tmp_path / "in_flight.json").enter(arrivals_on(topic)[:1])
    bench = CheapDesk(topic, Script(), Settings(), tmp_path)
    ahead: list[list[str]] = []
    bench.desk._looker.ask_ahead = lambda events: ahead.append([each.event.id for each in events])  # type: ignore[method-assign]
    bench.read()
    bench.desk.work()
    assert [[]] == ahead


def test_an_outage_is_not_the_time_of_an_unknown_failure(tmp_path: Path) -> None:
    """Two hours without a judge, then one odd answer: tried again, for the hour of the unknown begins now."""
    judge = Script(answers=[*[DOWN] * 130, ValueError("odd")])
    bench = CheapDesk(topic_with(tmp_path, event("pay the bill", id="1")), judge, Settings(), tmp_path)
    bench.work()
    for _ in range(400):
        bench.pass_time(60)
    assert ["Decision"] == [type(each).__name__ for each in bench.settled]


def test_what_nobody_foresaw_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Tried for an hour, but not in silence: one warning for a reason, however many events and attempts."""
    events = [event(f"do {number}", id=str(number), thread=f"t{number}") for number in range(5)]
    judge = Script(answers=[ValueError("odd")] * 15)
    bench = CheapDesk(topic_with(tmp_path, *events), judge, Settings(), tmp_path)
    bench.work()
    bench.pass_time(60)
    bench.pass_time(60)
    assert ["an event cannot be decided and is tried again for 3600 s: ValueError: odd"] == caplog.messages


def test_a_draft_is_seen_by_its_own_event_alone(tmp_path: Path) -> None:
    """The first segment says done, the second fails: another thread sees the row as it is, which is open."""
    seen: list[str] = []

    def rule(event: Event, view: View) -> Answer:
        (row, *_) = [*view.tasks(), None]
        if event.id == "long" and "the zeppelin is done" in event.text:
            assert row
            return answer(update(row.handle, "the zeppelin is done", state="done"))
        if event.id == "long":
            assert row
            seen.append(f"itself: {row.state}")
            raise DOWN
        if event.id == "other":
            assert row
            seen.append(f"another: {row.state}")
            return answer(nothing())
        return answer(create(event.text))

    with Workplace.opened(tmp_path / "store", Script(rule=rule), Settings(retry_first=600)) as workplace:
        workplace.decided("Please order the purple zeppelin", id="first", thread="a")
        workplace.settle()
        text = "the zeppelin is done, the purple one\n" + "purple zeppelin weather\n" * 700
        assert [] == workplace.take(event(text, id="long", thread="long"))
        workplace.take(event("what about the purple zeppelin?", id="other", thread="n"))
    assert {"itself: done", "another: open"} == set(seen)


def test_a_paced_run_takes_up_what_was_left_one_by_one(tmp_path: Path) -> None:
    """Six equal requests were pending when the run ended: paced, one is a task, and five are the same."""
    settings = load_settings(retry_first=0.01, breaker_after=100)
    lines = [
        type(line)(line.text.replace(f"number {n} of ABC-{n}", "the offer").replace(f'"t{n}"', f'"u{n}"'), "x")
        for n, line in enumerate(lines_of(6, threads=6))
    ]
    down = EmbeddedRun(DataFolder.at(tmp_path, settings), settings, Script())

    def fails(event: Event, view: View) -> Answer:
        if len(script.views) >= 12:
            down.stop()
        raise DOWN

    script = Script(rule=fails)
    down.judge = script
    down.run(lines)
    judge = Script(rule=create_or_match)
    tally = EmbeddedRun(DataFolder.at(tmp_path, settings), settings, judge, paced=True).run()
    assert {"create": 1, "matched": 5} == dict(tally.operations)
    assert 1 == opened(tmp_path).record.count("tasks")


def test_a_watcher_that_fails_leaves_no_flow_behind(tmp_path: Path) -> None:
    """Whoever shows the progress raises: the run ends in order, and the next one has the folder to itself."""
    settings = load_settings()

    class Clumsy:
        def update(self, tally: object) -> None:
            raise RuntimeError("the terminal is gone")

    run = EmbeddedRun(DataFolder.at(tmp_path, settings), settings, Script())
    with pytest.raises(RuntimeError, match="the terminal is gone"):
        run.run(lines_of(40), Clumsy())  # type: ignore[arg-type]
    before = run.tally.decided
    again = EmbeddedRun(DataFolder.at(tmp_path, settings), settings, Script())
    assert run.tally.produced == before + again.run().decided


def test_reads_that_hang_are_waited_for_together(tmp_path: Path) -> None:
    """Twenty searches that hang cost one time-out, not twenty."""
    release = threading.Event()
    limits = Settings(search_timeout=0.3)
    with Workplace.opened(tmp_path / "store", Script(), limits) as workplace:
        workplace.store.memory.text = lambda *_: release.wait(30)  # type: ignore[method-assign, assignment]
        began = monotonic()
        workplace.take(*(event(f"do {number}", id=str(number), thread=f"t{number}") for number in range(20)))
        took = timedelta(seconds=monotonic() - began)
        release.set()
    assert took < timedelta(seconds=20 * 0.3)

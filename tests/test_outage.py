"""A model that is out of reach: nothing is settled, nothing grows, nobody is left in the dark, all is decided."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from datetime import timedelta
from pathlib import Path

import pytest

from connectors.message import Outgoing
from connectors.topic_file import TopicFile
from flows.daemons import Daemons
from flows.judge.contract import Answer
from store.schema import (
    ClassifiedFailure,
    Decision,
    Event,
    FailureClass,
    Rejection,
    Settings,
    View,
)
from tests.cheap import CheapDesk
from tests.workplace import START, Script, Workplace, answer, create, create_or_match, event, nothing

DOWN = ClassifiedFailure(FailureClass.TRANSIENT, "HTTP 429: too many requests")


class Moody:
    """A judge that is down while it is told to be."""

    name = "moody/1"
    remote = False

    def __init__(self) -> None:
        self.down = False
        self.asked = 0

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        self.asked += 1
        if self.down:
            raise DOWN
        return answer(nothing())


def messages(first: int, count: int, threads: int = 97) -> list[Outgoing]:
    """Events of one second, spread over threads."""
    return [
        Outgoing(
            f"default/t{number % threads}",
            json.dumps(
                {
                    "id": str(number),
                    "source": "chat",
                    "thread": f"t{number % threads}",
                    "at": START.isoformat(),
                    "text": f"number {number} of the day, said at some length so that it weighs something",
                }
            ),
        )
        for number in range(first, first + count)
    ]


@pytest.mark.slow
@pytest.mark.promise("L1")
def test_ten_minutes_without_a_model_at_200_events_a_second(tmp_path: Path) -> None:
    """120,000 events arrive while every call fails: a few are pending, few calls are made, health says why; then
    every event is decided once, in the order of its thread.
    """
    rate, minutes = 200, 10
    topic = TopicFile(tmp_path, "lookfirst.events", clock=lambda: START)
    judge = Moody()
    limits = Settings()
    bench = CheapDesk(topic, judge, limits, tmp_path)
    produced, most_bytes, most_pending = 0, 0, 0
    for second in range(minutes * 60 + 60):
        judge.down = 30 <= second < 30 + minutes * 60
        if second < minutes * 60:
            topic.append(messages(produced, rate))
            produced += rate
        bench.pass_time(1)
        vitals = bench.desk.vitals(START)
        most_bytes = max(most_bytes, vitals.pending_bytes)
        most_pending = max(most_pending, vitals.pending + vitals.held)
        if 40 <= second < 30 + minutes * 60:
            assert ["judge"] == [b.provider for b in vitals.breakers if b.state != "closed"], second
            assert any("429" in sentence for sentence in vitals.problems()), second
            assert 0 == bench.desk.room().messages
    bench.pass_time(limits.retry_longest)
    assert [] == list(bench.desk.vitals(START).problems())
    assert produced == len(bench.settled) == len({each.arrival.event.uid for each in bench.settled})
    assert all(isinstance(each, Decision) for each in bench.settled)
    order = defaultdict(list)
    for each in bench.settled:
        order[each.arrival.event.thread].append(each.arrival.coordinates.offset)
    assert all(offsets == sorted(offsets) for offsets in order.values())
    assert most_pending <= 2 * limits.read_ahead
    assert most_bytes <= 2 * limits.read_ahead * 4_096
    failed_calls = judge.asked - produced
    print(f"{most_pending} pending, {most_bytes:,} bytes, {failed_calls} calls that failed")
    assert failed_calls < limits.wave + minutes * 60 / limits.breaker_longest + 20


@pytest.mark.promise("L1")
@pytest.mark.parametrize("down", [DOWN, TimeoutError("no answer"), ConnectionResetError("reset by peer")])
def test_an_event_the_model_could_not_answer_stays_pending(workplace: Workplace, down: Exception) -> None:
    """429, a time-out, a reset are not "nothing": the event waits, and is decided once when the model is back."""
    workplace.judge.answers = [down, down]
    assert [] == workplace.take(event("please send the offer"))
    assert (1, []) == (len(workplace.desk), workplace.emitted)
    workplace.judge.answers = [answer(create("please send the offer"))]
    (decision,) = workplace.wait(60)
    assert isinstance(decision, Decision)
    assert (["create"], 0) == ([o.kind for o in decision.operations], len(workplace.desk))


@pytest.mark.promise("R23")
def test_an_unwell_memory_is_left_alone_and_then_everything_is_decided_once(tmp_path: Path) -> None:
    """While searches fail nothing is settled and memory is asked by one event at a time; then all is decided."""
    limits = Settings(breaker_after=4)
    with Workplace.opened(tmp_path / "store", Script(rule=create_or_match), limits) as workplace:
        workplace.faults |= {"text": OSError("disk gone"), "exact": OSError("disk gone")}
        assert [] == workplace.take(*(event(f"do {n}", id=str(n), thread=f"t{n}") for n in range(20)))
        told = {b.provider: b for b in workplace.desk.vitals(START).breakers}
        assert ("open", "closed") == (told["memory"].state, told["judge"].state)
        assert 0 == workplace.desk.room().messages
        before = len(workplace.calls("memory.text"))
        for _ in range(5):
            assert [] == workplace.wait(30)
        assert len(workplace.calls("memory.text")) - before <= 10
        workplace.faults.clear()
        settled = workplace.wait(30) + workplace.wait(60)
        assert 20 == len(settled) == len({each.arrival.event.uid for each in settled})
        assert all(isinstance(each, Decision) for each in settled)
        assert 0 < workplace.desk.room().messages


class Slow:
    """A remote judge that answers when it is let."""

    name = "slow/1"
    remote = True

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.under_way = 0
        self.most = 0
        self._lock = threading.Lock()

    def wait_for(self, count: int) -> None:
        """Wait until so many calls are under way."""
        for _ in range(3_000):
            if self.under_way >= count:
                return
            threading.Event().wait(0.01)
        raise AssertionError(f"{self.under_way} of {count} calls are under way")

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        with self._lock:
            self.under_way += 1
            self.most = max(self.most, self.under_way)
        self.gate.wait(30)
        with self._lock:
            self.under_way -= 1
        return answer(nothing())


def until(bench: CheapDesk, count: int) -> None:
    """Work until so many events are settled, at most for half a minute."""
    for _ in range(3_000):
        bench.poll()
        if len(bench.settled) >= count:
            return
        threading.Event().wait(0.01)
        bench.now += timedelta(milliseconds=10)
    raise AssertionError(f"only {len(bench.settled)} of {count} were settled")


def test_a_remote_judge_is_asked_side_by_side(tmp_path: Path) -> None:
    """Sixteen may be under way: sixteen are, no more; each thread has one at most, and order is kept."""
    topic = TopicFile(tmp_path, "lookfirst.events")
    topic.append(messages(0, 60, threads=20))
    limits = Settings(inflight=16)
    judge = Slow()
    with Daemons(16, "judge") as threads:
        bench = CheapDesk(topic, judge, limits, tmp_path, threads)
        bench.work()
        assert 16 == bench.desk.vitals(START).in_flight
        judge.wait_for(16)
        judge.gate.set()
        until(bench, 60)
    assert 16 == judge.most
    order = defaultdict(list)
    for each in bench.settled:
        order[each.arrival.event.thread].append(each.arrival.coordinates.offset)
    assert all(offsets == sorted(offsets) for offsets in order.values())


@pytest.mark.promise("R39")
def test_a_judge_that_never_answers_is_not_waited_for(tmp_path: Path) -> None:
    """No answer within the time-out is a transient failure; the event is judged again by another thread."""
    topic = TopicFile(tmp_path, "lookfirst.events")
    topic.append(messages(0, 3))
    judge = Slow()
    limits = Settings(judge_timeout=0.05, retry_first=0.01, breaker_after=100)
    with Daemons(3, "judge") as threads:
        bench = CheapDesk(topic, judge, limits, tmp_path, threads)
        bench.work()
        for _ in range(1_000):
            bench.poll()
            if any("judge" == b.provider and b.failures >= 3 for b in bench.desk.vitals(START).breakers):
                break
            threading.Event().wait(0.01)
        assert [] == bench.settled
        judge.gate.set()
        until(bench, 3)
    assert all(isinstance(each, Decision) for each in bench.settled)


def test_a_stopping_desk_begins_nothing_and_finishes_what_is_under_way(tmp_path: Path) -> None:
    """Four are under way at the stop and are settled; the others stay in the state, in order."""
    topic = TopicFile(tmp_path, "lookfirst.events")
    topic.append(messages(0, 12, threads=12))
    judge = Slow()
    with Daemons(4, "judge") as threads:
        bench = CheapDesk(topic, judge, Settings(inflight=4), tmp_path, threads)
        bench.work()
        bench.desk.stop()
        assert 4 == bench.desk.under_way
        judge.gate.set()
        until(bench, 4)
        bench.work()
    assert (4, 0) == (len(bench.settled), bench.desk.under_way)
    left = [each.arrival.event.id for each in bench.state()]  # type: ignore[union-attr]
    assert [str(n) for n in range(12) if str(n) not in {s.arrival.event.id for s in bench.settled}] == left


def test_a_thread_with_very_many_events_is_bounded_and_in_order(tmp_path: Path) -> None:
    """3,000 events of one thread while the judge fails: 200 whole, the others by place, all decided in order."""
    topic = TopicFile(tmp_path, "lookfirst.events")
    topic.append(messages(0, 3_000, threads=1))
    limits = Settings(breaker_after=10_000)
    judge = Moody()
    judge.down = True
    bench = CheapDesk(topic, judge, limits, tmp_path)
    bench.work()
    vitals = bench.desk.vitals(START)
    assert (200, 2_800) == (vitals.pending, vitals.held)
    judge.down = False
    bench.pass_time(60)
    assert [str(n) for n in range(3_000)] == [each.arrival.event.id for each in bench.settled]


def test_the_bound_of_a_process_leaves_the_rest_on_the_topic(tmp_path: Path) -> None:
    """At the bound nothing more is read and health says so; when events are settled reading goes on."""
    topic = TopicFile(tmp_path, "lookfirst.events")
    topic.append(messages(0, 100))
    limits = Settings(pending=40, breaker_after=10_000)
    judge = Moody()
    judge.down = True
    bench = CheapDesk(topic, judge, limits, tmp_path)
    bench.work()
    vitals = bench.desk.vitals(START)
    assert (40, True, 40) == (vitals.pending, vitals.full, bench.place.offset)
    assert any("40 events are pending" in sentence for sentence in vitals.problems())
    judge.down = False
    bench.pass_time(60)
    assert 100 == len(bench.settled)


def test_large_texts_are_bounded_by_their_bytes(tmp_path: Path) -> None:
    """Texts of a megabyte: a handful is read ahead, not 256 of them."""
    topic = TopicFile(tmp_path, "lookfirst.events")
    text = "x" * 1_000_000
    for number in range(12):
        body = {"id": str(number), "source": "s", "thread": f"t{number}", "at": START.isoformat(), "text": text}
        topic.append([Outgoing(f"default/t{number}", json.dumps(body))])
    judge = Moody()
    judge.down = True
    limits = Settings(pending_megabytes=4, breaker_after=10_000, segments=2)
    bench = CheapDesk(topic, judge, limits, tmp_path)
    bench.work()
    assert 4 <= bench.desk.vitals(START).pending <= 6
    judge.down = False
    for _ in range(20):
        bench.pass_time(60)
    assert 12 == len(bench.settled)

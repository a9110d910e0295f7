"""A judge that waits for somebody else, in a whole run: many under way, none asked twice, awaited at the end."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.judge.contract import Answer
from store.schema import (
    ClassifiedFailure,
    Event,
    FailureClass,
    Rejection,
    Settings,
    View,
    load_settings,
)
from tests.sample import opened
from tests.test_embedded import lines_of
from tests.workplace import answer, nothing

LONG = 30.0
"""Longer than any wait of these tests (s)."""


class Remote:
    """Answers when the gate is open; counts who was asked, and how many are under way."""

    name = "remote/1"
    remote = True

    def __init__(self, *, open: bool = True) -> None:
        self.gate = threading.Event()
        self.asked: Counter[str] = Counter()
        self.most = 0
        self.failing: Counter[str] = Counter()
        """How often the judgment of an event has yet to fail."""
        self._under_way = 0
        self._changed = threading.Condition()
        if open:
            self.gate.set()

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        with self._changed:
            self._under_way += 1
            self.most = max(self.most, self._under_way)
            self.asked[event.id] += 1
            self._changed.notify_all()
        self.gate.wait(LONG)
        with self._changed:
            self._under_way -= 1
            if self.failing[event.id]:
                self.failing[event.id] -= 1
                raise ClassifiedFailure(FailureClass.TRANSIENT, "429")
        return answer(nothing())

    def wait_for(self, count: int) -> None:
        """Wait until so many are under way."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._under_way >= count, LONG)


def run_with(path: Path, judge: Remote, settings: Settings) -> EmbeddedRun:
    """A run that has not begun."""
    return EmbeddedRun(DataFolder.at(path, settings), settings, judge)


def test_the_end_of_the_input_waits_for_every_judgment(tmp_path: Path) -> None:
    """Input ends while sixteen are under way and some have yet to fail: all are decided, each asked as it must."""
    judge = Remote(open=False)
    judge.failing.update({"3": 1, "40": 2})
    run = run_with(tmp_path, judge, load_settings(inflight=16, retry_first=0.05))
    opener = threading.Thread(target=lambda: (judge.wait_for(16), judge.gate.set()))
    opener.start()
    tally = run.run(lines_of(60, threads=30))
    opener.join()
    assert (60, 60, 16) == (tally.decided, tally.applied, judge.most)
    assert {"3": 2, "40": 3} == {event: times for event, times in judge.asked.items() if times > 1}
    assert 60 == opened(tmp_path).record.count("events")


def test_a_stop_waits_for_what_is_under_way_and_nobody_is_asked_twice(tmp_path: Path) -> None:
    """Who is under way at the stop is decided; the rest is the next run's, and each event is asked once."""
    settings = load_settings(inflight=8)
    judge = Remote(open=False)
    run = run_with(tmp_path, judge, settings)

    def stop() -> None:
        judge.wait_for(8)
        run.stop()
        judge.gate.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    first = run.run(lines_of(60, threads=30))
    stopper.join()
    assert 8 <= first.decided < first.produced
    second = run_with(tmp_path, judge, settings).run()
    assert first.produced == first.decided + second.decided
    assert {1} == set(judge.asked.values())


def test_a_stop_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A judgment that does not end in time stays pending; the next run decides it, and nobody is blamed."""
    settings = load_settings(inflight=4, stop_wait=0.3)
    judge = Remote(open=False)
    run = run_with(tmp_path, judge, settings)
    stopper = threading.Thread(target=lambda: (judge.wait_for(4), run.stop()))
    stopper.start()
    first = run.run(lines_of(20, threads=10))
    stopper.join()
    assert 0 == first.decided
    judge.gate.set()
    second = run_with(tmp_path, judge, settings)
    assert first.produced == second.run().decided
    assert 0 == second.vitals().suspects


def test_the_vitals_of_a_run_say_what_is_under_way(tmp_path: Path) -> None:
    """While the judge thinks: what is pending and under way, where the topics end, and that nothing is wrong."""
    judge = Remote(open=False)
    run = run_with(tmp_path, judge, load_settings(inflight=4))
    assert ["What an earlier run left is being taken up."] == list(run.vitals().problems())
    seen = []

    def look() -> None:
        judge.wait_for(4)
        seen.append(run.vitals())
        judge.gate.set()

    looking = threading.Thread(target=look)
    looking.start()
    run.run(lines_of(20, threads=10))
    looking.join()
    (vitals,) = seen
    assert (4, 20, 20) == (vitals.in_flight, vitals.pending, vitals.places["events_end"])
    assert (20, 0, 0) == tuple(vitals.places[name] for name in ("events_read", "applied", "operations_end"))
    assert [] == list(vitals.problems())
    after = run.vitals()
    assert (0, 20, 20, 20) == (after.pending, after.decided, after.places["applied"], after.places["followed"])

"""What a run leaves behind when it is killed: its topics, and the state of its dataflow.

The real desk and the real dataflow over the events of a data folder, with reads that find nothing and a judge
that sees no task, so that hundreds of thousands of threads are gone through in minutes. It ends by a kill, in the
middle.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

from bytewax.testing import run_main

from connectors.lock import exclusive
from connectors.markers import Markers
from connectors.topic_file import utc_now
from connectors.topic_flow import TopicSink, TopicSource
from flows.bench.nothing import EmptyLooker, EmptyRecord, NoOverlay
from flows.calls import Calls
from flows.data_folder import DataFolder
from flows.decide import decide
from flows.desk import Desk
from flows.judge.contract import Answer, ProposedNothing
from flows.tally import Tally
from flows.taps import EventsTap, Signals
from store.schema import (
    Arrival,
    Coordinates,
    Event,
    Rejection,
    Settings,
    View,
    load_settings,
)


def decide_until_killed(folder: DataFolder, settings: Settings, judgments: int) -> None:
    """Decide the events of the folder's topic; the process is killed with the judgment of that number."""
    events = folder.topic("events")
    tally, signals = Tally(), Signals.fresh()
    with exclusive(folder.recovery):
        markers = Markers(folder.recovery / "in_flight.json")
        judge = _Judge(judgments)
        calls = Calls(judge, settings.judge_timeout)
        desk = Desk(
            EmptyRecord(),
            EmptyLooker(settings),
            NoOverlay(),
            calls,
            judge.name,
            settings,
            utc_now,
            markers,
            _nothing_held,
        )
        flow = decide(
            TopicSource(events, EventsTap(desk, signals, settings.stop_wait), settings.source_batch),
            desk,
            TopicSink(folder.topic("operations")),
            TopicSink(folder.topic("dead-letters")),
            tally,
            settings.buckets,
        )
        epoch = timedelta(seconds=settings.epoch)
        run_main(flow, epoch_interval=epoch, recovery_config=folder.recovery_config("decide"))


class _Judge:
    """Sees no task in anything, and has the process killed in the end."""

    name = "bench/1"
    remote = False

    def __init__(self, judgments: int) -> None:
        self._left = judgments

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return Answer(proposals=(ProposedNothing(reason="made for a bench"),))


def _nothing_held(places: Sequence[Coordinates]) -> list[Arrival]:
    raise AssertionError(f"{len(places)} events are held, though no event waits here")


if __name__ == "__main__":
    effective = load_settings()
    decide_until_killed(DataFolder.at(Path(sys.argv[1]), effective), effective, int(sys.argv[2]))

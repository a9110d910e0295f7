"""Kills, stops and other numbers of processes on Kafka: nothing is lost, doubled or blamed on the wrong event."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from connectors.dev_broker import DevBroker
from connectors.kafka_flow import KafkaPlace, KafkaSource, Reading
from connectors.topic_flow import Room
from flows.apply_run import ApplyRun
from flows.data_folder import DataFolder
from store.schema import parse_event
from store.schema.failpoint import FAILPOINTS
from tests.broker import kafka_jars
from tests.judges import POISON, WITNESS
from tests.kafka_process import (
    FAULT,
    Site,
    armed,
    checked,
    children,
    drained,
    is_gone,
    wait_until,
)
from tests.kafka_soak import EVERYTHING, KILLS_ALONE, KafkaSoak
from tests.process import KILLED, ended, start
from tests.sample import sample_lines
from tests.test_crash import made

EVENTS = 40
KILLS = 6
SMALL = {"LOOKFIRST_EPOCH": "0.05", "LOOKFIRST_SOURCE_BATCH": "4", "LOOKFIRST_WAVE": "2"}
"""Many small commits, so that there is a middle to do something in."""
QUICK = {"LOOKFIRST_EPOCH": "0.1"}
EVENT_ONLY = {"LOOKFIRST_JUDGE": "tests.judges:event_only"}
SOON = 2.0
"""Time in which a process that is not wanted has to say so, once it has come up (s)."""

IN_APPLY = (*(name for name in FAILPOINTS if name.startswith("commit.")), "snapshot.before")
IN_DECIDE = tuple(name for name in FAILPOINTS if not name.startswith("commit."))

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def site(tmp_path: Path, brokers: str) -> Iterator[Site]:
    """A data folder and topics of its own."""
    with Site.at(tmp_path / "data", brokers) as made_here:
        yield made_here


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, brokers: str) -> Iterator[Site]:
    """A data folder over the first events of the sample that nobody killed; its topics stay as they are."""
    with Site.at(tmp_path_factory.mktemp("whole") / "data", brokers) as made_here:
        made_here.produce(sample(EVENTS))
        made_here.finish(**EVENT_ONLY, **SMALL)
        yield made_here


def sample(count: int) -> list[str]:
    """The first lines of the sample."""
    return [line.text for line in sample_lines()[:count]]


def complete(site: Site) -> None:
    """Apply what is on the topic, in this process."""
    operations = site.topic("operations")
    settings = operations.brokers.settings.model_copy(update={"topic_prefix": site.prefix})
    ApplyRun(DataFolder.at(site.path, settings), settings, operations.brokers, print, until_end=True).run()


def marks_of(site: Site) -> list[Path]:
    """The files in which the processes say what they judge."""
    return sorted((site.path / "recovery" / "marks").glob("decide-*.json"))


def soak(path: Path, brokers: str, **named: Any) -> list[str]:
    """A short soak with a seed that is printed; returns what is wrong."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    soaking = KafkaSoak(path, chance=random.Random(seed), console=Console(), brokers=brokers, **named)
    return soaking.run()


@pytest.mark.promise("T1", "T4", "R52", "Q2")
def test_killed_processes_end_in_the_same_record(tmp_path: Path, brokers: str) -> None:
    """Kills at random, of apply and of sets of up to three: nothing lost, doubled or parked, rows as ever."""
    lines = [*sample(70), "not an event", "[]"]
    assert [] == soak(tmp_path, brokers, lines=lines, kills=KILLS, weights=KILLS_ALONE, share=2)


@pytest.mark.promise("T15")
def test_whatever_is_done_to_them_the_record_is_what_the_topic_says(tmp_path: Path) -> None:
    """Kills, stops, rescaling, upkeep, edits, and a broker that is stopped and killed, in an order of chance."""
    with DevBroker(tmp_path / "kafka", jars=kafka_jars()) as broker:
        named = {"lines": sample(70), "kills": 3, "weights": EVERYTHING, "share": 9}
        assert [] == soak(tmp_path, broker.brokers, broker=broker, **named)


@pytest.mark.promise("T2", "R52", "Q2")
@pytest.mark.parametrize("place", IN_APPLY)
def test_apply_killed_there_and_run_again(tmp_path: Path, whole: Site, place: str) -> None:
    """Apply dies there on its way through the topic; the next one completes the rows of one that nobody killed."""
    with whole.beside(tmp_path / "data") as site:
        process = site.apply("--until-end", **SMALL, **armed(place))
        process.ended(60)
        assert KILLED == process.code, process.said
        complete(site)
        assert [] == checked(site, whole.rows())[1]


@pytest.mark.promise("T2", "R52", "Q2")
@pytest.mark.parametrize(("place", "count"), [*((name, 2) for name in IN_DECIDE), ("append.after", 1)])
def test_decide_killed_there_and_run_again(site: Site, whole: Site, place: str, count: int) -> None:
    """A process of a set dies there, the others end by themselves, and the next set decides the rest."""
    site.produce(sample(EVENTS))
    apply = site.apply(**SMALL)
    processes = site.decide(count, **EVENT_ONLY, **SMALL, **armed(place))
    for process in processes:
        process.fell(60)
    assert KILLED in [process.code for process in processes]
    for process in site.decide(count, "--until-end", **EVENT_ONLY, **QUICK):
        process.counts()
    drained([apply])
    assert [] == checked(site, whole.rows())[1]


@pytest.mark.promise("T5")
@pytest.mark.parametrize("count", [1, 2])
def test_stopped_in_order_nothing_is_read_twice(site: Site, count: int) -> None:
    """SIGTERM in the middle: exit code 0 in time, and what both runs have read is what was produced, once."""
    site.produce(made(200))
    apply = site.apply(**QUICK)
    processes = site.decide(count, **SMALL)
    assert wait_until(lambda: site.written() >= 30, [apply, *processes])
    began = time.monotonic()
    first = drained(processes)
    assert time.monotonic() - began < 10
    assert site.written() < 200, "it was done before it was stopped"
    second = [process.counts() for process in site.decide(count, "--until-end", **QUICK)]
    assert 200 == sum(counts["read"] for counts in (*first, *second))
    left = sum(counts["read"] for counts in first) - sum(counts["decided"] for counts in first)
    assert left == sum(counts["decided"] - counts["read"] for counts in second)
    assert 0 == sum(counts["already_decided"] for counts in (*first, *second))
    assert 200 == sum(counts["decided"] for counts in (*first, *second))
    # Apply takes what was written up to its stop, too.
    drained([apply])
    audit, faults = checked(site)
    assert ([], 0) == (faults, audit.repeated)


@pytest.mark.promise("T5")
def test_what_waits_is_decided_though_its_process_reads_nothing(site: Site) -> None:
    """Stopped, and gone on by more processes than there is anything to read for: all that waited is decided."""
    site.produce(made(120, threads=24))
    apply = site.apply(**QUICK)
    judge = {"LOOKFIRST_JUDGE": "tests.judges:poison"}
    (process,) = site.decide(1, **QUICK, **judge)
    assert wait_until(lambda: site.written() >= 1, [apply, process])
    (first,) = drained([process])
    assert first["unfinished"]
    second = [each.counts() for each in site.decide(3, "--until-end", **QUICK, **judge)]
    assert [0, 0, 0] == [each["unfinished"] for each in second]
    assert 120 == first["decided"] + sum(each["decided"] for each in second)
    drained([apply])
    assert [] == checked(site)[1]


@pytest.mark.promise("T6", "T4")
def test_other_numbers_of_processes_on_the_way_change_nothing(site: Site, whole: Site) -> None:
    """One, three, two and one process, in the middle of the stream: the rows are those of an uninterrupted run."""
    lines = sample(EVENTS)
    apply = site.apply(**QUICK)
    for count in (1, 3, 2):
        site.produce(lines[:10])
        del lines[:10]
        had = site.written()
        processes = site.decide(count, **EVENT_ONLY, **SMALL)
        assert wait_until(lambda had=had: site.written() > had, [apply, *processes])
        drained(processes)
    site.produce(lines)
    (last,) = site.decide(1, "--until-end", **EVENT_ONLY, **QUICK)
    last.counts()
    drained([apply])
    audit, faults = checked(site, whole.rows())
    assert ([], 0) == (faults, audit.repeated)


@pytest.mark.promise("T7")
def test_the_topics_read_again_give_the_same_tables(tmp_path: Path, whole: Site) -> None:
    """Into an empty store, and with the events read again beside the operations: equal tables, nobody is asked."""
    witness = tmp_path / "asked"
    expected = whole.rows()
    written = whole.written()
    with whole.beside(tmp_path / "again") as again:
        apply = again.apply(**QUICK)
        judge = {"LOOKFIRST_JUDGE": "tests.judges:witnessed", WITNESS: str(witness)}
        counts = [process.counts() for process in again.decide(2, "--until-end", **judge, **QUICK)]
        drained([apply])
        assert [EVENTS, 0] == [sum(each[name] for each in counts) for name in ("already_decided", "decided")]
        assert (False, written) == (witness.exists(), again.written())
        assert expected == again.rows()


@pytest.mark.promise("T7")
def test_a_store_that_is_gone_is_filled_from_the_first_operation(tmp_path: Path, whole: Site) -> None:
    """The store is deleted and the state of apply is not: it begins where the store does, at nothing."""
    with whole.beside(tmp_path / "data") as site:
        complete(site)
        for file in sorted((site.path / "store").rglob("*"), reverse=True):
            file.rmdir() if file.is_dir() else file.unlink()
        (site.path / "store").rmdir()
        complete(site)
        assert whole.rows() == site.rows()


@pytest.mark.promise("T11")
def test_a_second_one_over_a_folder_is_refused(site: Site) -> None:
    """A second apply, a second decide of a number, and an embedded run end at once with 1 and a sentence."""
    first = [site.apply(**QUICK), *site.decide(1, **QUICK)]
    assert wait_until(lambda: site.holds("apply") and site.holds("decide-0"), first)
    began = time.monotonic()
    assert site.run("help", "run", "decide", "--help").ended()
    coming_up = time.monotonic() - began
    for second in ("apply", "decide"):
        began = time.monotonic()
        process = site.run(second, "run", second, "--json")
        process.ended(30)
        assert (FAULT, True) == (process.code, "Another run is using" in process.said), process.said
        assert time.monotonic() - began < coming_up + SOON
    embedded = start(site.path, LOOKFIRST_TOPIC_PREFIX=site.prefix)
    _, said = ended(embedded, 30)
    assert (FAULT, True) == (embedded.returncode, "Another run is using" in said), said
    drained(first)


@pytest.mark.promise("Q5")
def test_an_event_that_kills_a_process_of_a_set_is_found(site: Site) -> None:
    """One of many under way in a set of two, both busy: it alone is parked, within its cap."""
    cap = 2
    deadly = made(41, "take number {0}, the DEADLY one")[40]
    lines = [*made(40), deadly, *made(120)[41:]]
    site.produce(lines)
    apply = site.apply(**QUICK)
    variables = {"LOOKFIRST_JUDGE": "tests.judges:poison", "LOOKFIRST_RETRY_CAP": str(cap), POISON: "DEADLY"}
    # Few at once and long waves: while one has to be alone the other process has always something under way.
    variables |= {"LOOKFIRST_INFLIGHT": "4", **QUICK}
    deaths = 0
    left: list[list[str]] = []
    while True:
        processes = site.decide(2, "--until-end", **variables)
        for process in processes:
            process.ended(120)
        codes = {process.code for process in processes}
        if codes == {0}:
            break
        assert codes in ({KILLED, FAULT}, {KILLED}), [process.said for process in processes]
        deaths += 1
        left.append([file.read_text(encoding="utf-8") for file in marks_of(site)])
        assert deaths <= 1 + cap, f"it is not found: {left}"
    drained([apply])
    audit, faults = checked(site)
    assert ((parse_event(deadly).uid,), 119) == (audit.parked, audit.decided)
    assert ((), (), (), 1) == (audit.lost, audit.duplicated, audit.differences, len(faults))
    # The first death, beside others, is charged to nobody.
    assert 1 + cap == deaths


@pytest.mark.promise("Q5")
def test_random_kills_of_a_set_park_nobody(site: Site) -> None:
    """A cap of one crash, many judgments under way in two processes, one of them killed again and again."""
    site.produce(made(400))
    variables = {"LOOKFIRST_JUDGE": "tests.judges:poison", "LOOKFIRST_RETRY_CAP": "1", "LOOKFIRST_INFLIGHT": "4"}
    apply = site.apply(**QUICK)
    for kills in range(3):
        had = site.written()
        processes = site.decide(2, **variables, **QUICK)
        # Not while one is judged alone: it would rightly be charged.
        assert wait_until(lambda had=had: site.written() > had and not site.suspects(), [apply, *processes])
        assert site.written() < 400, f"done after {kills} kills"
        processes[kills % 2].kill()
        processes[1 - kills % 2].fell()
    for process in site.decide(2, "--until-end", **variables, **QUICK):
        process.counts()
    drained([apply])
    assert [] == checked(site)[1]


def up(site: Site, processes: int, **settings: str) -> Any:
    """`lookfirst up`."""
    return site.run("up", "up", "--processes", str(processes), **QUICK, **EVENT_ONLY, **settings)


@pytest.mark.promise("R52")
def test_the_whole_set_comes_again_when_one_of_it_dies(site: Site) -> None:
    """One process is killed: all others end and all are started anew, and the rest is decided; Ctrl-C ends all."""
    supervisor = up(site, 2, LOOKFIRST_RESTART_FIRST="0.1")
    site.produce(made(30))
    assert wait_until(lambda: site.written() >= 30, [supervisor])
    first = children(supervisor.popen.pid)
    assert {"apply", "decide 0", "decide 1"} == set(first)
    os.kill(first["decide 1"], signal.SIGKILL)
    assert wait_until(lambda: all(map(is_gone, first.values())), [supervisor], 60)
    site.produce(made(60)[30:])
    assert wait_until(lambda: site.written() >= 60, [supervisor])
    second = children(supervisor.popen.pid)
    assert set(first) == set(second)
    assert set() == set(first.values()) & set(second.values())
    assert "decide 1 was killed by signal 9; the whole set is started again" in supervisor.said
    # To it alone: it tells the others.
    supervisor.popen.send_signal(signal.SIGINT)
    supervisor.ended(60)
    assert 0 == supervisor.code, supervisor.said
    assert "Traceback" not in supervisor.said
    assert all(map(is_gone, second.values()))
    assert [] == checked(site)[1]


@pytest.mark.promise("R52")
def test_a_set_whose_supervisor_is_killed_ends_in_order(site: Site) -> None:
    """`up` gets SIGKILL: what it has started ends by itself, nobody is blamed, and the rest is decided later."""
    supervisor = up(site, 2, LOOKFIRST_WAVE="2", LOOKFIRST_SOURCE_BATCH="2")
    site.produce(made(200))
    assert wait_until(lambda: site.written() >= 20, [supervisor])
    started = children(supervisor.popen.pid)
    supervisor.kill()
    deadline = time.monotonic() + 60
    while not all(map(is_gone, started.values())):
        assert time.monotonic() < deadline, "they run on"
        time.sleep(0.05)
    assert [True, True] == [json.loads(file.read_bytes())["ended"] for file in marks_of(site)]
    counts = site.finish(2, **EVENT_ONLY, **QUICK)
    assert 0 == sum(each["already_decided"] for each in counts[:-1])
    audit, faults = checked(site)
    assert ([], 0) == (faults, audit.repeated)


def test_ctrl_c_to_a_set_that_is_coming_up(site: Site) -> None:
    """SIGINT at any moment of the start: exit code 0 within a few seconds, and nobody is left."""
    supervisor = up(site, 2)
    assert wait_until(lambda: site.holds("decide-0") or site.holds("decide-1"), [supervisor])
    started = children(supervisor.popen.pid)
    supervisor.popen.send_signal(signal.SIGINT)
    supervisor.ended(30)
    assert 0 == supervisor.code, supervisor.said
    assert all(map(is_gone, started.values()))


def test_a_set_that_cannot_be_meant_is_not_started_again(site: Site) -> None:
    """A wrong setting ends a process with 2: `up` says so and ends with 1."""
    supervisor = site.run("up", "up", LOOKFIRST_JUDGE="tests.judges:nobody")
    supervisor.ended(60)
    assert FAULT == supervisor.code, supervisor.said
    assert "cannot run, as it says above" in supervisor.said
    assert "started again" not in supervisor.said


@dataclass
class Follower:
    """A tap with room for everything that ends when all is read, and whoever is told how far a source is."""

    joined: threading.Event = field(default_factory=threading.Event)
    at: int = 0

    def room(self) -> Room:
        return Room(1 << 20)

    def ended(self, *, drained: bool) -> bool:
        return drained

    def begins(self, partition: int, offset: int) -> None:
        self.at = offset

    def read(self, partition: int, count: int, offset: int) -> None:
        self.at = offset

    def recorded(self, partition: int, offset: int) -> None:
        self.at = offset


def read_all(source: KafkaSource, resumed: KafkaPlace | None = None) -> tuple[list[int], KafkaPlace]:
    """Offsets of what a source hands over until it ends, and the place it then records."""
    part = source.build_part("flow.events", "0", resumed)
    found: list[int] = []
    deadline = time.monotonic() + 60
    try:
        with suppress(StopIteration):
            while time.monotonic() < deadline:
                found += [incoming.offset for incoming in part.next_batch()]
        return found, part.snapshot()
    finally:
        part.close()


@pytest.mark.promise("T5")
def test_what_comes_behind_the_end_is_left_for_the_next_run(tmp_path: Path, brokers: str) -> None:
    """A source with an end reads up to it, though more lies there by then, and the next one goes on from there."""
    with Site.at(tmp_path / "data", brokers, partitions=1) as site:
        site.produce(made(10))
        topic, follower = site.topic("events"), Follower()
        first, place = read_all(KafkaSource(Reading(topic, 256, until={0: 6}), follower, follower))
        assert (list(range(6)), 6) == (first, place.offset)
        second, place = read_all(KafkaSource(Reading(topic, 256), follower, follower), place)
        assert (list(range(6, 10)), 10) == (second, place.offset)


def test_a_source_that_is_to_begin_at_nothing_does(tmp_path: Path, brokers: str) -> None:
    """Of the place in the state and the one that is needed the smaller counts, also when that is 0."""
    with Site.at(tmp_path / "data", brokers, partitions=1) as site:
        site.produce(made(5))
        topic, follower = site.topic("events"), Follower()
        source = KafkaSource(Reading(topic, 256, start={0: 0}), follower, follower)
        assert (list(range(5)), 5) == (read_all(source, KafkaPlace(topic.id, 3))[0], follower.at)

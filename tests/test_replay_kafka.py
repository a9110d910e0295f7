"""Bringing back over topics on brokers: several partitions, keys or none, and live traffic beside it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest
from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from connectors.kafka_backfill import Backfill
from connectors.kafka_client import Brokers
from connectors.kafka_topic import KafkaTopic
from connectors.message import Incoming, Outgoing
from flows.apply_run import ApplyRun
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.decide_run import DecideRun
from flows.parse import outgoing_letter
from flows.replay import Replay
from flows.span import Wanted
from flows.tally import Tally
from flows.topics import topics_of
from flows.travel import travelling
from store.schema import Coordinates, DeadLetter, FailureClass, Settings, TopicError
from tests.broker import fresh_prefix, make_topics
from tests.conftest import REPOSITORY
from tests.sample import opened
from tests.test_replay import Captured, unwell
from tests.workplace import Script, create_or_match, event

pytestmark = pytest.mark.broker


@dataclass(frozen=True)
class Place:
    """A data folder with topics on brokers that nobody else has."""

    path: Path
    brokers: str
    prefix: str
    settings: Settings

    @property
    def folder(self) -> DataFolder:
        """The folder as a command opens it."""
        return DataFolder.at(self.path, self.settings)

    def at(self) -> Brokers:
        """The brokers."""
        return Brokers.at(self.brokers, self.settings)

    @contextmanager
    def topic(self, name: str) -> Iterator[KafkaTopic]:
        """One of the topics, open for a while."""
        with closing(KafkaTopic(self.at(), f"{self.prefix}.{name}")) as topic:
            yield topic

    def produce(self, *messages: Outgoing, to: str = "events") -> None:
        """Append messages."""
        with self.topic(to) as topic:
            topic.append(messages)

    def all_of(self, name: str) -> list[Incoming]:
        """Every message of a topic, those of a partition in their order."""
        with self.topic(name) as topic:
            return [incoming for chunk in topic.walk() for incoming in chunk]

    def apply(self) -> Tally:
        """Apply all operations there are, and make the store if need be."""
        return ApplyRun(self.folder, self.settings, self.at(), quiet, until_end=True).run()

    def decide(self, *, well: bool = True) -> Tally:
        """Decide all events there are, with a judge that is well or not, and apply what comes of it."""
        judge = Script(rule=create_or_match if well else unwell)
        tally = DecideRun(self.folder, self.settings, self.at(), quiet, until_end=True, judge=judge).run()
        self.apply()
        return tally

    def replayed(self, way: str = "letters", *, dry_run: bool = False, **wanted: Any) -> dict[str, int]:
        """The counts of a replay that are not 0."""
        with topics_of(self.folder, self.settings, self.brokers) as topics:
            replay = Replay.over(self.folder, opened(self.path), Wanted(**wanted), lambda *_: None, topics)
            replay.dry_run = dry_run
            fates = replay.from_letters() if way == "letters" else replay.from_events()
        return {str(fate): count for fate, count in fates.items() if count}

    def commit(self, offsets: dict[int, int]) -> None:
        """Commit as `decide` does, how far it is."""
        places = {
            TopicPartition(f"{self.prefix}.events", partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        with KafkaAdminClient(bootstrap_servers=self.brokers) as admin:
            admin.alter_group_offsets(f"{self.prefix}.decide", places)


def quiet(sentence: str) -> None:
    """Nobody listens."""


@pytest.fixture
def place(tmp_path: Path, brokers: str, monkeypatch: pytest.MonkeyPatch) -> Place:
    """A folder with a store, and topics of three partitions for events."""
    prefix = fresh_prefix()
    monkeypatch.setenv("LOOKFIRST_TOPIC_PREFIX", prefix)
    make_topics(brokers, prefix)
    made = Place(tmp_path, brokers, prefix, Settings(topic_prefix=prefix, epoch=0.05))
    made.folder.store(create=True)
    return made


def said(number: int, text: str = "order a printer", *, keyed: bool = True) -> Outgoing:
    """One event of a thread of its own."""
    made = event(f"{text} {number}", id=str(number), thread=f"thread {number}")
    return Outgoing(
        made.key if keyed else None, made.model_dump_json(exclude_defaults=True), {"origin": f"in:{number}"}
    )


def letter(raw: str, at: Coordinates, **fields: Any) -> DeadLetter:
    """A dead letter of a message of the events topic."""
    return DeadLetter(reason="said so", failure=FailureClass.CONTENT, coordinates=at, raw=raw, **fields)


def ids(messages: Iterable[Incoming]) -> list[str]:
    """Ids of the events in messages, in order."""
    return sorted(json.loads(incoming.value)["id"] for incoming in messages)


def brought_back(messages: Iterable[Incoming]) -> list[Incoming]:
    """Those that were brought back."""
    return [incoming for incoming in messages if "replayed" in incoming.headers]


def soon(condition: Callable[[], bool]) -> None:
    """Wait for what must come."""
    deadline = monotonic() + 60
    while not condition():
        assert monotonic() < deadline
        sleep(0.02)


@pytest.mark.parametrize("way", ["letters", "events"])
def test_parked_events_of_three_partitions_are_brought_back_once(place: Place, way: str, capsys: Captured) -> None:
    """Each once, in the partition of its thread; while they wait nothing more is, and then they are decided."""
    place.produce(*(said(number) for number in range(12)))
    assert 12 == place.decide(well=False).parked
    what = "dead-letters" if way == "letters" else "events"
    command = ["replay", what, "--json", "--brokers", place.brokers, "--data", str(place.path)]
    for more, expected in (["--dry-run"], (12, 0)), ([], (12, 0)), ([], (0, 12)):
        assert 0 == main([*command, *more])
        counts = json.loads(capsys.readouterr().out)
        assert expected[0] == counts["brought_back"]
        assert {"letters": expected[1], "events": 2 * expected[1]}[way] == counts["waiting"]
    before = {each.value: each for each in place.all_of("events") if "replayed" not in each.headers}
    again = brought_back(place.all_of("events"))
    assert sorted(before) == sorted(each.value if way == "events" else _as_sent(each, before) for each in again)
    assert {0, 1, 2} == {each.partition for each in again}
    for each in again:
        first = before[_as_sent(each, before)]
        assert (first.partition, first.key, first.headers["origin"]) == (
            each.partition,
            each.key,
            each.headers["origin"],
        )
    assert 12 == place.decide().decided
    assert {"decided": 12} == place.replayed("letters")
    assert {"decided": 24} == place.replayed("events")
    assert 12 == opened(place.path).record.count("events", "outcome <> 'parked'")


def _as_sent(again: Incoming, before: dict[str, Incoming]) -> str:
    """The value that the event of a message was sent with at first."""
    named = json.loads(again.value)["id"]
    return next(value for value in before if json.loads(value)["id"] == named)


@pytest.mark.parametrize("way", ["letters", "events"])
def test_unkeyed_events_are_brought_back_once_for_each_time(place: Place, way: str) -> None:
    """They move to the partition of their thread; there they wait, are parked again, and come back once more."""
    place.produce(*(said(number, keyed=False) for number in range(8)))
    assert 8 == place.decide(well=False).parked
    assert {"brought back": 8} == place.replayed(way)
    again = brought_back(place.all_of("events"))
    assert {f"default/thread {number}" for number in range(8)} == {each.key for each in again}
    first = {json.loads(each.value)["id"]: each for each in place.all_of("events") if each not in again}
    assert any(each.partition != first[json.loads(each.value)["id"]].partition for each in again)
    assert {"waiting": 8} == place.replayed("letters")
    assert {"waiting": 16} == place.replayed("events")
    with place.topic("events") as topic:
        for partition in topic.ends():
            # Those that moved wait in a partition that is not asked for.
            assert 0 == place.replayed("events", offsets={partition: 0}).get("brought back", 0)
    assert 8 == place.decide(well=False).parked
    assert {"brought back": 8, "repeated": 8} == place.replayed(way)
    assert 8 == place.decide().decided
    assert {"decided": 16} == place.replayed("letters")


def test_what_cannot_be_read_stays_unreadable(place: Place) -> None:
    """A tombstone and what is not UTF-8 are letters still, and a batch that was damaged is no event again."""
    with place.topic("events") as topic:
        producer = place.at().producer()
        for value in (None, b"\xff\xfe"):
            producer.send(topic.name, key=b"default/t", value=value).get(30)
        producer.close()
    tally = place.decide()
    assert (0, 2) == (tally.decided, tally.unreadable_events)
    whole = event("order a printer", id="damaged").model_dump_json()
    damaged = letter(whole, Coordinates(topic=f"{place.prefix}.events", partition=0, offset=0))
    reason = "its batch fails the checksum: it was damaged where it is kept"
    place.produce(outgoing_letter(damaged.model_copy(update={"reason": reason})), to="dead-letters")
    assert {"still unreadable": 3} == place.replayed()
    assert {"still unreadable": 2} == place.replayed("events")


def test_a_cut_letter_comes_back_whole(place: Place) -> None:
    """From where it stands, in whatever partition; one whose message is gone by retention says so."""
    long = [event("order a printer " * 3_000, id=str(number), thread=f"t{number}") for number in range(6)]
    raws = [each.model_dump_json() for each in long]
    place.produce(*(Outgoing(each.key, raw, {"origin": "feed"}) for each, raw in zip(long, raws, strict=True)))
    cut = []
    for incoming in place.all_of("events"):
        at = Coordinates(topic=incoming.topic, partition=incoming.partition, offset=incoming.offset)
        cut.append(outgoing_letter(travelling(letter(incoming.value, at), 1_000, 30_000)))
    assert all(json.loads(each.value)["cut"] for each in cut)
    place.produce(*cut, to="dead-letters")
    with place.topic("events") as topic, KafkaAdminClient(bootstrap_servers=place.brokers) as admin:
        emptied = max(topic.ends(), key=lambda each: topic.ends()[each])
        lost = topic.ends()[emptied]
        admin.delete_records({TopicPartition(topic.name, emptied): lost})
        soon(lambda: topic.starts()[emptied] == lost)
    expected = {"brought back": 6 - lost, "no longer kept": lost}
    assert expected == place.replayed(dry_run=True)
    assert expected == place.replayed()
    again = brought_back(place.all_of("events"))
    assert 6 - lost == len(again)
    assert {each.value for each in again} < set(raws)


def test_parked_events_that_retention_has_removed_are_told(place: Place) -> None:
    """They come back from their letters and not from the topic; asked for by offset, their places count."""
    place.produce(*(said(number) for number in range(6)))
    place.decide(well=False)
    with place.topic("events") as topic, KafkaAdminClient(bootstrap_servers=place.brokers) as admin:
        ends = topic.ends()
        admin.delete_records({TopicPartition(topic.name, each): end for each, end in ends.items()})
        soon(lambda: topic.starts() == ends)
    assert {"no longer kept": 6} == place.replayed("events")
    assert {"no longer kept": ends[1]} == place.replayed("events", offsets={1: 0})
    assert {"brought back": 6} == place.replayed()
    assert {"waiting": 6} == place.replayed()


@pytest.mark.parametrize("way", ["letters", "events"])
def test_since_does_not_read_what_is_older(place: Place, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what arrived at a time or later is read and brought back; the rest is counted as not asked for."""
    place.produce(*(said(number) for number in range(6)))
    place.decide(well=False)
    parted = max(each.arrived for name in ("events", "dead-letters") for each in place.all_of(name))
    soon(lambda: datetime.now(UTC) > parted + timedelta(milliseconds=5))
    place.produce(*(said(number) for number in range(6, 10)))
    place.decide(well=False)
    name = "dead-letters" if way == "letters" else "events"
    walked: list[dict[int, int]] = []
    walk = KafkaTopic.walk

    def watched(topic: KafkaTopic, *places: Any) -> Iterator[list[Incoming]]:
        if topic.name.endswith(name):
            walked.append(dict(places[0]) if places else {})
        return walk(topic, *places)

    with place.topic(name) as topic:
        places = topic.since(parted + timedelta(milliseconds=1))
        begins, ends = topic.starts(), topic.ends()
    monkeypatch.setattr(KafkaTopic, "walk", watched)
    since = parted + timedelta(milliseconds=1)
    assert {"brought back": 4, "not asked for": 6} == place.replayed(way, since=since)
    assert places == walked[0]
    assert 6 == sum(places.values()) - sum(begins.values())
    assert {"not asked for": 10} == place.replayed("letters", since=datetime(9000, 1, 1, tzinfo=UTC))
    assert sum(ends.values()) == 10
    assert ["6", "7", "8", "9"] == ids(brought_back(place.all_of("events")))


def test_offsets_name_partitions(place: Place) -> None:
    """From an offset on in the partitions that are named, and nothing of the others."""
    place.produce(*(said(number) for number in range(12)))
    place.decide(well=False)
    with place.topic("events") as topic:
        ends = topic.ends()
    left_out = 12 - ends[0] - (ends[2] - 1)
    expected = {"brought back": 12 - left_out, "not asked for": left_out}
    assert expected == place.replayed("events", offsets={0: 0, 2: 1})
    places = {(each.partition, each.offset) for each in place.all_of("events") if "replayed" not in each.headers}
    again = {each.headers["replayed"].rpartition("events:")[2] for each in brought_back(place.all_of("events"))}
    assert {f"{p}:{o}" for p, o in places if p == 0 or (p == 2 and o >= 1)} == again


def test_operations_are_applied_again_from_brokers(place: Place, capsys: Captured) -> None:
    """A store is right again from the topic of operations, and nothing is done beside a run."""
    place.produce(*(said(number) for number in range(4)))
    place.decide()
    before = opened(place.path).record.arrow("tasks")
    opened(place.path).tables["tasks"].delete("true")
    command = ["replay", "operations", "--json", "--brokers", place.brokers, "--data", str(place.path)]
    assert 0 == main(command)
    counts = json.loads(capsys.readouterr().out)
    assert (4, before.num_rows) == (counts["repeated"], counts["tables"]["tasks"]["added"])
    assert before.equals(opened(place.path).record.arrow("tasks"))
    assert 0 == main(command)
    assert {"added": 0, "changed": 0, "removed": 0} == json.loads(capsys.readouterr().out)["tables"]["tasks"]


def backfill(place: Place, limit: int) -> Backfill:
    """A backfill beside the `decide` of a place."""
    return Backfill(place.at(), f"{place.prefix}.events", f"{place.prefix}.decide", limit)


def test_what_decide_has_not_read_is_counted(place: Place) -> None:
    """From what is committed to the end; without that, or with a place that cannot be, from what is kept."""
    place.produce(*(said(number) for number in range(20)))
    with place.topic("events") as topic, closing(backfill(place, 5)) as waiting:
        ends = topic.ends()
        assert 20 == waiting.undecided()
        place.commit({0: 1})
        assert 19 == waiting.undecided()
        place.commit(ends)
        assert 0 == waiting.undecided()
        place.commit({1: ends[1] + 1_000})
        assert ends[1] == waiting.undecided()
        with KafkaAdminClient(bootstrap_servers=place.brokers) as admin:
            admin.delete_records({TopicPartition(topic.name, 1): 1})
        soon(lambda: waiting.undecided() == ends[1] - 1)
    missing = Backfill(place.at(), f"{place.prefix}.none", "group", 5)
    with pytest.raises(TopicError, match="There is no topic"):
        missing.wait(quiet)


def test_a_backfill_waits_while_nobody_decides(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit it waits, says so once, and goes on when decide does; a stop ends the wait."""
    monkeypatch.setattr("connectors.kafka_backfill._PATIENCE", 0.0)
    place.produce(*(said(number) for number in range(20)))
    told: list[str] = []
    with closing(backfill(place, 5)) as waiting:
        thread = threading.Thread(target=waiting.wait, args=(told.append,))
        thread.start()
        soon(lambda: bool(told))
        assert thread.is_alive()
        place.decide()
        thread.join(60)
        assert not thread.is_alive()
        waiting.wait(told.append)
        assert 1 == len(told)
        assert "20 messages of" in told[0]
        assert "LOOKFIRST_BACKFILL_AHEAD" in told[0]
        place.produce(*(said(number) for number in range(20, 40)))
        waiting.stopping.set()
        waiting.wait(told.append)


def lettered(place: Place, count: int) -> list[Outgoing]:
    """Events in a topic of which `decide` has read all, with a letter for each."""
    made = [said(number) for number in range(count)]
    place.produce(*made)
    with place.topic("events") as topic:
        place.commit(topic.ends())
    letters = [
        outgoing_letter(
            letter(each.value, Coordinates(topic=each.topic, partition=each.partition, offset=each.offset))
        )
        for each in place.all_of("events")
    ]
    place.produce(*letters, to="dead-letters")
    return made


def test_a_replay_waits_for_decide_before_it_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody decides: the first batch goes, the second waits until decide has read; none is lost or doubled."""
    made = lettered(place, 300)
    monkeypatch.setenv("LOOKFIRST_BACKFILL_AHEAD", "100")
    monkeypatch.setattr("connectors.kafka_backfill._PATIENCE", 0.0)
    ends: list[int] = []

    def decide(told: str) -> None:
        with place.topic("events") as topic:
            ends.append(sum(topic.ends().values()))
            place.commit(topic.ends())

    monkeypatch.setattr("flows.cli.replay.say", decide)
    assert 0 == main(["replay", "dead-letters", "--brokers", place.brokers, "--data", str(place.path)])
    # The second sentence is that of the end.
    assert [556, 600] == ends
    assert {"waiting": 300} == place.replayed()
    assert sorted(each.value for each in made) == sorted(
        each.value for each in brought_back(place.all_of("events"))
    )


def test_a_replay_that_waits_is_stopped_in_order(place: Place) -> None:
    """Ctrl-C while it waits: it says what it has brought back so far, and a later replay brings back the rest."""
    lettered(place, 300)
    command = ["replay", "dead-letters", "--json", "--brokers", place.brokers, "--data", str(place.path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.cli.main", *command],
        cwd=REPOSITORY,
        env={**os.environ, "LOOKFIRST_BACKFILL_AHEAD": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        with place.topic("events") as topic:
            soon(lambda: sum(topic.ends().values()) == 556)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    counts = json.loads(out)
    assert (130, True) == (process.returncode, counts["stopped"])
    assert (300, 256, 44) == (counts["gone_through"], counts["brought_back"], counts["left"])
    assert "Stopped; run the same command again for the rest.\n" in err
    assert {"waiting": 256, "brought back": 44} == place.replayed()

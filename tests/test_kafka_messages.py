"""What a real broker hands over: events in every shape, what is no event, and places that are gone."""

from __future__ import annotations

import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient

from connectors.dev_broker import DevBroker
from connectors.kafka_client import Brokers
from connectors.kafka_flow import KafkaSink, KafkaSource, Reading
from connectors.kafka_lag import KafkaLag
from connectors.kafka_topic import KafkaTopic
from connectors.message import Outgoing
from connectors.topic_flow import Room
from flows.apply_run import ApplyRun
from flows.data_folder import DataFolder
from flows.decide_run import DecideRun
from flows.doctor import examine
from flows.judge.named import judge_named
from flows.tally import Tally
from store.schema import Coordinates, DeadLetter, Settings, StoreError, TopicError
from store.schema.event import key_of
from tests.broker import fresh_prefix, kafka_jars, make_topics
from tests.judges import event_only
from tests.kafka_process import beside

pytestmark = pytest.mark.broker


class Place:
    """A data folder, three topics of its own, and one run of each flow over them."""

    def __init__(self, path: Path, brokers: str, **settings: Any) -> None:
        self.settings = Settings(
            topic_prefix=fresh_prefix(), epoch=0.1, judge="tests.judges:event_only", kafka_answer=20, **settings
        )
        self.folder = DataFolder.at(path / "data", self.settings)
        self.brokers = Brokers.at(brokers, self.settings)
        make_topics(brokers, self.settings.topic_prefix)
        self.told: list[str] = []

    def topic(self, name: str) -> KafkaTopic:
        """One of its topics."""
        return KafkaTopic(self.brokers, f"{self.settings.topic_prefix}.{name}")

    def decide(self, **more: Any) -> Tally:
        """Decide what is in the topic now."""
        judge = judge_named(self.settings)
        return DecideRun(
            self.folder, self.settings, self.brokers, self.told.append, until_end=True, judge=judge, **more
        ).run()

    def apply(self) -> Tally:
        """Apply what is in the topic now."""
        return ApplyRun(self.folder, self.settings, self.brokers, self.told.append, until_end=True).run()

    def all_of(self, name: str) -> list[Any]:
        """The messages of a topic, read as JSON."""
        with closing(self.topic(name)) as topic:
            return [json.loads(incoming.value) for found in topic.walk() for incoming in found]


@pytest.fixture
def place(tmp_path: Path, brokers: str) -> Place:
    """A place whose store is there and empty."""
    made = Place(tmp_path, brokers)
    made.apply()
    return made


def line(number: int, **more: Any) -> str:
    """An event."""
    said = {"id": str(number), "source": "chat", "thread": f"t{number % 5}", "at": "2026-03-02T09:00:00Z"}
    return json.dumps({**said, "text": f"please do number {number}", **more})


def sent(place: Place, *records: tuple[bytes | None, bytes | None, list[tuple[str, bytes]]]) -> None:
    """Put raw records onto the events topic: key, value, headers."""
    producer = place.brokers.producer()
    for key, value, headers in records:
        producer.send(f"{place.settings.topic_prefix}.events", value, key, headers).get(20)
    producer.close()


@contextmanager
def applying(place: Place) -> Iterator[None]:
    """Apply beside something else, until that is done."""
    with beside(ApplyRun(place.folder, place.settings, place.brokers, place.told.append)):
        yield


@pytest.mark.promise("T8")
def test_every_kind_of_poison_is_a_dead_letter(place: Place) -> None:
    """Bad JSON, another schema, a tombstone, bytes: each a letter with its place; the others are decided."""
    good = line(1).encode()
    poison = [b"{", b"[]", b'{"id": "x"}', b"\xff\xfe{}", b"null", b"", b'{"a": ' + b"[" * 5_000]
    sent(
        place,
        (b"default/t1", good, []),
        (b"default/t1", None, []),
        *((b"default/t1", each, []) for each in poison),
        (b"default/t2", line(2).encode(), []),
    )
    tally = place.decide()
    assert (2, 1 + len(poison)) == (tally.decided, tally.unreadable_events)
    letters = [DeadLetter.model_validate(each) for each in place.all_of("dead-letters")]
    with closing(place.topic("events")) as events:
        incoming = {(each.partition, each.offset): each for found in events.walk() for each in found}
    places = {(each.coordinates.partition, each.coordinates.offset) for each in letters}
    assert 1 + len(poison) == len(places)
    assert all(incoming[where].value != good.decode() for where in places)
    reasons = sorted(each.reason for each in letters)
    assert 1 == sum("tombstone" in reason for reason in reasons)
    assert 1 == sum("UTF-8" in reason for reason in reasons)


def test_cloud_events_of_both_modes_are_events(place: Place) -> None:
    """Structured, binary and plain: three events of one thread, in its order."""
    structured = {
        "specversion": "1.0",
        "id": "a",
        "source": "/chat",
        "type": "said",
        "time": "2026-03-02T09:00:00Z",
        "subject": "t1",
        "data": {"text": "please do it"},
    }
    attributes = {"specversion": "1.0", "id": "b", "source": "/chat", "type": "said", "subject": "t1"}
    binary = [(f"ce_{name}", value.encode()) for name, value in attributes.items()]
    sent(
        place,
        (b"default/t1", json.dumps(structured).encode(), [("content-type", b"application/cloudevents+json")]),
        (b"default/t1", b'{"text": "and this", "at": "2026-03-02T09:01:00Z"}', binary),
        (b"default/t1", line(1).encode(), []),
    )
    tally = place.decide()
    assert (3, 0, 0) == (tally.decided, tally.unreadable_events, tally.unkeyed)
    decided = [each["arrival"]["event"] for each in place.all_of("operations")]
    assert [("a", "t1"), ("b", "t1"), ("1", "t1")] == [(each["id"], each["thread"]) for each in decided]


def test_an_event_without_its_key_is_counted(place: Place) -> None:
    """No key, and the key of another thread: decided, marked and counted."""
    sent(place, (None, line(1).encode(), []), (b"x", line(2).encode(), []), (b"default/t3", line(3).encode(), []))
    tally = place.decide()
    assert (3, 2) == (tally.decided, tally.unkeyed)
    assert [False, True, True] == sorted(each["arrival"]["unkeyed"] for each in place.all_of("operations"))


def test_a_large_event_travels_with_head_and_tail(tmp_path: Path, brokers: str) -> None:
    """Over the limit: the operation has its ends, length, hash and place; the whole is still in its topic."""
    place = Place(tmp_path, brokers, message_kilobytes=100, segments=2)
    place.apply()
    text = "please do it. " + "x" * 150_000 + " the end"
    sent(place, (b"default/t1", line(1, text=text).encode(), []))
    assert 1 == place.decide().decided
    (decision,) = place.all_of("operations")
    kept = decision["arrival"]["event"]["text"]
    assert len(kept) < 20_000
    assert ("please do it.", " the end") == (kept[:13], kept[-8:])
    assert len(text) == decision["arrival"]["cut"]["characters"]
    where = Coordinates.model_validate(decision["arrival"]["coordinates"])
    with closing(place.topic("events")) as events:
        assert text == json.loads(events.fetch([where])[0].value)["text"]
    place.apply()
    assert 1 == place.folder.store().record.count("events")


@pytest.mark.promise("T10")
def test_a_place_that_is_gone_is_named_with_the_way_on(place: Place, brokers: str) -> None:
    """What waits to be read was deleted: the error says which offsets there are, and `--offsets` goes on."""
    for number in range(10):
        sent(place, (b"default/t1", line(number, thread="t1").encode(), []))
    assert 10 == place.decide().decided
    place.apply()
    for number in range(10, 20):
        sent(place, (b"default/t1", line(number, thread="t1").encode(), []))
    with closing(place.topic("events")) as events:
        (partition,) = (partition for partition, end in events.ends().items() if end)
        name = events.name
    with closing(KafkaAdminClient(bootstrap_servers=brokers)) as admin:
        admin.delete_records({TopicPartition(name, partition): 15})
    with pytest.raises(TopicError, match=rf"Partition {partition} .* from offset 10, .* 15 to 20\. .*--offsets"):
        place.decide()
    assert 5 == place.decide(forced={partition: 15}).decided


@pytest.mark.promise("T10")
def test_a_topic_that_was_made_again_is_noticed(place: Place, brokers: str) -> None:
    """Events and operations under the same names with other ids: each is an error that names both ids."""
    sent(place, (b"default/t1", line(1).encode(), []))
    place.decide()
    place.apply()
    for name, reader, error in (("events", place.decide, TopicError), ("operations", place.apply, StoreError)):
        topic = f"{place.settings.topic_prefix}.{name}"
        with closing(place.topic(name)) as before:
            was = before.id
        with closing(KafkaAdminClient(bootstrap_servers=brokers)) as admin:
            admin.delete_topics([topic])
        _made_again(brokers, topic, 3 if name == "events" else 1)
        with closing(place.topic(name)) as after:
            assert was != after.id
            with pytest.raises(error, match=re.escape(was)) as told:
                reader()
            assert after.id in str(told.value)


def _made_again(brokers: str, topic: str, partitions: int) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    if partitions == 1:
        configs |= {"retention.ms": "-1", "max.message.bytes": str(8 << 20)}
    until = datetime.now(UTC) + timedelta(seconds=30)
    while True:
        try:
            with closing(KafkaAdminClient(bootstrap_servers=brokers)) as admin:
                wanted = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
                admin.create_topics({topic: wanted}, wait_for_metadata=True)
            return
        except Exception:
            # The broker forgets the old one when it comes to it.
            if datetime.now(UTC) > until:
                raise


@pytest.mark.promise("T8")
@pytest.mark.slow
def test_a_damaged_batch_goes_to_the_dead_letters(tmp_path: Path) -> None:
    """A byte of a record was changed on the broker's disk: a letter with its place, and the rest is decided."""
    broker = DevBroker(tmp_path / "kafka", jars=kafka_jars())
    broker.start()
    try:
        place = Place(tmp_path, broker.brokers, kafka_compression="none")
        place.apply()
        for number in range(3):
            sent(place, (b"default/t1", line(number, thread="t1", text=f"please do MARK{number}").encode(), []))
        broker.stop()
        logs = [path for path in (tmp_path / "kafka").rglob("*.log") if b"MARK1" in path.read_bytes()]
        (log,) = (path for path in logs if f"{place.settings.topic_prefix}.events" in str(path))
        log.write_bytes(log.read_bytes().replace(b"MARK1", b"MARX1"))
        broker.start()
        tally = place.decide()
        assert (2, 1) == (tally.decided, tally.unreadable_events)
        (letter,) = place.all_of("dead-letters")
        assert ("checksum" in letter["reason"], 1) == (True, letter["coordinates"]["offset"])
        assert "MARX1" in letter["raw"]
    finally:
        broker.stop()


def test_offsets_are_committed_for_lag_tools(place: Place, brokers: str) -> None:
    """The groups of both flows stand where the flows are."""
    for number in range(6):
        sent(place, (f"default/t{number % 5}".encode(), line(number).encode(), []))
    place.decide()
    place.apply()
    prefix = place.settings.topic_prefix
    with closing(KafkaAdminClient(bootstrap_servers=brokers)) as admin:
        for flow, name, expected in (("decide", "events", 6), ("apply", "operations", 6)):
            found = admin.list_group_offsets([f"{prefix}.{flow}"])[f"{prefix}.{flow}"]
            committed = {at.partition: each.offset for at, each in found.items() if at.topic == f"{prefix}.{name}"}
            assert expected == sum(committed.values())


@pytest.mark.promise("T7")
def test_events_read_again_ask_no_judge(tmp_path: Path, brokers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into a fresh folder beside the same operations: every event is known before a judge is asked."""
    place = Place(tmp_path, brokers)
    lines = [line(number) for number in range(40)]
    sent(place, *((str(key_of(each)).encode(), each.encode(), []) for each in lines))
    with applying(place):
        assert 40 == place.decide().decided
    again = DataFolder.at(tmp_path / "again", place.settings)
    asked: list[str] = []
    judge = event_only(place.settings)
    monkeypatch.setattr(type(judge), "judge", lambda _, event, *rest: asked.append(event.id))
    place.folder = again
    with applying(place):
        tally = place.decide()
    assert ([], 0, 40) == (asked, tally.decided, tally.repeated)


def test_doctor_looks_at_a_store_on_kafka(place: Place) -> None:
    """Nothing is wrong with a folder whose topics are on brokers; that they were not looked at is noted."""
    sent(place, *((f"default/t{number}".encode(), line(number).encode(), []) for number in range(5)))
    place.decide()
    place.apply()
    report = examine(place.folder, place.settings)
    assert [] == [check.said for check in report.checks if check.state == "wrong"]
    assert ["note"] == [check.state for check in report.checks if check.name == "positions"]


def test_what_is_not_there_is_one_sentence(tmp_path: Path, brokers: str) -> None:
    """A topic that nobody made, and a port at which nobody answers."""
    settings = Settings(topic_prefix=fresh_prefix(), kafka_answer=2)
    with pytest.raises(TopicError, match=r"There is no topic \S+\.events at .*; `lookfirst topics create"):
        KafkaTopic(Brokers.at(brokers, settings), f"{settings.topic_prefix}.events")
    with pytest.raises(TopicError, match=r"no broker answers at 127\.0\.0\.1:1 "):
        KafkaTopic(Brokers.at("127.0.0.1:1", settings), "x")


def test_a_topic_is_walked_from_and_to_any_place(place: Place) -> None:
    """Between two offsets of each partition, in order; and a message is fetched again by its place."""
    with closing(place.topic("events")) as events:
        events.append(
            [Outgoing(f"default/t{number % 7}", line(number), {"origin": f"f:{number}"}) for number in range(50)]
        )
        ends = events.ends()
        found = [incoming for each in events.walk(at_once=7) for incoming in each]
        assert 50 == len(found) == sum(ends.values())
        start, end = dict.fromkeys(ends, 2), {partition: max(2, last - 1) for partition, last in ends.items()}
        some = [(each.partition, each.offset) for chunk in events.walk(start, end) for each in chunk]
        assert sorted((p, o) for p in ends for o in range(2, end[p])) == sorted(some)
        for last in (found[-1], found[0], found[20], found[-1]):
            here = Coordinates(topic=last.topic, partition=last.partition, offset=last.offset)
            assert [last] == events.fetch([here])
        assert [] == list(events.walk(events.since(datetime.now(UTC) + timedelta(days=1))))


def test_of_a_transaction_only_what_was_committed_is_an_event(place: Place) -> None:
    """One that was aborted is never seen, and its marker behind the last message is nothing to wait for."""
    topic = f"{place.settings.topic_prefix}.events"
    producer = KafkaProducer(bootstrap_servers=place.brokers.servers, transactional_id=topic)
    producer.init_transactions()
    endings = (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction)
    for number, ends in enumerate(endings):
        producer.begin_transaction()
        producer.send(topic, line(number, thread="t1").encode(), b"default/t1").get(20)
        ends()
    producer.close()
    assert 1 == place.decide().decided
    assert ["1"] == [each["arrival"]["event"]["id"] for each in place.all_of("operations")]
    # The markers are behind it, too: nothing is left to be read.
    assert 0 == place.decide().read


def test_an_epoch_is_not_recorded_when_a_message_of_it_is_not_there(place: Place, brokers: str) -> None:
    """The broker refuses one of three messages: the sink's snapshot raises, and says which topic it is of."""
    name = f"{place.settings.topic_prefix}.small"
    with closing(KafkaAdminClient(bootstrap_servers=brokers)) as admin:
        wanted = {"num_partitions": 1, "replication_factor": 1, "configs": {"max.message.bytes": "1000"}}
        admin.create_topics({name: wanted}, wait_for_metadata=True)
    with closing(KafkaTopic(place.brokers, name)) as topic:
        sink = KafkaSink(topic).build_part("decide.operations", "0", None)
        sink.write_batch([Outgoing("a", "fits")])
        sink.snapshot()
        sink.write_batch([Outgoing("a", "fits, too"), Outgoing("a", secrets.token_hex(2_000))])
        with pytest.raises(TopicError, match=f"Cannot append to the topic {name} at"):
            sink.snapshot()
        sink.close()


def test_no_partition_starves_another(place: Place) -> None:
    """There is room for one message at a time: each of three partitions that are full has its turn in three."""
    threads = [f"t{number}" for number in range(300)]
    sent(place, *((f"default/{each}".encode(), line(0, thread=each).encode(), []) for each in threads))
    with closing(place.topic("events")) as topic:
        assert all(topic.ends().values())
        tap = _One()
        source = KafkaSource(Reading(topic, 256), tap, KafkaLag(place.brokers, topic.name, "any", tap.take))
        parts = [source.build_part("decide.events", part, None) for part in source.list_parts()]
        until = monotonic() + 30
        for part in parts:
            # Its first message comes when the brokers have answered; the others of its batch wait here then.
            tap.left = len(parts)
            while not part.next_batch() and monotonic() < until:
                pass
        turns: Counter[int] = Counter()
        for _ in range(30):
            tap.left = 1
            for part in parts:
                turns.update(incoming.partition for incoming in part.next_batch())
        for part in parts:
            part.close()
    assert [10, 10, 10] == sorted(turns.values())


class _One:
    """A tap with room for one message each time the parts are gone through, in the same order."""

    left = 0

    def take(self, count: int) -> None:
        self.left -= count

    def room(self) -> Room:
        return Room(self.left)

    def ended(self, *, drained: bool) -> bool:
        return False

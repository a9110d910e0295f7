"""A topic on Kafka brokers: raw messages by partition and offset, and what went wrong as one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Final

from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, LogTruncationError, OffsetOutOfRangeError, TopicAuthorizationFailedError

from connectors.kafka_client import Brokers
from connectors.message import NOT_UTF8, TOMBSTONE, Incoming, Outgoing
from connectors.topic import AT_ONCE, Offsets
from store.schema import Coordinates, TopicError

_EPOCH: Final = datetime.fromtimestamp(0, UTC)
_POLL: Final = 250
"""One wait for messages (ms)."""


class KafkaTopic:
    """One topic as a whole. Its clients are made when they are needed; `close` ends them."""

    def __init__(self, brokers: Brokers, name: str, described: tuple[str, int] | None = None) -> None:
        """`described` is its id and its number of partitions, where somebody has asked already.

        Raises TopicError when there is no such topic, or nobody answers.
        """
        self.brokers = brokers
        self.name = name
        self.id, self.partitions = described or _described(brokers, [name])[name]
        self._consumer: KafkaConsumer | None = None
        self._producer: Any = None

    @property
    def where(self) -> str:
        """Topic and brokers."""
        return f"topic {self.name} at {self.brokers.servers}"

    def starts(self) -> dict[int, int]:
        """The first offset that is kept, of each partition."""
        return self._offsets("beginning_offsets")

    def ends(self) -> dict[int, int]:
        """The offset after the last message that is committed, of each partition."""
        return self._offsets("end_offsets")

    def since(self, moment: datetime) -> dict[int, int]:
        """The first offset that arrived at a moment or later, of each partition; its end where there is none."""
        asked = {place: int(moment.timestamp() * 1_000) for place in self._places()}
        with self.brokers.asked(f"The offsets of the {self.where} cannot be found"):
            found = self._reader.offsets_for_times(asked)
        ends = self.ends()
        return {place.partition: each.offset if each else ends[place.partition] for place, each in found.items()}

    def append(self, messages: Sequence[Outgoing]) -> Coordinates:
        """Append messages, at least one, durably; returns where the last one stands.

        Not all or none: raises TopicError when one of them could not be, and the others may be there.
        """
        if self._producer is None:
            self._producer = self.brokers.producer()
        with self.brokers.asked(f"Cannot append to the {self.where}"):
            sent = [self._producer.send(self.name, **record_of(message)) for message in messages]
            placed = [each.get(self.brokers.settings.kafka_delivery + 5) for each in sent]
        return Coordinates(topic=self.name, partition=placed[-1].partition, offset=placed[-1].offset)

    def walk(
        self, start: Offsets | None = None, end: Offsets | None = None, at_once: int = AT_ONCE
    ) -> Iterator[list[Incoming]]:
        """The messages from `start` (else the first) up to `end` (else the end now).

        Those of a partition in their order. Raises TopicError when messages from `start` on are gone, or the
        brokers do not answer.
        """
        firsts, ends = self.starts(), self.ends() if end is None else end
        begin = {partition: (start or {}).get(partition, first) for partition, first in firsts.items()}
        left = {partition for partition, first in begin.items() if first < ends.get(partition, 0)}
        if not left:
            return
        # One of its own: a consumer keeps, of partitions that were paused, what it has read of them.
        consumer = self.brokers.consumer(max_poll_records=at_once)
        try:
            self._assign(consumer, {partition: begin[partition] for partition in left})
            while left:
                for place, records in self._polled(consumer, at_once).items():
                    last = ends[place.partition]
                    if found := [incoming_of(record) for record in records if record.offset < last]:
                        yield found
                for partition in list(left):
                    place = TopicPartition(self.name, partition)
                    # The position and not the last offset: what is aborted or compacted away moves it, too.
                    if (consumer.position(place, timeout_ms=0) or 0) >= ends[partition]:
                        left.discard(partition)
                        consumer.pause(place)
        except TimeoutError as error:
            raise TopicError(f"The {self.where} cannot be read: {error}; check that the brokers run.") from error
        finally:
            consumer.close()

    def fetch(self, places: Sequence[Coordinates]) -> list[Incoming]:
        """Messages that were read before, in this order, which is ascending within a partition.

        Raises TopicError when one is gone, TimeoutError when the brokers do not answer.
        """
        wanted: dict[int, list[int]] = {}
        for place in places:
            wanted.setdefault(place.partition, []).append(place.offset)
        found = {(each.partition, each.offset): each for each in self._again(wanted)}
        return [found[place.partition, place.offset] for place in places]

    def close(self) -> None:
        """Let go of the connections."""
        for client in (self._consumer, self._producer):
            if client is not None:
                client.close()
        self._consumer = self._producer = None

    @property
    def _reader(self) -> KafkaConsumer:
        if self._consumer is None:
            self._consumer = self.brokers.consumer(max_poll_records=AT_ONCE)
        return self._consumer

    def _places(self) -> list[TopicPartition]:
        return [TopicPartition(self.name, partition) for partition in range(self.partitions)]

    def _offsets(self, of: str) -> dict[int, int]:
        with self.brokers.asked(f"The ends of the {self.where} cannot be read"):
            found: Mapping[TopicPartition, int] = getattr(self._reader, of)(self._places())
        return {place.partition: offset for place, offset in found.items()}

    def _assign(self, consumer: KafkaConsumer, begin: Offsets) -> None:
        """Put a consumer at these places."""
        consumer.assign([TopicPartition(self.name, partition) for partition in begin])
        for partition, offset in begin.items():
            consumer.seek(TopicPartition(self.name, partition), offset)

    def _polled(self, consumer: KafkaConsumer, at_once: int) -> dict[TopicPartition, list[Any]]:
        waited = monotonic() + self.brokers.settings.kafka_answer
        try:
            while True:
                positions = [consumer.position(place, timeout_ms=0) for place in consumer.assignment()]
                found: dict[TopicPartition, list[Any]] = consumer.poll(timeout_ms=_POLL, max_records=at_once)
                moved = [consumer.position(place, timeout_ms=0) for place in consumer.assignment()]
                if found or moved != positions:
                    return found
                if monotonic() > waited:
                    raise TimeoutError(f"no message of {self.where} for {self.brokers.settings.kafka_answer:g} s")
        except (OffsetOutOfRangeError, LogTruncationError) as error:
            raise self._gone(error) from error
        except KafkaError as error:
            self.close()
            raise TopicError(f"The {self.where} cannot be read: {self.brokers.told(error)}.") from error

    def _again(self, wanted: Mapping[int, Sequence[int]]) -> Iterator[Incoming]:
        for partition, offsets in wanted.items():
            consumer, left = self._reader, set(offsets)
            self._assign(consumer, {partition: offsets[0]})
            while left:
                for record in next(iter(self._polled(consumer, AT_ONCE).values()), []):
                    if record.offset in left:
                        left.discard(record.offset)
                        yield incoming_of(record)
                reached = consumer.position(TopicPartition(self.name, partition), timeout_ms=0) or 0
                if any(offset < reached for offset in left):
                    raise TopicError(
                        f"Offset {min(left)} of partition {partition} of the {self.where} was read before and is "
                        "gone: the topic's retention is shorter than its events wait."
                    )

    def _gone(self, error: Exception) -> TopicError:
        return TopicError(f"The {self.where} was cut: {gone(self, error)}.")


def gone(topic: KafkaTopic, error: Exception) -> str:
    """Which offsets were asked for and are gone, and which are there; in the middle of a sentence."""
    asked = error.args[0] if error.args and isinstance(error.args[0], dict) else {}
    there = KafkaTopic(topic.brokers, topic.name)
    try:
        first, last = there.starts(), there.ends()
    finally:
        there.close()
    told = [
        f"offset {getattr(offset, 'offset', offset)} of partition {place.partition} is not there, it holds "
        f"{first[place.partition]} to {last[place.partition]}"
        for place, offset in asked.items()
    ]
    return "; ".join(told) or str(error).rstrip(".")


def open_topics(brokers: Brokers, names: Sequence[str]) -> list[KafkaTopic]:
    """Several topics at once, for one question; raises TopicError when one is not there, or nobody answers."""
    described = _described(brokers, names)
    return [KafkaTopic(brokers, name, described[name]) for name in names]


def _described(brokers: Brokers, names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Id and number of partitions of these topics."""
    with brokers.asked("The topics cannot be looked at"):
        admin = brokers.admin()
        try:
            found = admin.describe_topics(list(names))
        finally:
            admin.close()
        if any(each["error_code"] == TopicAuthorizationFailedError.errno for each in found):
            raise TopicAuthorizationFailedError
    there = {
        each["name"]: (str(each["topic_id"]), len(each["partitions"])) for each in found if not each["error_code"]
    }
    for name in names:
        if name not in there:
            raise TopicError(
                f"There is no topic {name} at {brokers.servers}; `lookfirst topics create --brokers "
                f"{brokers.servers}` makes it."
            )
    return there


def incoming_of(record: Any) -> Incoming:
    """A record of the consumer as it was read. What cannot be text is kept, escaped, with its flaw."""
    flaw = None
    value = record.value
    if value is None:
        text, flaw = "", TOMBSTONE
    else:
        try:
            text = value.decode("utf-8")
        except UnicodeDecodeError:
            text, flaw = value.decode("utf-8", "backslashreplace"), NOT_UTF8
    key = record.key
    return Incoming(
        record.topic,
        record.partition,
        record.offset,
        _EPOCH + timedelta(milliseconds=record.timestamp),
        None if key is None else key.decode("utf-8", "backslashreplace"),
        text,
        {name: (said or b"").decode("utf-8", "backslashreplace") for name, said in record.headers},
        flaw,
    )


def record_of(message: Outgoing) -> dict[str, Any]:
    """What the producer is given of a message."""
    return {
        "key": None if message.key is None else message.key.encode("utf-8", "backslashreplace"),
        "value": message.value.encode("utf-8", "backslashreplace"),
        "headers": [(name, said.encode("utf-8", "backslashreplace")) for name, said in message.headers.items()],
    }

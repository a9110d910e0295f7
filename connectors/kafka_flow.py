"""Kafka topics as sources and sinks of a dataflow.

A source keeps, as its state, the position of the consumer and the id of the topic, so that a topic that was made
again is noticed. A sink sends as it is told and, before an epoch may be recorded, waits until every message of it
is on all replicas.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Event
from time import monotonic
from typing import Any, Final, Protocol

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import StatefulSinkPartition
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import CorruptRecordError, KafkaError, LogTruncationError, OffsetOutOfRangeError

from connectors.kafka_topic import KafkaTopic, gone, incoming_of, record_of
from connectors.message import BAD_CHECKSUM, Incoming, Outgoing
from connectors.topic import Offsets
from connectors.topic_flow import OnePart, Tap
from store.schema import TopicError
from store.schema.failpoint import reach

_IDLE: Final = timedelta(milliseconds=20)
_END: Final = 5_000
"""Wait for the end of a partition (ms)."""


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """Where a partition is read on: pickled into the recovery store."""

    topic_id: str
    offset: int


class Reached(Protocol):
    """Whoever is told how far a source is."""

    @property
    def joined(self) -> Event:
        """To be set once the engine has come up, in all processes of a set."""

    def begins(self, partition: int, offset: int) -> None:
        """A partition is read by this process, from this offset on."""

    def read(self, partition: int, count: int, offset: int) -> None:
        """So many messages were handed over, and this is where the next one will stand."""

    def recorded(self, partition: int, offset: int) -> None:
        """What is before this offset will not be read again once the epoch is recorded."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a source reads, and from where to where."""

    topic: KafkaTopic
    batch: int
    """Messages handed over at once (count)."""
    start: Offsets | None = None
    """Where it is known to be needed from: of this and the place in the state the smaller one is taken."""
    forced: Offsets | None = None
    """Where a person says it is to go on, whatever the state says."""
    until: Offsets | None = None
    """Where it ends; None is never."""
    remedy: str = ""
    """What to do when the place to read on from is gone, a sentence."""


class KafkaSource(FixedPartitionedSource[Incoming, KafkaPlace]):
    """Reads all partitions of a topic, each with a consumer of its own, in turns."""

    def __init__(self, reading: Reading, tap: Tap, reached: Reached) -> None:
        self._reading = reading
        self._tap = tap
        self._reached = reached
        self._turns: deque[int] = deque()

    def list_parts(self) -> list[str]:
        # The engine asks when all processes have met.
        self._reached.joined.set()
        return [str(partition) for partition in range(self._reading.topic.partitions)]

    def build_part(self, step_id: str, for_part: str, resume_state: KafkaPlace | None) -> _KafkaReader:
        partition = int(for_part)
        reading, topic = self._reading, self._reading.topic
        if resume_state and resume_state.topic_id != topic.id:
            raise TopicError(
                f"The {topic.where} was made again: what was read had the id {resume_state.topic_id}, and "
                f"now it is {topic.id}. {reading.remedy}"
            )
        first, last = topic.starts()[partition], topic.ends()[partition]
        # An offset of 0 is a place, too: that of a store which is filled anew beside an older state.
        places = (_of(reading.start, partition), resume_state.offset if resume_state else None)
        known = [offset for offset in places if offset is not None]
        begin = _of(reading.forced, partition)
        if begin is None:
            begin = min(known, default=first)
        if not first <= begin <= last:
            raise TopicError(
                f"Partition {partition} of the {topic.where} is to be read from offset {begin}, but it holds "
                f"{first} to {last}. {reading.remedy}"
            )
        self._turns.append(partition)
        self._reached.begins(partition, begin)
        return _KafkaReader(self._reading, partition, begin, self._tap, self._reached, self._turns)


class _KafkaReader(StatefulSourcePartition[Incoming, KafkaPlace]):
    def __init__(
        self, reading: Reading, partition: int, begin: int, tap: Tap, reached: Reached, turns: deque[int]
    ) -> None:
        self._reading = reading
        self._place = TopicPartition(reading.topic.name, partition)
        self._tap = tap
        self._reached = reached
        self._turns = turns
        until = _of(reading.until, partition)
        self._until = None if until is None else max(begin, until)
        self._rest: deque[Incoming] = deque()
        """Read from the brokers and not handed over."""
        self._consumer = self._assigned(begin, check_crcs=True)
        self._unchecked: KafkaConsumer | None = None
        self._idle = False

    def next_batch(self) -> list[Incoming]:
        given = self._tap.room()
        allowed = self._turn(given.messages)
        found: list[Incoming] = []
        if allowed:
            if not self._rest:
                self._rest.extend(self._polled())
            size = given.size if given.size is not None else 1 << 62
            while self._rest and len(found) < min(allowed, self._reading.batch) and size > 0:
                found.append(self._rest.popleft())
                size -= len(found[-1].value)
        if found:
            self._reached.read(self._place.partition, len(found), self._at)
        self._idle = not found
        if self._idle and self._has_ended():
            raise StopIteration
        return found

    def next_awake(self) -> datetime | None:
        return datetime.now(UTC) + _IDLE if self._idle else None

    def snapshot(self) -> KafkaPlace:
        reach("snapshot.before")
        self._reached.recorded(self._place.partition, self._at)
        return KafkaPlace(self._reading.topic.id, self._at)

    def close(self) -> None:
        if self._place.partition in self._turns:
            self._turns.remove(self._place.partition)
        self._consumer.close()
        if self._unchecked:
            self._unchecked.close()

    @property
    def _at(self) -> int:
        """Offset of the next message to hand over.

        The position of the consumer, and not what follows the last message: that may be a marker of a transaction,
        and never come. What lies beyond the end may have been polled, and is left for the next run.
        """
        if self._rest:
            return self._rest[0].offset
        position: int | None = self._consumer.position(self._place, timeout_ms=0)
        assert position is not None  # noqa: S101  it was set when the consumer was made
        return position if self._until is None else min(position, self._until)

    def _has_ended(self) -> bool:
        if self._tap.ended(drained=False):
            return True
        if not (self._is_drained and self._tap.ended(drained=True)):
            return False
        if self._until is None:
            # What is known of the end is as old as the last answer: whoever ends because all is read asks once.
            self._until = self._end_now()
        return self._at >= self._until

    def _end_now(self) -> int:
        try:
            found: int = self._consumer.end_offsets([self._place], timeout_ms=_END)[self._place]
        except (KafkaError, OSError):
            # Nobody answers: the rest is for the next run.
            return self._at
        return max(self._at, found)

    @property
    def _is_drained(self) -> bool:
        """Whether everything up to the end was handed over; without an end, all that is known of."""
        if self._rest:
            return False
        end = self._until if self._until is not None else self._consumer.highwater(self._place)
        return end is None or self._at >= end

    def _turn(self, room: int) -> int:
        """How many of the messages there is room for may be of this partition: none of them starves another."""
        parts = len(self._turns)
        if room <= 0 or self._turns.index(self._place.partition) >= room:
            return 0
        self._turns.remove(self._place.partition)
        self._turns.append(self._place.partition)
        return max(1, room // parts)

    def _polled(self) -> list[Incoming]:
        if self._until is not None and self._at >= self._until:
            return []
        try:
            found = self._consumer.poll(timeout_ms=0, max_records=self._reading.batch)
        except CorruptRecordError:
            return [self._damaged()]
        except (OffsetOutOfRangeError, LogTruncationError) as error:
            told = gone(self._reading.topic, error)
            raise TopicError(f"The {self._reading.topic.where} was cut: {told}. {self._reading.remedy}") from error
        except KafkaError as error:
            told = self._reading.topic.brokers.told(error)
            raise TopicError(f"The {self._reading.topic.where} cannot be read: {told}.") from error
        records: Sequence[Any] = found.get(self._place, ())
        until = self._until
        return [incoming_of(record) for record in records if until is None or record.offset < until]

    def _damaged(self) -> Incoming:
        """The next message, whose checksum is wrong, read as it is; the message behind it is the next one."""
        at = self._consumer.position(self._place, timeout_ms=0)
        if self._unchecked is None:
            self._unchecked = self._assigned(at, check_crcs=False)
        self._unchecked.seek(self._place, at)
        patience = monotonic() + self._reading.topic.brokers.settings.kafka_answer
        try:
            while monotonic() < patience:
                for record in self._unchecked.poll(timeout_ms=200, max_records=1).get(self._place, ()):
                    self._consumer.seek(self._place, record.offset + 1)
                    return replace(incoming_of(record), flaw=BAD_CHECKSUM)
        except Exception as error:
            # What is damaged may make the library raise anything.
            told = f"{type(error).__name__}: {error}"
        else:
            told = "nothing can be read"
        raise TopicError(
            f"Offset {at} of partition {self._place.partition} of the {self._reading.topic.where} is damaged "
            f"beyond reading ({told}). {self._reading.remedy}"
        )

    def _assigned(self, begin: int, *, check_crcs: bool) -> KafkaConsumer:
        with self._reading.topic.brokers.asked(f"The {self._reading.topic.where} cannot be read"):
            consumer = self._reading.topic.brokers.consumer(check_crcs=check_crcs)
            consumer.assign([self._place])
            consumer.seek(self._place, begin)
        return consumer


class KafkaSink(OnePart):
    """Sends to a topic as it is told; an epoch is recorded when every message of it is there."""

    def __init__(self, topic: KafkaTopic, written: Callable[[int], None] | None = None) -> None:
        self._topic = topic
        self._written = written

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> _KafkaWriter:
        return _KafkaWriter(self._topic, self._written)


class _KafkaWriter(StatefulSinkPartition[Outgoing, None]):
    def __init__(self, topic: KafkaTopic, written: Callable[[int], None] | None) -> None:
        self._topic = topic
        self._written = written
        with topic.brokers.asked(f"The {topic.where} cannot be written"):
            self._producer = topic.brokers.producer()
        self._sent: list[Any] = []

    def write_batch(self, values: list[Outgoing]) -> None:
        if not self._sent:
            reach("append.before")
        with self._topic.brokers.asked(f"Cannot append to the {self._topic.where}"):
            self._sent += [self._producer.send(self._topic.name, **record_of(value)) for value in values]

    def snapshot(self) -> None:
        if not self._sent:
            return
        # Each is looked at: a flush alone says nothing of messages that failed.
        patience = monotonic() + self._topic.brokers.settings.kafka_delivery + 5
        with self._topic.brokers.asked(f"Cannot append to the {self._topic.where}"):
            for sent in self._sent:
                sent.get(max(0.0, patience - monotonic()))
        reach("append.after")
        if self._written:
            self._written(len(self._sent))
        self._sent = []

    def close(self) -> None:
        self._producer.close(timeout=1)


def _of(offsets: Offsets | None, partition: int) -> int | None:
    return None if offsets is None else offsets.get(partition)

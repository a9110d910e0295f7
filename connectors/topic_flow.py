"""Topic files as sources and sinks of a dataflow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition

from connectors.message import Incoming, Outgoing
from connectors.topic_file import Place, TopicFile
from store.schema.failpoint import reach

PARTITION = "0"
_IDLE = timedelta(milliseconds=10)


@dataclass(frozen=True, slots=True)
class Room:
    """How much a source may hand over now."""

    messages: int
    """0 is wait."""
    size: int | None = None
    """Bytes of them, roughly; None is as many as there are."""


class Tap(Protocol):
    """Who decides how much a source hands over, and when it has ended."""

    def room(self) -> Room:
        """How much may be handed over now."""

    def ended(self, *, drained: bool) -> bool:
        """Whether the source ends now; `drained` says that there is nothing left to read at this moment."""


class TopicSource(FixedPartitionedSource[Incoming, Place]):
    """Reads a topic file from where the last snapshot left it, or from `start`.

    `read` is told how many messages were handed over, and the place after them.
    """

    def __init__(
        self,
        topic: TopicFile,
        tap: Tap,
        batch: int,
        start: Place | None = None,
        read: Callable[[int, Place], None] | None = None,
    ) -> None:
        self._topic = topic
        self._tap = tap
        self._batch = batch
        self._start = start
        self._read = read

    def list_parts(self) -> list[str]:
        return [PARTITION]

    def build_part(self, step_id: str, for_part: str, resume_state: Place | None) -> _TopicReader:
        # Both say what is safely done; the smaller one says what all parts have done.
        places = [place for place in (resume_state, self._start) if place is not None]
        start = min(places, key=lambda place: place.offset) if places else self._topic.start
        if start.byte > self._topic.end().byte:
            self._topic.place_of(start.offset)
        return _TopicReader(self._topic, self._tap, self._batch, start, self._read)


class _TopicReader(StatefulSourcePartition[Incoming, Place]):
    def __init__(
        self, topic: TopicFile, tap: Tap, batch: int, place: Place, read: Callable[[int, Place], None] | None
    ) -> None:
        self._topic = topic
        self._tap = tap
        self._batch = batch
        self._place = place
        self._read = read
        self._idle = False

    def next_batch(self) -> list[Incoming]:
        given = self._tap.room()
        room = min(self._batch, given.messages)
        found: list[Incoming] = []
        if room > 0:
            found, self._place = self._topic.read(self._place, room, given.size)
        self._idle = not found
        if found and self._read:
            self._read(len(found), self._place)
        if self._idle and self._tap.ended(drained=room > 0):
            raise StopIteration
        return found

    def next_awake(self) -> datetime | None:
        return datetime.now(UTC) + _IDLE if self._idle else None

    def snapshot(self) -> Place:
        reach("snapshot.before")
        return self._place


class OnePart(FixedPartitionedSink[Outgoing, None]):
    """A sink that one worker writes, whatever the key."""

    def list_parts(self) -> list[str]:
        return [PARTITION]

    def part_fn(self, item_key: str) -> int:
        return 0


class TopicSink(OnePart):
    """Appends to a topic file: collected through an epoch, written and synced before it may be recorded."""

    def __init__(self, topic: TopicFile, written: Callable[[int], None] | None = None) -> None:
        self._topic = topic
        self._written = written

    def build_part(self, step_id: str, for_part: str, resume_state: None) -> _TopicWriter:
        return _TopicWriter(self._topic, self._written)


class _TopicWriter(StatefulSinkPartition[Outgoing, None]):
    def __init__(self, topic: TopicFile, written: Callable[[int], None] | None) -> None:
        self._topic = topic
        self._written = written
        self._buffer: list[Outgoing] = []

    def write_batch(self, values: list[Outgoing]) -> None:
        self._buffer.extend(values)

    def snapshot(self) -> None:
        if self._buffer:
            reach("append.before")
            self._topic.append(self._buffer)
            reach("append.after")
            if self._written:
                self._written(len(self._buffer))
            self._buffer = []

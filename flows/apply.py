"""The dataflow that applies: the only writer of the store, one commit an epoch."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource
from bytewax.outputs import FixedPartitionedSink, StatefulSinkPartition

from connectors.message import Incoming, Outgoing
from connectors.topic import Offsets
from connectors.topic_flow import PARTITION
from flows.parse import outgoing_letter, read_operation
from flows.tally import Tally
from store.commit import StoreWriter
from store.derive import Applied
from store.schema import DeadLetter, Position

ReadOperation = Applied | DeadLetter
"""A message that was read; one that makes no sense still moves the applied position on."""

STORE = "store"
MEMORY = "store.memory"
"""Partitions are snapshotted in the order of their names: memory after the record it follows."""

_log = logging.getLogger(__name__)


def apply(
    source: FixedPartitionedSource[Incoming, Any],
    store: FixedPartitionedSink[ReadOperation, None],
    dead_letters: FixedPartitionedSink[Outgoing, None],
    travel: Callable[[DeadLetter], DeadLetter] = lambda letter: letter,
) -> Dataflow:
    """Wire the steps; `travel` makes a dead letter fit its topic.

    Step ids and partition names are the keys of the recovery store.
    """
    flow = Dataflow("apply")
    raw = op.input("operations", flow, source)
    read = op.map("parse", raw, read_operation)
    op.output("store", op.flat_map("parts", read, _both_parts), store)
    op.output("dead-letters", op.flat_map("unreadable", read, _letter(travel)), dead_letters)
    return flow


class StoreSink(FixedPartitionedSink[ReadOperation, None]):
    """Two partitions on one worker: the record, and memory, which follows it and may fail alone."""

    def __init__(
        self, writer: StoreWriter, topic: str, topic_id: str, tally: Tally, reached: Offsets | None = None
    ) -> None:
        self._writer = writer
        self._topic = topic
        self._topic_id = topic_id
        self._tally = tally
        self._reached = reached or {}

    def list_parts(self) -> list[str]:
        return [STORE, MEMORY]

    def part_fn(self, item_key: str) -> int:
        return (STORE, MEMORY).index(item_key)

    def build_part(
        self, step_id: str, for_part: str, resume_state: None
    ) -> StatefulSinkPartition[ReadOperation, None]:
        if for_part == STORE:
            return _RecordPart(self._writer, self._topic, self._topic_id, self._tally, self._reached)
        return _MemoryPart(self._writer, self._tally)


class _RecordPart(StatefulSinkPartition[ReadOperation, None]):
    def __init__(self, writer: StoreWriter, topic: str, topic_id: str, tally: Tally, reached: Offsets) -> None:
        self._writer = writer
        self._topic = topic
        self._topic_id = topic_id
        self._tally = tally
        self._reached = dict(reached)
        self._buffer: list[ReadOperation] = []

    def write_batch(self, values: list[ReadOperation]) -> None:
        self._buffer.extend(values)

    def snapshot(self) -> None:
        if not self._buffer:
            return
        positions = record_positions(self._buffer, self._topic, self._topic_id)
        applied = [read for read in self._buffer if isinstance(read, Applied)]
        self._tally.applied_batch(self._writer.commit(applied, positions))
        for position in positions:
            self._reached[position.partition] = position.next_offset
        self._tally.applied_to = sum(self._reached.values())
        self._buffer = []


class _MemoryPart(StatefulSinkPartition[ReadOperation, None]):
    def __init__(self, writer: StoreWriter, tally: Tally) -> None:
        self._writer = writer
        self._tally = tally

    def write_batch(self, values: list[ReadOperation]) -> None:
        """Nothing: what has to follow is read from the record."""

    def snapshot(self) -> None:
        try:
            self._tally.followed_to = self._writer.follow()
            self._tally.memory_failure = None
        except Exception as error:
            # Memory is a copy: the record does not wait for it, it lags and catches up with the next epoch.
            failure = f"{type(error).__name__}: {error}"
            if failure != self._tally.memory_failure:
                _log.warning("memory could not follow the record: %s", failure)
            self._tally.memory_failure = failure
        try:
            self._writer.upkeep.maintain()
        except Exception as error:
            # Tables that are not looked after are slow, not wrong; the next round tries again.
            _log.warning("tables could not be optimised: %s: %s", type(error).__name__, error)


def record_positions(batch: Iterable[ReadOperation], topic: str, topic_id: str) -> list[Position]:
    """The applied position of each partition after a batch."""
    reached: dict[int, int] = {}
    for read in batch:
        where = read.coordinates
        reached[where.partition] = max(reached.get(where.partition, 0), where.offset + 1)
    return [
        Position(
            id=f"record:{topic}:{partition}",
            part="record",
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            next_offset=offset,
        )
        for partition, offset in reached.items()
    ]


def _both_parts(read: ReadOperation) -> Iterable[tuple[str, ReadOperation]]:
    yield STORE, read
    yield MEMORY, read


def _letter(
    travel: Callable[[DeadLetter], DeadLetter],
) -> Callable[[ReadOperation], Iterable[tuple[str, Outgoing]]]:
    def lettered(read: ReadOperation) -> Iterable[tuple[str, Outgoing]]:
        if isinstance(read, DeadLetter):
            yield PARTITION, outgoing_letter(travel(read))

    return lettered

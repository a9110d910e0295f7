"""The dataflow that decides: key by thread, plan, search, add the standby, judge, guard, emit."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from time import monotonic
from typing import Any, TypeGuard

from bytewax import operators as op
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import FixedPartitionedSink

from connectors.message import Incoming, Outgoing
from connectors.topic_flow import PARTITION
from flows.crew import Crew
from flows.desk import Desk, Settled
from flows.parse import outgoing, outgoing_letter, parked_letter, read_event
from flows.pending import Held, Pending
from flows.tally import Tally
from store.schema import Arrival, DeadLetter, Decision, Parked

_ONE_ROUND = 0.005
"""Longer than the engine takes to notify all keys (s)."""


def decide(
    source: FixedPartitionedSource[Incoming, Any],
    desk: Desk,
    operations: FixedPartitionedSink[Outgoing, None],
    dead_letters: FixedPartitionedSink[Outgoing, None],
    tally: Tally,
    buckets: int,
    travel: Callable[[DeadLetter], DeadLetter] = lambda letter: letter,
) -> Dataflow:
    """Wire the steps; `travel` makes a dead letter fit its topic.

    Step ids are the keys of the recovery store: renaming one loses its state.
    """
    flow = Dataflow("decide")
    raw = op.input("events", flow, source)
    read = op.branch("readable", op.map("parse", raw, read_event), _is_arrival)
    keyed = op.map("thread", read.trues, bucket_of(buckets))
    judged = op.stateful_batch("judge", keyed, partial(_Waiting, desk, _Turns(desk)))
    settled = op.map("settled", op.map("unkey", judged, _without_key), _count(tally))
    op.output("operations", op.flat_map("operation", settled, _operation), operations)
    unreadable = op.flat_map("unreadable", read.falses, _letter(tally, desk.crew, travel))
    parked = op.flat_map("parked", settled, _parked)
    op.output("dead-letters", op.merge("letters", unreadable, parked), dead_letters)
    return flow


def bucket_of(buckets: int) -> Callable[[Arrival], tuple[str, Arrival]]:
    """Spread threads over a fixed number of state keys, the same in every process and every run."""

    def keyed(arrival: Arrival) -> tuple[str, Arrival]:
        number = zlib.crc32(arrival.event.key.encode("utf-8")) % buckets
        return f"{number:04d}", arrival

    return keyed


class _Turns:
    """One wave for each time the engine comes round.

    The engine notifies every waiting key before it does anything else. If each of them worked, everything read so
    far would be decided before more is read, written or recorded.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ended = 0.0

    def work(self) -> None:
        """Work a wave, unless one has only just ended."""
        if monotonic() - self._ended > _ONE_ROUND:
            self._desk.work()
            self._ended = monotonic()


class _Waiting(StatefulBatchLogic[Arrival, Settled, tuple[Pending | Held, ...]]):
    """The undecided events of one state key. The desk does the work; this is what survives a crash."""

    def __init__(self, desk: Desk, turns: _Turns, pending: tuple[Pending | Held, ...] | None) -> None:
        self._desk = desk
        self._turns = turns
        desk.take(self, pending or ())

    def on_batch(self, values: list[Arrival]) -> tuple[Iterable[Settled], bool]:
        self._desk.take(self, [Pending(arrival) for arrival in values])
        # They wait before they are no longer on their way: at no moment is nothing known of them.
        self._desk.publish()
        self._desk.crew.took(len(values))
        return [], self.RETAIN

    def on_notify(self) -> tuple[Iterable[Settled], bool]:
        self._turns.work()
        settled = self._desk.collect(self)
        return settled, self.RETAIN if self._desk.owns(self) else self.DISCARD

    def on_eof(self) -> tuple[Iterable[Settled], bool]:
        """Nothing: an end of input decides nothing early, and a stop leaves what is pending in the state."""
        return [], self.RETAIN

    def notify_at(self) -> datetime | None:
        return self._desk.next_at(self)

    def snapshot(self) -> tuple[Pending | Held, ...]:
        return self._desk.pending(self)


def _is_arrival(read: Arrival | DeadLetter) -> TypeGuard[Arrival]:
    return isinstance(read, Arrival)


def _without_key(keyed: tuple[str, Settled]) -> Settled:
    return keyed[1]


def _count(tally: Tally) -> Callable[[Settled], Settled]:
    def counted(settled: Settled) -> Settled:
        tally.settle(settled)
        return settled

    return counted


def _operation(settled: Settled) -> Iterable[tuple[str, Outgoing]]:
    if isinstance(settled, Decision | Parked):
        yield PARTITION, outgoing(settled)


def _letter(
    tally: Tally, crew: Crew, travel: Callable[[DeadLetter], DeadLetter]
) -> Callable[[Arrival | DeadLetter], Iterable[tuple[str, Outgoing]]]:
    def lettered(read: Arrival | DeadLetter) -> Iterable[tuple[str, Outgoing]]:
        if isinstance(read, DeadLetter):
            crew.took(1)
            tally.unreadable(read)
            yield PARTITION, outgoing_letter(travel(read))

    return lettered


def _parked(settled: Settled) -> Iterable[tuple[str, Outgoing]]:
    if isinstance(settled, Parked):
        yield PARTITION, outgoing_letter(parked_letter(settled))

"""Where an event stands in its topic, where it was given up, and which of the two came last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from connectors.message import Incoming
from store.schema import Arrival


@dataclass(frozen=True, slots=True)
class Mark:
    """Where and when a message of the events topic came."""

    partition: int | None
    """None where nobody knows: the record keeps offsets alone."""
    offset: int
    arrived: datetime

    def is_after(self, other: Mark) -> bool:
        """Whether it came later: within a partition by offset, else by arrival."""
        if self.partition is not None and self.partition == other.partition:
            return self.offset > other.offset
        if self.partition is None or other.partition is None:
            return (self.arrived, self.offset) > (other.arrived, other.offset)
        return self.arrived > other.arrived


Place = tuple[int, int]
"""Partition and offset."""


@dataclass(slots=True)
class Case:
    """One event that may be brought back."""

    given_up: tuple[Mark, ...] = ()
    """The newest message of each partition that is known to have ended without a Decision."""
    stands: tuple[Mark, ...] = ()
    """The newest message of each partition that is known to stand in the events topic."""
    source: Place = (0, 0)
    """Where, in the topic that is gone through, the message to bring back stands."""
    told: Mark | None = None
    """Of the message of the events topic that the source is, or tells of."""
    messages: int = 0
    """Messages of it that are asked for (count)."""
    origin: str | None = None

    @property
    def waits(self) -> bool:
        """It was never given up, or stands in the topic after that."""
        return not self.given_up or any(
            all(stand.is_after(mark) for mark in self.given_up) for stand in self.stands
        )

    def tell(self, mark: Mark, source: Place) -> None:
        """A message by which the event can be brought back; the newest one will be."""
        if self.told is None or not self.told.is_after(mark):
            self.told, self.source = mark, source


def newest(marks: tuple[Mark, ...], mark: Mark) -> tuple[Mark, ...]:
    """The newest mark of each partition."""
    same = next((each for each in marks if each.partition == mark.partition), None)
    if same is None:
        return (*marks, mark)
    return tuple(mark if each is same and mark.is_after(same) else each for each in marks)


def mark_of(arrival: Arrival) -> Mark:
    """Where and when an event came."""
    place = arrival.coordinates
    return Mark(place.partition, place.offset, arrival.arrived)


def place_of(incoming: Incoming) -> Place:
    """Where a message stands in its topic."""
    return incoming.partition, incoming.offset

"""A topic, whatever carries it: a file, or partitions on brokers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from connectors.message import Incoming, Outgoing
from store.schema import Coordinates

Offsets = Mapping[int, int]
"""An offset for each partition: of the next message to read, or of the one at which to end."""

AT_ONCE = 256
"""Messages of a batch, where nobody asks for another number (count)."""


class Topic(Protocol):
    """One topic: its messages can be read from any place, and appended to. Of one thread at a time."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def id(self) -> str:
        """Which one of that name it is: a topic that was deleted and made again is another one."""

    @property
    def where(self) -> str:
        """What a person calls it, in the middle of a sentence."""

    def starts(self) -> dict[int, int]:
        """The first offset that is kept, of each partition."""

    def ends(self) -> dict[int, int]:
        """The offset after the last message, of each partition."""

    def since(self, moment: datetime) -> dict[int, int]:
        """An offset of each partition before which everything arrived earlier than a moment."""

    def append(self, messages: Sequence[Outgoing]) -> Coordinates:
        """Append messages durably; returns where the last one stands. Raises TopicError when it cannot."""

    def walk(
        self, start: Offsets | None = None, end: Offsets | None = None, at_once: int = AT_ONCE
    ) -> Iterator[list[Incoming]]:
        """The messages from `start` (of a partition that is not named: its first) up to `end` (else its end now).

        Those of a partition in their order, at most `at_once` at a time, and never none. Raises TopicError when
        messages from `start` on are gone.
        """

    def fetch(self, places: Sequence[Coordinates]) -> list[Incoming]:
        """Messages that were read before, in this order, which is ascending within a partition.

        Raises TopicError when one is gone, OSError when they cannot be read now.
        """


def behind(reached: Offsets, ends: Offsets) -> int:
    """Messages between a place and the end (count)."""
    return sum(max(0, end - reached.get(partition, 0)) for partition, end in ends.items())

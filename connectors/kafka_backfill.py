"""A backfill beside live traffic: whoever appends many events waits while many are not decided yet.

How far `decide` is, it commits to its group (`connectors/kafka_lag.py`). What it has read by then is counted as
decided: it may keep up to 10,000 events or 64 MB of them waiting, and those are its own to order.

A partition for which nothing is committed counts from the first message that it keeps: nobody is known to have
decided anything there, and a backfill that ran ahead of a `decide` yet to be started would stand before all that
comes meanwhile. A place outside of what the partition holds is that of an earlier topic, and counts as none.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from kafka import TopicPartition

from connectors.kafka_client import Brokers
from connectors.kafka_topic import KafkaTopic

_POLL: Final = 0.2
"""Time between two looks (s)."""
_PATIENCE: Final = 10.0
"""Time after which a person is told what is waited for (s)."""


@dataclass(slots=True)
class Backfill:
    """Keeps a backfill so many messages ahead of `decide` at most. `close` ends its clients."""

    brokers: Brokers
    topic_name: str
    """The events topic."""
    group: str
    """The group that `decide` commits to: `<prefix>.decide`."""
    limit: int
    """Undecided messages beyond which it waits (count)."""
    stopping: threading.Event = field(default_factory=threading.Event)
    """Once it is set, nothing is waited for; a signal handler may set it."""
    _topic: KafkaTopic | None = None
    _admin: Any = None
    _told: bool = False

    def undecided(self) -> int:
        """Messages of the topic that `decide` has not taken up (count).

        Raises TopicError when there is no such topic, or the brokers do not answer.
        """
        topic = self._topic = self._topic or KafkaTopic(self.brokers, self.topic_name)
        starts = topic.starts()
        # Before the ends: what is committed stands in the topic by then.
        reached = self._committed(list(starts))
        found = 0
        for partition, end in topic.ends().items():
            first, at = starts[partition], reached.get(partition, -1)
            found += max(0, end - (at if first <= at <= end else first))
        return found

    def wait(self, tell: Callable[[str], None]) -> None:
        """Wait as long as too many messages are undecided; `tell` is told so once, after a while.

        Ends at once when `stopping` is set. Raises TopicError when the brokers do not answer.
        """
        began = monotonic()
        while not self.stopping.is_set() and (left := self.undecided()) > self.limit:
            if not self._told and monotonic() - began >= _PATIENCE:
                self._told = True
                tell(
                    f"Waiting for decide: {left:,} messages of {self.topic_name} are undecided, and this goes on "
                    f"at {self.limit:,} (LOOKFIRST_BACKFILL_AHEAD); `lookfirst run decide --brokers "
                    f"{self.brokers.servers}` decides them."
                )
            self.stopping.wait(_POLL)

    def close(self) -> None:
        """Let go of the connections."""
        for client in (self._topic, self._admin):
            if client is not None:
                client.close()
        self._topic = self._admin = None

    def _committed(self, partitions: list[int]) -> dict[int, int]:
        """What is committed, by partition; -1 is nothing."""
        places = [TopicPartition(self.topic_name, partition) for partition in partitions]
        with self.brokers.asked(f"The offsets of the group {self.group} cannot be read"):
            self._admin = self._admin or self.brokers.admin()
            found = self._admin.list_group_offsets({self.group: places})[self.group]
        return {place.partition: committed.offset for place, committed in found.items()}

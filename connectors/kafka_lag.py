"""How far a process is in its topic and where the topic ends, followed beside the flow; for people and lag tools.

What is recorded is committed to a named group every few seconds, so that the usual tools show the lag. Nothing is
ever read from there: the state of the dataflow and the store say where to go on.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Final

from kafka import KafkaAdminClient, TopicPartition
from kafka.structs import OffsetAndMetadata

from connectors.kafka_client import Brokers
from connectors.kafka_topic import KafkaTopic

_PERIOD: Final = 2.0
"""Time between two looks (s)."""
_AGAIN: Final = 3_600.0
"""Time after which offsets that did not move are committed again (s)."""

_log = logging.getLogger(__name__)


class KafkaLag:
    """Told by the source where it is; looks at the ends and commits from a thread of its own."""

    def __init__(
        self, brokers: Brokers, topic: str, group: str, handed: Callable[[int], None] | None = None
    ) -> None:
        """`handed` is told how many messages were handed over, each time, by the thread that did."""
        self.group = group
        self._handed = handed
        self.failure: str | None = None
        """Why the brokers could not be asked when it was last tried."""
        self.joined = threading.Event()
        """Set once the engine has come up, in all processes of a set."""
        self._brokers = brokers
        self._name = topic
        self._lock = threading.Lock()
        self._at: dict[int, int] = {}
        self._recorded: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._commit_all_at = 0.0
        """When everything is committed again (s, on the monotonic clock)."""
        self._warned = False
        self._ends: dict[int, int] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="lag", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self) -> None:
        """Commit what is recorded, and look no more."""
        self._ended.set()
        self._thread.join(_PERIOD * 3)

    def begins(self, partition: int, offset: int) -> None:
        """A partition is read by this process, from this offset on."""
        with self._lock:
            self._at[partition] = offset

    def read(self, partition: int, count: int, offset: int) -> None:
        """So many messages were handed over, and this is where the next one will stand."""
        with self._lock:
            self._at[partition] = offset
        if self._handed:
            self._handed(count)

    def recorded(self, partition: int, offset: int) -> None:
        """What is before this offset is in the state of the dataflow, or done."""
        with self._lock:
            self._recorded[partition] = offset

    @property
    def places(self) -> tuple[int, int]:
        """Where this process is and where its partitions end (offsets, added up over them)."""
        with self._lock:
            ends = sum(max(self._ends.get(partition, 0), at) for partition, at in self._at.items())
            return sum(self._at.values()), ends

    def _follow(self) -> None:
        topic: KafkaTopic | None = None
        admin: KafkaAdminClient | None = None
        while True:
            last = self._ended.wait(_PERIOD)
            try:
                topic = topic or KafkaTopic(self._brokers, self._name)
                admin = admin or self._brokers.admin()
                ends = topic.ends()
                with self._lock:
                    self._ends = ends
                self._commit(admin)
                self.failure = None
            except Exception as error:
                # Whoever wants to know how far it is must not stop it.
                self.failure = self._brokers.told(error.__cause__ or error)
            if last:
                for client in (topic, admin):
                    if client is not None:
                        with suppress(Exception):
                            client.close()
                return

    def _commit(self, admin: KafkaAdminClient) -> None:
        if monotonic() >= self._commit_all_at:
            # Brokers forget what was committed long ago, also of a partition in which nothing happens.
            self._commit_all_at = monotonic() + _AGAIN
            self._committed.clear()
        with self._lock:
            moved = {p: offset for p, offset in self._recorded.items() if self._committed.get(p) != offset}
        if not moved:
            return
        offsets = {TopicPartition(self._name, p): OffsetAndMetadata(offset, "", -1) for p, offset in moved.items()}
        answers = admin.alter_group_offsets(self.group, offsets)
        self._committed |= {place.partition: moved[place.partition] for place, e in answers.items() if not e.errno}
        refused = next((error for error in answers.values() if error.errno), None)
        if refused and not self._warned:
            self._warned = True
            _log.warning("offsets of the group %s cannot be committed (%s)", self.group, refused.__name__)

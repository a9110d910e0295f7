"""What the processes on Kafka have in common: one flow each, over a data folder and topics on brokers."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final, NoReturn

from bytewax.dataflow import Dataflow
from bytewax.testing import cluster_main, run_main

from connectors.kafka_admin import topic_faults
from connectors.kafka_client import Brokers
from connectors.kafka_topic import KafkaTopic, open_topics
from connectors.lock import exclusive, shared
from connectors.topic_file import utc_now
from flows.data_folder import ON_BROKERS, DataFolder
from flows.tally import Tally, Watcher
from flows.taps import Signals
from flows.travel import travelling
from flows.workers import Workers
from store.schema import DeadLetter, Decision, LookfirstError, Parked, Settings, TopicError, UsageError


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a set that decides together."""

    number: int = 0
    addresses: tuple[str, ...] = ()
    """`HOST:PORT` of every process, in the order of their numbers; none is a set of one."""

    @classmethod
    def of(cls, number: int | None, addresses: str | None) -> Member:
        """Read `--process-id` and `--addresses`; raises UsageError when they do not fit together."""
        if number is None and addresses is None:
            return cls()
        if number is None or addresses is None:
            raise UsageError(
                "--process-id and --addresses belong together: give both, or none for a single process."
            )
        known = tuple(address.strip() for address in addresses.replace(";", ",").split(",") if address.strip())
        if not 0 <= number < len(known):
            raise UsageError(
                f"--process-id {number} is none of the {len(known)} processes of --addresses; they count from 0."
            )
        return cls(number, known)

    @property
    def count(self) -> int:
        """Processes of the set (count)."""
        return max(1, len(self.addresses))


ALONE: Final = Member()

_STDOUT: Final = 1
_LOST: Final = "thread panic"
"""What the engine says when a connection to another process of the set has broken."""


@dataclass(slots=True)
class KafkaRun:
    """One process. `stop` may be called from a signal handler."""

    folder: DataFolder
    settings: Settings
    brokers: Brokers
    tell: Callable[[str], None]
    """Passes a sentence on to a person."""
    until_end: bool = False
    """End when everything up to the present end of the topic is done."""
    parent: int | None = None
    """Process id of who supervises it: when that is gone, it stops in order."""
    tally: Tally = field(default_factory=Tally)
    signals: Signals = field(default_factory=Signals.fresh)
    started: datetime = field(default_factory=utc_now)
    workers: Workers = field(init=False)

    def __post_init__(self) -> None:
        self.workers = Workers(self.stop)

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to stop."""
        return self.signals.stopping.is_set()

    def stop(self) -> None:
        """Stop reading, let what is under way finish, and end."""
        self.signals.stopping.set()

    def stop_at_once(self, code: int) -> NoReturn:
        """End the process without waiting for anything."""
        os._exit(code)

    def heed_parent(self) -> None:
        """Stop when whoever supervises it is gone."""
        if self.parent is not None and os.getppid() != self.parent:
            self.stop()

    @contextmanager
    def held(self, role: str) -> Iterator[None]:
        """Have a role in the folder for this process alone, beside others with other roles."""
        with shared(self.folder.recovery), exclusive(self.folder.roles / role):
            self.folder.check_state()
            yield

    def topics(self, *names: str) -> list[KafkaTopic]:
        """Topics of the folder's prefix; raises TopicError when one is missing, or would lose what it holds."""
        made = open_topics(self.brokers, [f"{self.folder.prefix}.{name}" for name in names])
        if faults := topic_faults(self.brokers, self.folder.prefix):
            raise TopicError(" ".join(faults))
        return made

    def travel(self, settled: Decision | Parked) -> Decision | Parked:
        """What became of an event, or as much of it as may travel."""
        if isinstance(settled, Parked):
            return travelling(settled, *self._sizes)
        return travelling(settled, *self._sizes)

    def letter(self, letter: DeadLetter) -> DeadLetter:
        """A dead letter, or as much of it as may travel."""
        return travelling(letter, *self._sizes)

    @property
    def _sizes(self) -> tuple[int, int]:
        return self.settings.event_bytes, self.settings.operation_bytes

    def engine(self, name: str, flow: Dataflow, member: Member) -> None:
        """Run a flow to its end, alone or with the other processes of its set."""
        epoch = timedelta(seconds=self.settings.epoch)
        config = self.folder.recovery_config(f"{name}{ON_BROKERS}")
        if member.count == 1:
            run_main(flow, epoch_interval=epoch, recovery_config=config)
        else:
            with _stdout_kept(), _told_apart(member):
                cluster_main(
                    flow, list(member.addresses), member.number, epoch_interval=epoch, recovery_config=config
                )

    def wait(self, watcher: Watcher | None, each_time: Callable[[], None] | None = None) -> None:
        """Wait until the flow has ended."""

        def look() -> None:
            self.heed_parent()
            if each_time:
                each_time()
            if watcher:
                watcher.update(self.tally)

        self.workers.wait(look)


@contextmanager
def _told_apart(member: Member) -> Iterator[None]:
    """Turn the panic of the engine when another process of its set is gone into a sentence."""
    try:
        yield
    except Exception:
        raise
    except BaseException as panic:
        atexit.register(_leave)
        if _LOST not in str(panic):
            raise
        raise LookfirstError(
            f"Another of the {member.count} processes that decide together has ended, and so does this one; start "
            "all of them again. Nothing is lost."
        ) from panic


def _leave() -> None:
    """End the process now: the threads that the engine leaves behind a panic make the interpreter abort."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(1)


@contextmanager
def _stdout_kept() -> Iterator[None]:
    """Send to nowhere what the engine prints while processes look for each other: stdout is for the counts."""
    try:
        kept = os.dup(_STDOUT)
    except OSError:
        # Somebody has closed it.
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDOUT)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)

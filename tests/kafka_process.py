"""Processes on Kafka: apply and those that decide, over one data folder; started, watched, stopped and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

from connectors.kafka_client import Brokers
from connectors.kafka_topic import KafkaTopic
from connectors.lock import is_held
from connectors.message import Incoming, Outgoing
from flows.apply_run import ApplyRun
from flows.parse import read_event
from flows.supervisor import free_addresses
from store.schema import Arrival, ClassifiedFailure, Settings, parse_event
from store.schema.event import key_of
from store.schema.failpoint import VARIABLE
from store.schema.identity import event_uid
from tests.audit import Audit, Topics, audited
from tests.broker import fresh_prefix, make_topics
from tests.conftest import REPOSITORY
from tests.oracle import Row
from tests.process import KILLED
from tests.sample import opened
from tests.workplace import rows_of

FAULT: Final = 1
"""Exit code of a process that ended by a fault of the run, also by that of another one in its set."""

_POLL: Final = 0.02
"""Time between two looks, at least (s)."""
_FALLING: Final = 30.0
"""Time in which the others of a set have to end when one of it has died (s)."""
_DRAINING: Final = 60.0
"""Time in which a process has to end after a SIGTERM (s): twice the wait for what is under way."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process of ours. What it says is kept in a file, for a pipe that nobody reads would stop it."""

    name: str
    popen: subprocess.Popen[str]
    said_in: Path

    @property
    def said(self) -> str:
        """All it has said on stderr."""
        return self.said_in.read_text(encoding="utf-8", errors="replace")

    @property
    def code(self) -> int | None:
        """Its return code; None while it runs."""
        return self.popen.poll()

    def stop(self) -> None:
        """SIGTERM."""
        self.popen.send_signal(signal.SIGTERM)

    def ended(self, timeout: float = 300) -> str:
        """What it has printed by its end; one that does not end in time is killed, and fails the test."""
        try:
            return self.popen.communicate(timeout=timeout)[0]
        except subprocess.TimeoutExpired:
            self.popen.kill()
            self.popen.communicate()
            raise AssertionError(f"{self.name} did not end within {timeout:g} s: {self.said}") from None

    def counts(self, timeout: float = 300) -> dict[str, Any]:
        """The counts of a process that ends in order; fails when it does not. None of one that never began."""
        out = self.ended(timeout)
        assert self.popen.returncode == 0, f"{self.name}: return code {self.popen.returncode}: {self.said}"
        found: dict[str, Any] = json.loads(out) if out else {}
        return found

    def kill(self) -> None:
        """SIGKILL; fails when it had ended before."""
        self.popen.kill()
        self.popen.communicate()
        assert self.popen.returncode == KILLED, f"{self.name}: return code {self.popen.returncode}: {self.said}"

    def fell(self, timeout: float = _FALLING) -> None:
        """Another one of its set has died: it must end by itself, too."""
        self.ended(timeout)
        assert self.popen.returncode in (FAULT, KILLED), f"{self.name}: return code {self.popen.returncode}"


@dataclass(slots=True)
class Site:
    """A data folder and its topics on brokers."""

    path: Path
    brokers: str
    prefix: str
    _topics: dict[str, KafkaTopic] = field(default_factory=dict)
    _started: list[Process] = field(default_factory=list)

    @classmethod
    @contextmanager
    def at(cls, path: Path, brokers: str, partitions: int = 3) -> Iterator[Site]:
        """A folder with topics that nobody else has; what was started over it and still runs is killed behind."""
        prefix = fresh_prefix()
        make_topics(brokers, prefix, partitions)
        path.mkdir(parents=True, exist_ok=True)
        site = cls(path, brokers, prefix)
        try:
            yield site
        finally:
            site.close()

    @contextmanager
    def beside(self, path: Path) -> Iterator[Site]:
        """Another folder, empty, over the same topics."""
        path.mkdir(parents=True, exist_ok=True)
        site = Site(path, self.brokers, self.prefix)
        try:
            yield site
        finally:
            site.close()

    def close(self) -> None:
        """Kill what still runs, and let go of the connections."""
        for process in self._started:
            if process.code is None:
                process.popen.kill()
                process.popen.communicate()
        for topic in self._topics.values():
            topic.close()
        self._topics.clear()

    def topic(self, name: str) -> KafkaTopic:
        """A topic: `events`, `operations` or `dead-letters`."""
        if name not in self._topics:
            brokers = Brokers.at(self.brokers, Settings(kafka_answer=20))
            self._topics[name] = KafkaTopic(brokers, f"{self.prefix}.{name}")
        return self._topics[name]

    def produce(self, lines: Iterable[str]) -> None:
        """Append events, as a producer does."""
        made = [Outgoing(key_of(line), line, {"origin": f"made:{n}"}) for n, line in enumerate(lines, 1)]
        if made:
            self.topic("events").append(made)

    def written(self, name: str = "operations") -> int:
        """Messages of a topic (count)."""
        return sum(self.topic(name).ends().values())

    def incoming(self, name: str) -> list[Incoming]:
        """The messages of a topic, those of a partition in their order."""
        return list(chain.from_iterable(self.topic(name).walk()))

    def messages(self, name: str) -> list[dict[str, Any]]:
        """Their values."""
        return [json.loads(incoming.value) for incoming in self.incoming(name)]

    def topics(self) -> Topics:
        """All that stands on the three of them."""
        return Topics.read(self.topic)

    def suspects(self) -> set[str]:
        """Uids of the events that an unclean end left under suspicion, less those that are settled."""
        named: set[str] = set()
        for file in (self.path / "recovery" / "marks").glob("decide-*.json"):
            try:
                marks = json.loads(file.read_bytes())
            except FileNotFoundError:
                continue
            named |= {suspect["event"] for suspect in marks.get("suspects", ())}
        return named - self.settled() if named else named

    def settled(self) -> set[str]:
        """Uids of the events that were decided or parked, by the operations topic."""
        events = (each["arrival"]["event"] for each in self.messages("operations") if "arrival" in each)
        return {event_uid(each["workspace"], each["source"], each["thread"], each["id"]) for each in events}

    def holds(self, role: str) -> bool:
        """Whether a process has a role in the folder at this moment, such as `apply` or `decide-0`."""
        return is_held(self.path / "recovery" / "roles" / role)

    def run(self, name: str, *arguments: str, **settings: str) -> Process:
        """A command of `lookfirst` over this folder and these brokers."""
        kept = {variable: value for variable, value in os.environ.items() if not variable.startswith("LOOKFIRST_")}
        logs = self.path.with_name(f"{self.path.name}.said")
        logs.mkdir(exist_ok=True)
        said_in = logs / f"{len(self._started):03d} {name}"
        at = ("--brokers", self.brokers, "--data", str(self.path))
        with said_in.open("w", encoding="utf-8") as said:
            popen = subprocess.Popen(
                [sys.executable, "-m", "flows.cli.main", *arguments, *at],
                cwd=REPOSITORY,
                env={**kept, "LOOKFIRST_TOPIC_PREFIX": self.prefix, **settings},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
            )
        process = Process(name, popen, said_in)
        self._started.append(process)
        return process

    def apply(self, *options: str, **settings: str) -> Process:
        """`lookfirst run apply`; `settings` are variables, such as `LOOKFIRST_EPOCH="0.1"`."""
        return self.run("apply", "run", "apply", "--json", *options, **settings)

    def decide(
        self, count: int, *options: str, only: Mapping[int, Mapping[str, str]] | None = None, **settings: str
    ) -> list[Process]:
        """A set of `lookfirst run decide`; `only` are more variables for some of its processes, by number."""
        addresses = ";".join(free_addresses(count))
        more = [("--process-id", str(n), "--addresses", addresses) if count > 1 else () for n in range(count)]
        return [
            self.run(
                f"decide-{number}",
                "run",
                "decide",
                "--json",
                *options,
                *member,
                **{**settings, **(only or {}).get(number, {})},
            )
            for number, member in enumerate(more)
        ]

    def finish(self, count: int = 1, **settings: str) -> list[dict[str, Any]]:
        """Decide and apply all there is; returns the counts of those that decided, then those of apply."""
        apply = self.apply(**settings)
        counts = [process.counts() for process in self.decide(count, "--until-end", **settings)]
        return [*counts, *drained([apply])]

    def rows(self) -> dict[str, list[Any]]:
        """The rows of the store."""
        return rows_of(opened(self.path))


def uids(lines: Iterable[str]) -> set[str]:
    """Uids of the lines that are events."""
    found: set[str] = set()
    for line in lines:
        with suppress(ClassifiedFailure):
            found.add(parse_event(line).uid)
    return found


def armed(name: str) -> dict[str, str]:
    """The variable that makes a process die at a failpoint."""
    return {VARIABLE: name}


def drained(processes: Sequence[Process], timeout: float = _DRAINING) -> list[dict[str, Any]]:
    """SIGTERM to all of them; their counts, for each must end in order within the time."""
    for process in processes:
        process.stop()
    until = time.monotonic() + timeout
    return [process.counts(max(0.1, until - time.monotonic())) for process in processes]


def wait_until(condition: Callable[[], bool], processes: Sequence[Process], timeout: float = 180) -> bool:
    """Wait for something the processes do; False when one of them ended first."""
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        if condition():
            return True
        if any(process.code is not None for process in processes):
            return False
        if began > deadline:
            said = "\n".join(f"{process.name}: {process.said}" for process in processes)
            raise AssertionError(f"nothing came within {timeout:g} s\n{said}")
        # Looking asks the broker: most of the time is left to who is looked at.
        time.sleep(max(_POLL, 4 * (time.monotonic() - began)))


def checked(site: Site, expected: Mapping[str, list[Row]] | None = None) -> tuple[Audit, list[str]]:
    """The audit of a finished site, and all that is wrong, the order of its Decisions among it.

    `expected` are the rows of another site with the same events. They arrived there at another time; and what a
    person has edited here is held against the topic alone.
    """
    topics = site.topics()
    amount = topics.rows()
    if expected is not None:
        expected = _here(expected, topics, amount)
    found = audited(opened(site.path), topics, amount, expected, repeatable=True)
    return found, [*found.faults, *(f"out of order: {told}" for told in out_of_order(topics.operations))]


def _here(
    expected: Mapping[str, list[Row]], topics: Topics, amount: Mapping[str, list[Row]]
) -> dict[str, list[Row]]:
    arrived: dict[str, datetime] = {}
    for incoming in topics.events:
        read = read_event(incoming)
        if isinstance(read, Arrival):
            arrived.setdefault(read.event.uid, read.arrived)
    said = (json.loads(incoming.value) for incoming in topics.operations)
    by_hand = {message["row"] for message in said if message["kind"] == "edit"}
    there = [row for row in expected["tasks"] if row["id"] not in by_hand]
    edited = [row for row in amount["tasks"] if row["id"] in by_hand]
    events = [{**row, "arrived": arrived[row["id"]]} for row in expected["events"]]
    return {**expected, "tasks": [*there, *edited], "events": events}


def out_of_order(operations: Iterable[Incoming]) -> list[str]:
    """Threads whose first Decisions do not come in the order of their events, by the operations topic."""
    seen: set[str] = set()
    last: dict[tuple[str, int], tuple[int, int]] = {}
    found: list[str] = []
    for incoming in operations:
        message = json.loads(incoming.value)
        if message["kind"] != "decision":
            continue
        uid, arrival = message["view"]["event"], message["arrival"]
        if uid in seen:
            # A repetition that is dropped.
            continue
        seen.add(uid)
        place = arrival["coordinates"]
        thread = (f"{arrival['event']['workspace']}/{arrival['event']['thread']}", place["partition"])
        before = last.get(thread, (-1, -1))
        if place["offset"] < before[0]:
            found.append(f"{thread[0]}: offset {place['offset']} at {incoming.offset}, {before[0]} at {before[1]}")
        last[thread] = (place["offset"], incoming.offset)
    return found


def children(pid: int) -> dict[str, int]:
    """Process ids of what a supervisor has started, by role: `apply`, `decide 0`, …"""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    found: dict[str, int] = {}
    for child in map(int, listed):
        words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        if "decide" in words:
            number = words[words.index("--process-id") + 1] if "--process-id" in words else "0"
            found[f"decide {number}"] = child
        elif "apply" in words:
            found["apply"] = child
    return found


@contextmanager
def beside(run: ApplyRun) -> Iterator[None]:
    """Apply in this process beside something else, and stop when that is done."""
    thread = threading.Thread(target=run.run)
    thread.start()
    try:
        yield
    finally:
        run.stop()
        thread.join(60)


def is_gone(pid: int) -> bool:
    """Whether a process is no more, or only waits to be buried."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"

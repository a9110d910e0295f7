"""`bench resume`: seconds from start to first decision after a kill, beside a start with nothing to take up."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path

from connectors.message import Outgoing
from flows.data_folder import DataFolder
from flows.maintain import writer_of
from store.schema import LookfirstError, Position, Settings
from store.schema.event import key_of

_AT_ONCE = 10_000
"""Events appended to the topic at once (count)."""
_UNREAD = 200
"""Events of known threads beyond the first of each: the kill comes in the middle of them (count)."""
_UNAPPLIED = 2_000
"""Decisions at the end of the topic that apply had not written when the kill came (count)."""
_POLL = 0.002
"""Between two looks at the topic (s)."""
_START = datetime(2024, 1, 1, tzinfo=UTC)


class BenchError(LookfirstError):
    """A process of a bench did not do what is measured."""


@dataclass(frozen=True, slots=True)
class Resume:
    """The figures of one number of threads."""

    threads: int
    seconds: float
    """From the start of `lookfirst run` after the kill to its first decision on the topic."""
    fresh_seconds: float
    """The same of a run in a new folder."""
    share_of_fresh: float
    """What a start with nothing to take up takes of it."""
    recovery_rows: int
    """Rows of the recovery store that the dataflow takes up."""
    recovery_bytes: int
    """Its size, with the logs that the kill left."""
    operations_bytes: int
    """Size of the operations topic, of which the start finds the end."""


def resume(threads: int, settings: Settings, say: Callable[[str], None]) -> Resume:
    """Decide an event of each thread, have that killed, and time the first decision of the next run."""
    with tempfile.TemporaryDirectory(prefix="lookfirst-bench-") as path:
        fresh, killed = (DataFolder.at(Path(path) / name, settings) for name in ("fresh", "killed"))
        _produce(fresh, 1)
        fresh.topic("operations")
        say("timing a run in a new folder")
        fresh_seconds = _first_decision(fresh)
        say(f"deciding an event of each of {threads:,} threads, until a kill")
        _produce(killed, threads)
        _kill(killed, threads + _UNREAD // 2)
        _apply_most(killed, settings)
        rows, size = _state(killed)
        operations_bytes = killed.topic("operations").path.stat().st_size
        say("timing the run after the kill")
        seconds = _first_decision(killed)
    return Resume(
        threads=threads,
        seconds=round(seconds, 2),
        fresh_seconds=round(fresh_seconds, 2),
        share_of_fresh=round(fresh_seconds / seconds, 3),
        recovery_rows=rows,
        recovery_bytes=size,
        operations_bytes=operations_bytes,
    )


def _produce(folder: DataFolder, threads: int) -> None:
    """An event of each thread, then some more of threads that have had one."""
    topic = folder.topic("events")
    lines = _lines(threads)
    while batch := list(islice(lines, _AT_ONCE)):
        topic.append([Outgoing(key_of(line), line) for line in batch])


def _lines(threads: int) -> Iterator[str]:
    for number in range(threads + _UNREAD):
        yield json.dumps(
            {
                "id": str(number),
                "source": "bench",
                "thread": f"thread-{number % threads}",
                "at": (_START + timedelta(seconds=number)).isoformat(),
                "author": {"id": f"u{number % 60}", "name": f"Person {number % 60}"},
                "text": f"As you know, the weather of day {number} was fine.",
            }
        )


def _kill(folder: DataFolder, judgments: int) -> None:
    """Have a process decide until it is killed."""
    command = [sys.executable, "-m", "flows.bench.killed", str(folder.path), str(judgments)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != -signal.SIGKILL:
        raise BenchError(f"The process that was to be killed ended by itself: {_last_line(ended.stderr)}")


def _apply_most(folder: DataFolder, settings: Settings) -> None:
    """A store that says of itself that it has applied all but the end of the operations topic."""
    store, operations = folder.store(create=True), folder.topic("operations")
    writer = writer_of(store, settings)
    reached = Position(
        id=f"record:{operations.name}:0",
        part="record",
        topic=operations.name,
        topic_id=operations.id,
        partition=0,
        next_offset=max(0, operations.end().offset - _UNAPPLIED),
    )
    writer.commit([], [reached])
    writer.follow()


def _first_decision(folder: DataFolder) -> float:
    """Seconds from the start of a run to the first message that it appends to the operations topic."""
    operations = folder.topic("operations")
    before = operations.end().offset
    command = [sys.executable, "-m", "flows.cli.main", "run", "--data", str(folder.path), "--json"]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            while operations.end().offset == before and process.poll() is None:
                time.sleep(_POLL)
            seconds = time.perf_counter() - start
        finally:
            process.kill()
        _, told = process.communicate()
    if operations.end().offset == before:
        raise BenchError(f"The run ended before it had decided anything: {_last_line(told)}")
    return seconds


def _state(folder: DataFolder) -> tuple[int, int]:
    """Rows and bytes of the recovery store of `decide`."""
    # Counted in a copy: whoever opens the store itself takes in what its logs hold, which is work of the start.
    copy = folder.path / "counted"
    shutil.copytree(folder.recovery / "decide", copy)
    size = sum(path.stat().st_size for path in copy.iterdir())
    rows = sum(_rows(path) for path in sorted(copy.glob("*.sqlite3")))
    shutil.rmtree(copy)
    return rows, size


def _rows(database: Path) -> int:
    with closing(sqlite3.connect(database)) as opened:
        tables = [name for (name,) in opened.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return sum(opened.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables)  # noqa: S608


def _last_line(told: str) -> str:
    return (told.strip().splitlines() or ["it said nothing"])[-1]

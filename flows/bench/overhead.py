"""`bench overhead`: events a second through decide and apply, beside the bare rate of the same reads."""

from __future__ import annotations

import resource
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.bench.generate import Generator, fill
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.judge.contract import Judge
from store import Store
from store.schema import Settings


@dataclass(frozen=True, slots=True)
class Overhead:
    """The figures of one size."""

    rows: int
    events: int
    events_per_second: float
    bare_events_per_second: float
    """The same reads, on the same tables, each as soon as those it waited for are back, and nothing else done."""
    share_of_bare: float
    queries_per_event: float
    text_queries_per_event: float
    reads: int
    resident_megabytes: float
    """Highest resident memory of the process so far."""


def overhead(
    rows: int, events: int, judge: Judge, settings: Settings, seed: int, say: Callable[[str], None]
) -> Overhead:
    """Fill a store with `rows` tasks, run `events` through it, then make the same reads again, bare."""
    with tempfile.TemporaryDirectory(prefix="lookfirst-bench-") as path:
        folder = DataFolder.at(Path(path), settings)
        say(f"filling a store with {rows:,} tasks")
        fill(folder.store(create=True), rows, seed, settings)
        lines = [
            Line(event.model_dump_json(), f"bench:{number}")
            for number, event in enumerate(Generator(seed + 1).events(events, "run-"))
        ]
        log = _Log()
        run = EmbeddedRun(folder, settings, judge, watched=log.watch)
        say(f"deciding {events:,} events")
        start = time.perf_counter()
        tally = run.run(lines)
        took = time.perf_counter() - start
        say(f"making the same {len(log.calls):,} reads again, bare")
        bare = log.replay(folder.store(), settings.readers)
    return Overhead(
        rows=rows,
        events=events,
        events_per_second=round(tally.decided / took, 1),
        bare_events_per_second=round(tally.decided / bare, 1),
        share_of_bare=round(bare / took, 3),
        queries_per_event=round(tally.queries / tally.decided, 2),
        text_queries_per_event=round(tally.text_queries / tally.decided, 2),
        reads=len(log.calls),
        resident_megabytes=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 0),
    )


@dataclass(frozen=True, slots=True)
class _Call:
    part: str
    method: str
    arguments: tuple[Any, ...]
    after: int
    """Reads that were back when this one was made: the plans of a wave need the hits of it, and so on (count)."""


class _Log:
    """Every read that was made, in order, with its arguments."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []
        self.back = 0
        self.lock = threading.Lock()

    def watch(self, store: Store) -> Store:
        """The same store, with every read noted."""
        return Store(
            store.tables,
            _Watched(store.record, "record", self),  # type: ignore[arg-type]
            _Watched(store.memory, "memory", self),  # type: ignore[arg-type]
        )

    def replay(self, store: Store, readers: int) -> float:
        """Seconds that the reads take on their own, with as many readers."""
        parts = {"record": store.record, "memory": store.memory}
        start = time.perf_counter()
        asked: set[Future[Any]] = set()
        back = 0
        with ThreadPoolExecutor(readers) as pool:
            for call in self.calls:
                while back < call.after:
                    done, asked = wait(asked, return_when=FIRST_COMPLETED)
                    back += len(done)
                asked.add(pool.submit(getattr(parts[call.part], call.method), *call.arguments))
        return time.perf_counter() - start


class _Watched:
    def __init__(self, target: object, part: str, log: _Log) -> None:
        self._target = target
        self._part = part
        self._log = log

    def __getattr__(self, method: str) -> Callable[..., Any]:
        read = getattr(self._target, method)

        def noted(*arguments: Any) -> Any:
            # An argument that is used up by reading it is kept as a list.
            kept = tuple(
                argument if isinstance(argument, str | int | Sequence | frozenset | set) else list(argument)
                for argument in arguments
            )
            with self._log.lock:
                self._log.calls.append(_Call(self._part, method, kept, after=self._log.back))
            try:
                return read(*kept)
            finally:
                with self._log.lock:
                    self._log.back += 1

        return noted

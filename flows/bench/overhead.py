"""`bench overhead`: events a second through decide and apply, beside the bare rate of the same reads."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.bench.generate import Generator, fill
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun, Line
from flows.judge.contract import Judge
from store import Store
from store.schema import Settings

_READERS = 8


@dataclass(frozen=True, slots=True)
class Overhead:
    """The figures of one size."""

    rows: int
    events: int
    events_per_second: float
    bare_events_per_second: float
    """The same reads, on the same tables, with nothing else done."""
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
        bare = log.replay(folder.store())
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


class _Log:
    """Every read that was made, in order, with its arguments."""

    def __init__(self) -> None:
        self.calls: list[_Call] = []

    def watch(self, store: Store) -> Store:
        """The same store, with every read noted."""
        return Store(
            store.tables,
            _Watched(store.record, "record", self.calls),  # type: ignore[arg-type]
            _Watched(store.memory, "memory", self.calls),  # type: ignore[arg-type]
        )

    def replay(self, store: Store) -> float:
        """Seconds that the reads take on their own, with as many readers."""
        parts = {"record": store.record, "memory": store.memory}
        start = time.perf_counter()
        with ThreadPoolExecutor(_READERS) as pool:
            asked = [pool.submit(getattr(parts[c.part], c.method), *c.arguments) for c in self.calls]
            for future in asked:
                future.result()
        return time.perf_counter() - start


class _Watched:
    def __init__(self, target: object, part: str, calls: list[_Call]) -> None:
        self._target = target
        self._part = part
        self._calls = calls

    def __getattr__(self, method: str) -> Callable[..., Any]:
        read = getattr(self._target, method)

        def noted(*arguments: Any) -> Any:
            # An argument that is used up by reading it is kept as a list.
            kept = tuple(
                argument if isinstance(argument, str | int | Sequence | frozenset | set) else list(argument)
                for argument in arguments
            )
            self._calls.append(_Call(self._part, method, kept))
            return read(*kept)

        return noted

"""`bench input` and `bench search`: how much a judge is handed, and how long a look takes, as the past grows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory

from flows.bench.generate import Generator, fill
from flows.daemons import Daemons
from flows.data_folder import DataFolder
from flows.overlay import Overlay
from flows.retrieve.budget import memory_characters
from flows.retrieve.look import Looker
from flows.retrieve.plan import plan
from store import Store
from store.schema import Arrival, Coordinates, Settings


@dataclass(frozen=True, slots=True)
class Input:
    """Characters of memory that one judgment is handed."""

    rows: int
    looks: int
    mean: float
    most: int
    bound: int
    """What no judgment may exceed."""


@dataclass(frozen=True, slots=True)
class Search:
    """Milliseconds of one look, alone: queries, thread rows, standby, people."""

    rows: int
    looks: int
    median_ms: float
    slowest_ms: float
    """Of 20 looks 19 are faster."""
    bare_ms: float
    """Its text query alone, median."""
    times_bare: float


def input_size(rows: int, looks: int, settings: Settings, seed: int, say: Callable[[str], None]) -> Input:
    """Fill a store with `rows` tasks and look for `looks` events, with nothing decided in between."""
    with _filled(rows, settings, seed, say) as (store, pool):
        looker = Looker(store, Overlay(), settings, pool)
        sizes = []
        for arrival in _arrivals(looks, seed):
            [view] = looker.look([arrival], {})
            sizes.append(memory_characters(view))
    return Input(rows, looks, round(fmean(sizes), 1), max(sizes), settings.memory_characters)


def search_time(rows: int, looks: int, settings: Settings, seed: int, say: Callable[[str], None]) -> Search:
    """Fill a store with `rows` tasks, and time looks beside the bare text query of each."""
    with _filled(rows, settings, seed, say) as (store, pool):
        looker = Looker(store, Overlay(), settings, pool)
        took, bare = [], []
        for arrival in _arrivals(looks, seed):
            began = time.perf_counter()
            looker.look([arrival], {})
            took.append(time.perf_counter() - began)
            [query] = [query for query in plan(arrival.event, settings) if query.lane == "text"][:1]
            began = time.perf_counter()
            store.memory.text(arrival.event.workspace, query.terms, settings.hits)
            bare.append(time.perf_counter() - began)
    typical, typical_bare = median(took), median(bare)
    return Search(
        rows=rows,
        looks=looks,
        median_ms=round(typical * 1e3, 1),
        slowest_ms=round(sorted(took)[int(len(took) * 0.95)] * 1e3, 1),
        bare_ms=round(typical_bare * 1e3, 1),
        times_bare=round(typical / typical_bare, 1),
    )


@contextmanager
def _filled(
    rows: int, settings: Settings, seed: int, say: Callable[[str], None]
) -> Iterator[tuple[Store, Daemons]]:
    with (
        TemporaryDirectory(prefix="lookfirst-bench-") as path,
        Daemons(settings.readers, "read") as pool,
    ):
        store = DataFolder.at(Path(path), settings).store(create=True)
        say(f"filling a store with {rows:,} tasks")
        fill(store, rows, seed, settings)
        yield store, pool


def _arrivals(count: int, seed: int) -> Iterator[Arrival]:
    for offset, event in enumerate(Generator(seed + 1).events(count, "look-")):
        yield Arrival(event=event, arrived=event.at, coordinates=Coordinates(topic="bench", offset=offset))

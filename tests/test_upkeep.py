"""Upkeep of the tables: they stay small however long they are written, and nobody who reads beside it notices."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event as Signal
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import lancedb
import pytest

from flows.apply import record_positions
from store import Store, open_store
from store.commit import StoreWriter
from store.schema import Arrival, Coordinates, Create, Event, Participant, Settings
from store.schema.identity import operation_id, task_id
from store.tables import MEMORY, RECORD
from store.upkeep import Upkeep
from tests.strategies import EVENTS, OPERATIONS, applied, decision
from tests.workplace import START, rows_of

ALL = (*RECORD, *MEMORY)
COMMITS = 50


def write(writer: StoreWriter, offsets: range) -> None:
    """A commit for each offset, of one event that creates one task; memory follows."""
    for offset in offsets:
        author = Participant(id="ben", name="Ben", address="ben@example.org")
        event = Event(
            id=str(offset), source="chat", thread=f"t{offset}", at=START, author=author, text="please review it"
        )
        operation = operation_id(event.uid, 0, 0)
        create = Create(
            id=operation,
            number=0,
            task=task_id(operation),
            title="review",
            quote=event.text,
            reason="it asks",
            not_nothing="new",
        )
        came = Arrival(event=event, arrived=START, coordinates=Coordinates(topic=EVENTS, offset=offset))
        batch = [applied(decision(came, [create]), offset)]
        writer.commit(batch, record_positions(batch, OPERATIONS, "id"))
        writer.follow()


def written(path: Path, **fields: Any) -> tuple[Store, StoreWriter]:
    """A store and its writer."""
    store = open_store(path, create=True)
    given = {"unindexed_rows": 512, "fragments": 8, **fields}
    return store, StoreWriter(store.tables, store.record, store.memory, Upkeep(store.tables, **given))


def versions(store: Store) -> dict[str, int]:
    """Versions of each table (count)."""
    folders = {name: store.tables.path / f"{name}.lance" / "_versions" for name in ALL}
    return {name: len(list(folder.glob("*.manifest"))) for name, folder in folders.items()}


def files(path: Path) -> int:
    """Files under a folder (count)."""
    return sum(1 for found in path.rglob("*") if found.is_file())


def read_on(path: Path, stop: Signal, results: Queue[Any]) -> None:
    """Read all tables until told to stop: as a command does, and as a notebook that opens a table and reads it."""
    store = open_store(path)
    rounds, errors, rows = 0, [], 0
    while not stop.is_set():
        try:
            for name in RECORD:
                store.record.arrow(name)
                lancedb.connect(path).open_table(name).to_arrow()
            rows = max(rows, len(store.memory.text("default", ["review"], 50)))
            lancedb.connect(path).open_table("memory").search("review", query_type="fts").limit(9).to_arrow()
            rounds += 1
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")
    results.put((rounds, rows, errors))


@contextmanager
def reader(path: Path) -> Iterator[list[Any]]:
    """A process that reads beside; the list holds what it has to say once it has ended."""
    context = multiprocessing.get_context("spawn")
    stop, results, said = context.Event(), context.Queue(), []
    process = context.Process(target=read_on, args=(path, stop, results))
    process.start()
    try:
        yield said
    finally:
        stop.set()
        said.extend(results.get(timeout=60))
        process.join(60)


@dataclass
class Steps:
    """A clock that goes on by a step each time somebody looks."""

    step: float = 0.0
    now: float = 1e9

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@dataclass
class Shelf:
    """Tables that only note what is done to them."""

    path: Path
    size: int = 1_000_000
    unindexed: int = 0
    optimized: list[str] = field(default_factory=list)
    kept: list[timedelta] = field(default_factory=list)

    def __getitem__(self, name: str) -> Any:
        def optimize(cleanup_older_than: timedelta) -> None:
            self.optimized.append(name)
            self.kept.append(cleanup_older_than)

        stats = SimpleNamespace(num_unindexed_rows=self.unindexed, num_indexed_rows=self.size)
        return SimpleNamespace(optimize=optimize, count_rows=lambda: self.size, index_stats=lambda _: stats)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    """Tables of a million rows whose only version was made long ago."""
    for name in ALL:
        (tmp_path / f"{name}.lance" / "_versions").mkdir(parents=True)
    return Shelf(tmp_path)


def keeper(shelf: Shelf, clock: Steps, **fields: Any) -> Upkeep:
    """The upkeep of noted tables."""
    return Upkeep(shelf, 512, 48, clock=clock, **fields)  # type: ignore[arg-type]


def test_defaults_are_those_of_the_settings() -> None:
    """Whoever makes an upkeep without saying so gets the settings' own upkeep."""
    settings = Settings()
    fields = Upkeep.__dataclass_fields__
    assert (settings.versions_for, settings.upkeep_seconds) == (
        fields["versions_for"].default,
        fields["upkeep_seconds"].default,
    )


@pytest.mark.slow
def test_a_store_that_is_read_and_written_stays_small(tmp_path: Path) -> None:
    """50 commits, optimised and cleaned up beside a reader: no read fails, few versions and files, equal rows."""
    store, writer = written(tmp_path / "store", versions_for=3.0)
    twin, other = written(tmp_path / "twin")
    cleaned = 0
    with reader(tmp_path / "store") as said:
        for offset in range(COMMITS):
            write(writer, range(offset, offset + 1))
            cleaned += len(writer.upkeep.maintain())
    write(other, range(COMMITS))
    rounds, found, errors = said
    assert [] == errors
    assert rounds > 0
    assert found > 0
    assert cleaned >= len(ALL)
    deadline = monotonic() + 30
    while max(versions(store).values()) > 3 and monotonic() < deadline:
        sleep(0.5)
        writer.upkeep.optimize_all()
    assert max(versions(store).values()) <= 3
    assert COMMITS <= versions(twin)["tasks"] == len(twin.tables["tasks"].list_versions())
    assert files(tmp_path / "store") < files(tmp_path / "twin") / 5
    assert rows_of(twin, tuple(RECORD)) == rows_of(store, tuple(RECORD))
    assert COMMITS == store.tables["memory"].count_rows() == twin.tables["memory"].count_rows()


def test_a_kept_handle_reads_on_while_its_version_is_kept(tmp_path: Path) -> None:
    """A notebook's handle that never looks for news reads its own version through commits and clean-ups."""
    _, writer = written(tmp_path)
    write(writer, range(3))
    held = lancedb.connect(tmp_path).open_table("tasks")
    before = held.to_arrow()
    write(writer, range(3, 9))
    writer.upkeep.optimize_all()
    assert before == held.to_arrow()
    held.checkout_latest()
    assert 9 == held.to_arrow().num_rows


@pytest.mark.filterwarnings("error")
def test_no_time_for_old_versions_ends_a_kept_handle(tmp_path: Path) -> None:
    """At 0 only the newest versions stay: our handles read on; one that looks for no news fails until it does."""
    store, writer = written(tmp_path, versions_for=0.0)
    write(writer, range(3))
    held = lancedb.connect(tmp_path).open_table("tasks")
    write(writer, range(3, 9))
    sleep(0.01)
    writer.upkeep.optimize_all()
    with pytest.raises(Exception, match="Not found"):
        held.to_arrow()
    assert 9 == store.record.arrow("tasks").num_rows
    held.checkout_latest()
    assert 9 == held.to_arrow().num_rows
    assert max(versions(store).values()) <= 3


def test_a_round_ends_when_its_time_is_used_up(shelf: Shelf) -> None:
    """No further table is begun after the budget; the next round begins with those that were left."""
    shelf.unindexed = 500_000
    upkeep = keeper(shelf, Steps(step=1.0), upkeep_seconds=2.5)
    first = upkeep.maintain()
    assert 0 < len(first) < len(ALL)
    second = upkeep.maintain()
    assert set() == (set(first) & set(second)) - {"memory"}
    while len(shelf.optimized) < len(ALL):
        assert upkeep.maintain()
    assert set(ALL) == set(shelf.optimized[: len(ALL)])


def test_one_table_is_done_however_short_the_time(shelf: Shelf) -> None:
    """A budget that one table uses up still leads through all tables, one a round."""
    shelf.unindexed = 500_000
    upkeep = keeper(shelf, Steps(step=60.0), upkeep_seconds=0.001)
    assert [1, 1, 1] == [len(upkeep.maintain()) for _ in range(3)]


def test_old_versions_go_from_a_large_table_that_is_written_little(shelf: Shelf) -> None:
    """A million rows, a commit a second: too few rows to optimise for, but the versions are as old as may be."""
    clock = Steps()
    upkeep = keeper(shelf, clock, versions_for=3_600.0)
    assert [] == upkeep.maintain()
    for wear in upkeep._wear.values():
        wear.commits, wear.rows = 3_600, 3_600
    clock.now += 3_599
    assert [] == upkeep.maintain()
    clock.now += 1
    assert set(ALL) == set(upkeep.maintain())
    assert {timedelta(hours=1)} == set(shelf.kept)
    assert [] == upkeep.maintain()


def test_wear_of_earlier_runs_counts(tmp_path: Path) -> None:
    """Short runs of one commit each, far below every threshold: together they are optimised like a long one."""
    done: list[str] = []
    runs = 0
    while "tasks" not in done and runs < 12:
        _, writer = written(tmp_path)
        write(writer, range(runs, runs + 1))
        done = writer.upkeep.maintain()
        runs += 1
    assert 1 < runs < 12

"""Memory made anew from the record, and the store made anew from the operations topic.

Both hold the run's lock. Whenever they are interrupted, what is left is whole, or known to be behind.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.disk import swap
from connectors.lock import exclusive
from connectors.topic import Topic
from flows.apply import record_positions
from flows.data_folder import DataFolder, check_positions
from flows.maintain import writer_of
from flows.parse import read_operation
from flows.steps import Progress, no_progress
from flows.topics import topics_of
from store import Store, open_store
from store.derive import Applied
from store.schema import Position, Settings, StoreError
from store.vectors import VECTORS

REBUILDING: Final = "store.rebuilding"
"""A new store while it is made, beside the old one; after the swap the old one, until it is removed."""
DROPPED: Final = "memory.dropped"
"""The old memory table within the store, until it is removed."""

_TASKS: Final = 2_048
"""Tasks projected at once (rows)."""
_MESSAGES: Final = 4_096
"""Messages of the operations topic in one commit (count)."""


@dataclass(frozen=True, slots=True)
class RebuiltStore:
    """What a rebuild of the store has read and made."""

    messages: int = 0
    unreadable: int = 0
    """Messages that make no sense; `apply` put them to the dead letters when it first read them."""
    dropped: int = 0
    """Second decisions of an identity."""
    tasks: int = 0
    events: int = 0


def rebuild_memory(folder: DataFolder, settings: Settings, progress: Progress = no_progress) -> int:
    """Throw the memory table away and project every task of the record again; returns how many (rows).

    Memory's position goes back to 0 first and forward last: interrupted in between, memory is known to be behind,
    and the next run, or the next rebuild, completes it. Raises StoreError when a run is using the
    folder, when there is no store, and when the record itself cannot be read.
    """
    path = _store_path(folder)
    if not path.is_dir():
        raise StoreError(f"There is no store in {path}; `lookfirst rebuild store` makes it from the topic.")
    with exclusive(folder.recovery):
        store = _opened(path)
        positions = store.record.positions()
        _place(store, settings, positions, 0)
        _drop_memory(path)
        store = _opened(path)
        writer = writer_of(store, settings)
        found = store.tables["tasks"].search().select(["id"]).to_arrow()["id"].to_pylist()
        for start in range(0, len(found), _TASKS):
            progress("tasks", start, len(found))
            store.memory.project(store.record, found[start : start + _TASKS])
            writer.upkeep.maintain()
        progress("tasks", len(found), len(found))
        writer.upkeep.optimize_all()
        _place(store, settings, positions, None)
    return len(found)


def rebuild_store(
    folder: DataFolder, settings: Settings, progress: Progress = no_progress, brokers: str | None = None
) -> RebuiltStore:
    """Apply the whole operations topic to a new store, beside the old one, and put it in its place.

    The topic is the one on `brokers`, or without any that of the folder. The old store is removed last: an
    interruption leaves the old or the new one, whole, and a folder that the next rebuild removes. Raises
    StoreError when a run is using the folder, when the topic is not there or not whole, and when the old store has
    applied more than the topic holds, or another topic; TopicError when the brokers do not have it.
    """
    if brokers is None:
        _check_there(folder)
    path, making = _store_path(folder), folder.path / REBUILDING
    with ExitStack() as held:
        operations = held.enter_context(topics_of(folder, settings, brokers))("operations")
        _check_whole(operations)
        held.enter_context(exclusive(folder.recovery))
        _check_old(path, operations)
        shutil.rmtree(making, ignore_errors=True)
        rebuilt = _fill(making, operations, settings, progress)
        _carry_vectors(path, making)
        if path.is_dir():
            swap(path, making)
            shutil.rmtree(making)
        else:
            making.rename(path)
    return rebuilt


def _fill(path: Path, operations: Topic, settings: Settings, progress: Progress) -> RebuiltStore:
    store = open_store(path, create=True)
    writer = writer_of(store, settings)
    ends = operations.ends()
    messages, total = 0, sum(ends.values())
    unreadable = dropped = 0
    for found in operations.walk(end=ends, at_once=_MESSAGES):
        progress("messages", messages, total)
        messages += len(found)
        read = [read_operation(incoming) for incoming in found]
        applied = [each for each in read if isinstance(each, Applied)]
        report = writer.commit(applied, record_positions(read, operations.name, operations.id))
        unreadable += len(read) - len(applied)
        dropped += report.dropped
        writer.follow()
        writer.upkeep.maintain()
    progress("messages", total, total)
    writer.upkeep.optimize_all()
    return RebuiltStore(messages, unreadable, dropped, store.record.count("tasks"), store.record.count("events"))


def _check_there(folder: DataFolder) -> None:
    """Refuse to make a topic in a folder that has none."""
    path = folder.path / "topics" / f"{folder.prefix}.operations.jsonl"
    if path.is_file():
        return
    if folder.is_on_brokers:
        raise StoreError(
            f"The store in {folder.path} is filled from a topic on brokers; name them with --brokers."
        )
    raise StoreError(f"There is no operations topic {path} to rebuild the store from; put it back first.")


def _check_whole(operations: Topic) -> None:
    """Refuse a topic of which a part was not kept: what it said of the rows is nowhere else."""
    for partition, first in operations.starts().items():
        if first > 0:
            raise StoreError(
                f"Partition {partition} of the {operations.where} begins at offset {first} and no longer at 0: a "
                "store made from it would lack what is gone; keep the old one, or put the whole topic back."
            )


def _store_path(folder: DataFolder) -> Path:
    return folder.path / "store"


def _opened(path: Path) -> Store:
    """The store; its memory table is made when an earlier rebuild has left none."""
    return open_store(path, create=True)


def _place(store: Store, settings: Settings, positions: Iterable[Position], offset: int | None) -> None:
    """Put memory's positions to an offset, or to where the record is."""
    placed = [
        place.model_copy(
            update={
                "part": "memory",
                "id": place.id.replace("record:", "memory:", 1),
                "next_offset": place.next_offset if offset is None else offset,
            }
        )
        for place in positions
        if place.part == "record"
    ]
    writer_of(store, settings).commit([], placed)


def _carry_vectors(path: Path, making: Path) -> None:
    """Take the vectors along: they are of texts, which stay the same, and may have cost hours or money.

    The next run looks through them, and makes anew what does not fit.
    """
    old = path / f"{VECTORS}.lance"
    if old.is_dir():
        try:
            shutil.copytree(old, making / old.name)
        except OSError:
            # A copy of a copy is no reason to be without a store.
            shutil.rmtree(making / old.name, ignore_errors=True)


def _drop_memory(path: Path) -> None:
    dropped = path / DROPPED
    shutil.rmtree(dropped, ignore_errors=True)
    (path / "memory.lance").rename(dropped)
    shutil.rmtree(dropped)


def _check_old(path: Path, operations: Topic) -> None:
    """Refuse to replace a store by less than it holds; one that cannot be read is no reason."""
    if not path.is_dir():
        return
    try:
        store = open_store(path)
        store.record.positions()
    except Exception:
        return
    check_positions(store, operations)

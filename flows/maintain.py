"""Upkeep of a data folder while nothing runs on it: small recovery stores, optimised tables, few old versions."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.disk import bytes_under
from connectors.lock import exclusive
from connectors.recovery_store import Compacted, compact
from flows.data_folder import DataFolder
from flows.steps import Progress, no_progress
from store import Store
from store.commit import StoreWriter
from store.schema import Settings, StoreError
from store.upkeep import Upkeep
from store.vector_writer import VectorWriter
from store.vectors import Vectors


@dataclass(frozen=True, slots=True)
class Freed:
    """What one upkeep has freed; a part that is not there has None."""

    recovery: Compacted | None = None
    store_bytes_before: int | None = None
    store_bytes_after: int | None = None


def writer_of(store: Store, settings: Settings) -> StoreWriter:
    """A writer with the limits of the settings; whoever makes one holds the lock."""
    upkeep = Upkeep(
        store.tables,
        settings.unindexed_rows,
        settings.fragments,
        settings.versions_for,
        settings.upkeep_seconds,
    )
    return StoreWriter(store.tables, store.record, store.memory, upkeep)


def vector_writer_of(vectors: Vectors, settings: Settings) -> VectorWriter:
    """A writer of the vectors with the limits of the settings; whoever makes one holds the lock."""
    return VectorWriter(vectors, settings.vector_index_rows, settings.versions_for)


def maintain(folder: DataFolder, settings: Settings, progress: Progress = no_progress) -> Freed:
    """Compact the recovery stores, optimise all tables, and remove versions older than `versions_for`.

    Raises StoreError when a run is using the folder, when there is nothing in it, and when a recovery store is
    damaged; nothing is lost then.
    """
    store_path = folder.path / "store"
    if not (folder.recovery.is_dir() or store_path.is_dir()):
        raise StoreError(f"There is nothing in {folder.path}; `lookfirst run --data …` begins.")
    with exclusive(folder.recovery):
        progress("recovery stores", 0, 2)
        recovery = compact(folder.recovery)
        if not store_path.is_dir():
            return Freed(recovery)
        progress("tables", 1, 2)
        before = bytes_under(store_path)
        store = folder.store()
        writer_of(store, settings).upkeep.optimize_all()
        if store.memory.vectors:
            vector_writer_of(store.memory.vectors, settings).optimize()
        return Freed(recovery, before, bytes_under(store_path))

"""The tables of a store as they lie on disk, and whether they have become slow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from connectors.disk import bytes_under
from flows.diagnosis import Check, IndexShown, TableShown, checked
from store import Store
from store.schema import Settings
from store.tables import MEMORY, RECORD

_MAINTAIN: Final = "`lookfirst maintain`, with no run in progress"


def tables_shown(store: Store) -> tuple[TableShown, ...]:
    """Every table with its sizes."""
    return tuple(_shown(store, name) for name in (*RECORD, *MEMORY))


def _shown(store: Store, name: str) -> TableShown:
    table = store.tables[name]
    folder = store.tables.path / f"{name}.lance"
    indexes = []
    for index in table.list_indices():
        stats = table.index_stats(index.name)
        if stats is not None:
            shown = IndexShown(name=index.name, indexed=stats.num_indexed_rows, unindexed=stats.num_unindexed_rows)
            indexes.append(shown)
    return TableShown(
        name=name,
        rows=table.count_rows(),
        fragments=table.stats()["fragment_stats"]["num_fragments"],
        # The library reads every version for this; their files are as many.
        versions=sum(1 for _ in (folder / "_versions").glob("*.manifest")),
        bytes=bytes_under(folder),
        indexes=tuple(indexes),
    )


def wear_of(tables: tuple[TableShown, ...], settings: Settings) -> Iterator[Check]:
    """Whether the tables are due for upkeep."""
    behind = [
        f"{index.unindexed:,} of {table.name}.{index.name}"
        for table in tables
        for index in table.indexes
        if index.unindexed > 2 * max(settings.unindexed_rows, index.indexed // 8)
    ]
    bare = [
        f"{table.name} ({len(table.indexes)} of {len(spec.indexes())})"
        for table, spec in zip(tables, {**RECORD, **MEMORY}.values(), strict=True)
        if len(table.indexes) < len(spec.indexes())
    ]
    if bare:
        yield checked("indexes", "note", f"Tables lack indexes: {', '.join(bare)}.", "`lookfirst run` makes them")
    elif behind:
        yield checked("indexes", "note", f"Reads are slow over unindexed rows: {', '.join(behind)}.", _MAINTAIN)
    else:
        yield checked("indexes", "ok", "Every index is there and holds nearly all rows.")
    most = max(tables, key=lambda table: table.versions)
    bound = 2 * max(settings.fragments, settings.versions_for / max(settings.epoch, 1.0))
    if most.versions > bound:
        said = f"Table {most.name} keeps {most.versions:,} versions, which slows each read of it."
        yield checked("versions", "note", said, _MAINTAIN)
    else:
        yield checked("versions", "ok", f"No table keeps more than {most.versions:,} versions.")

"""The Lance tables of a store: what they are called, what is indexed, and how they are opened."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
from lancedb.index import FTS, BTree, LabelList

from store.arrow import FORMAT_KEY, arrow_schema
from store.schema import FORMAT, EventRow, Frozen, PersonRow, Position, SessionEntry, StoreError, TaskRow
from store.schema.base import UtcTime
from store.schema.change import ChangeRow
from store.schema.rows import DecisionRow

Table = Any
"""A `lancedb.table.Table`; the library carries no types."""


class MemoryRow(Frozen):
    """What can be searched of a task: a copy that may lag, never read as the truth."""

    row_id: str
    workspace: str
    text: str
    """Title and body, for the full-text lane."""
    identifiers: tuple[str, ...]
    """Keys of the exact identifiers in it, for the exact lane."""
    updated: UtcTime


@dataclass(frozen=True, slots=True)
class TableSpec:
    """One table: its row model, the column that identifies a row, and its indexes."""

    model: type[Frozen]
    key: str = "id"
    scalar: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    text: tuple[str, ...] = ()

    def indexes(self) -> Mapping[str, Any]:
        """Index configurations by column."""
        # A word tokenizer that knows Chinese and Japanese words; stemming and stop words are for one
        # language only, and this table holds many.
        words = FTS(
            base_tokenizer="icu", stem=False, remove_stop_words=False, with_position=False, max_token_length=256
        )
        return {
            **{column: BTree() for column in (self.key, *self.scalar)},
            **{column: LabelList() for column in self.labels},
            **dict.fromkeys(self.text, words),
        }


# In the order of a commit: the event rows last, so that a readable event means a readable Decision.
RECORD: Mapping[str, TableSpec] = {
    "changes": TableSpec(ChangeRow, scalar=("row_id", "position")),
    "tasks": TableSpec(TaskRow, scalar=("workspace", "thread", "updated")),
    "people": TableSpec(PersonRow, scalar=("workspace",)),
    "sessions": TableSpec(SessionEntry, scalar=("thread",)),
    "decisions": TableSpec(DecisionRow, scalar=("decision",)),
    "events": TableSpec(EventRow, scalar=("workspace", "thread", "at")),
    "positions": TableSpec(Position),
}
MEMORY: Mapping[str, TableSpec] = {
    "memory": TableSpec(MemoryRow, key="row_id", scalar=("workspace",), labels=("identifiers",), text=("text",)),
}
_ALL = {**RECORD, **MEMORY}

_PLACE_IN_SOURCE = re.compile(r",? /\S+\.rs:\d+:\d+")


@dataclass(slots=True)
class Tables:
    """Open handles. Each read looks for the newest version, so that another process's commits are seen."""

    path: Path
    _open: dict[str, Table] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Table:
        return self._open[name]


def open_tables(path: Path, *, create: bool) -> Tables:
    """Open a store's tables, making those that are missing when `create` is true.

    Raises StoreError when there is no store at `path` (and none is to be made), when it was written in another
    format, or when its folder cannot be used.
    """
    try:
        if not create and not path.is_dir():
            raise StoreError(f"There is no store in {path}; `lookfirst run --data …` makes one.")
        path.mkdir(parents=True, exist_ok=True)
        database = lancedb.connect(path, read_consistency_interval=timedelta(0))
        present = set(database.list_tables().tables)
        tables = Tables(path)
        filled = _is_made(path, "positions") and database.open_table("positions").count_rows() > 0
        for name, spec in _ALL.items():
            if name in present and _is_made(path, name):
                table = database.open_table(name)
                _check_format(path, name, table)
            elif create and not (filled and name in RECORD):
                shutil.rmtree(path / f"{name}.lance", ignore_errors=True)
                table = database.create_table(name, schema=arrow_schema(spec.model))
            else:
                # Made empty, it would say that there is nothing, while the positions say that all is applied.
                raise StoreError(
                    f"The store in {path} has no table {name}; make it anew with `lookfirst rebuild store`."
                )
            tables._open[name] = table
        if create:
            _create_indexes(tables)
    except (OSError, RuntimeError) as error:
        raise StoreError(
            f"The store in {path} cannot be opened: {cause_of(error)}; free some space, check its permissions, or "
            "make it anew with `lookfirst rebuild store`."
        ) from error
    return tables


def cause_of(error: Exception) -> str:
    """What the database says went wrong, less its type names and the place in its own source."""
    return _PLACE_IN_SOURCE.sub("", str(error).removeprefix("lance error: ")).rstrip(".")


def _is_made(path: Path, name: str) -> bool:
    """A table whose making was cut short, by a kill or a full disk, has a folder and no version yet."""
    return any((path / f"{name}.lance" / "_versions").glob("*.manifest"))


def _create_indexes(tables: Tables) -> None:
    for name, spec in _ALL.items():
        table = tables[name]
        have = {column for index in table.list_indices() for column in index.columns}
        for column, config in spec.indexes().items():
            if column not in have:
                table.create_index(column, config=config)


def _check_format(path: Path, name: str, table: Table) -> None:
    written = (table.schema.metadata or {}).get(FORMAT_KEY, b"none").decode()
    if written != str(FORMAT):
        raise StoreError(
            f"Table {name} of the store in {path} has format {written}, this release reads {FORMAT}; "
            "use the release that wrote it, or rebuild the store from the operations topic."
        )

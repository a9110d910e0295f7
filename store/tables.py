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
from store.schema import STORE_FORMAT, EventRow, Frozen, PersonRow, Position, SessionEntry, StoreError, TaskRow
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
    """Title and body, as they were written."""
    terms: str
    """Terms of the text, for the full-text lane (`store.terms`)."""
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
    text: Mapping[str, str] = field(default_factory=dict)
    """Full-text columns, each with its tokenizer."""

    def indexes(self) -> Mapping[str, Any]:
        """Index configurations by column."""
        return {
            **{column: BTree() for column in (self.key, *self.scalar)},
            **{column: LabelList() for column in self.labels},
            **{column: full_text(tokenizer) for column, tokenizer in self.text.items()},
        }


# In the order of a commit: the event rows last, so that a readable event means a readable Decision.
RECORD: Mapping[str, TableSpec] = {
    "changes": TableSpec(ChangeRow, scalar=("row_id", "position")),
    "tasks": TableSpec(TaskRow, scalar=("workspace", "thread", "updated")),
    "people": TableSpec(PersonRow, scalar=("workspace",)),
    "sessions": TableSpec(SessionEntry, scalar=("thread",)),
    "decisions": TableSpec(DecisionRow, scalar=("decision",)),
    "events": TableSpec(EventRow, scalar=("workspace", "thread", "at", "source_id")),
    "positions": TableSpec(Position),
}
MEMORY: Mapping[str, TableSpec] = {
    "memory": TableSpec(
        MemoryRow,
        key="row_id",
        scalar=("workspace",),
        labels=("identifiers",),
        # The terms are what the lane asks. The text is for whoever searches by hand: words, also Chinese and
        # Japanese ones.
        text={"terms": "whitespace", "text": "icu"},
    ),
}
_ALL = {**RECORD, **MEMORY}
OPTIONAL = ("vectors",)
"""Tables of an own making (`store.vectors`), which a store is whole without."""

_PLACE_IN_SOURCE = re.compile(r",? /\S+\.rs:\d+:\d+")


@dataclass(slots=True)
class Tables:
    """Open handles. Each read looks for the newest version, so that another process's commits are seen."""

    path: Path
    _open: dict[str, Table] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Table:
        return self._open[name]

    def find(self, name: str) -> Table | None:
        """A table that need not be there; one that was made since the store was opened is found, too."""
        table = self._open.get(name)
        if table is None and name in OPTIONAL and (table := self._optional(name)) is not None:
            self._open[name] = table
        return table

    def keep(self, name: str, table: Table) -> None:
        """Keep a table that was made while the store is open."""
        self._open[name] = table

    def let_go(self, name: str) -> None:
        """Let go of a table that is to be removed."""
        self._open.pop(name, None)

    def _optional(self, name: str) -> Table | None:
        """A table that is missing, or damaged, is made anew by its writer: nothing else depends on it."""
        if not _is_made(self.path, name):
            return None
        try:
            return _connected(self.path).open_table(name)
        except (OSError, RuntimeError, ValueError):
            return None


def open_tables(path: Path, *, create: bool) -> Tables:
    """Open a store's tables, making those that are missing when `create` is true.

    Raises StoreError when there is no store at `path` (and none is to be made), when it was written in another
    format, or when its folder cannot be used.
    """
    try:
        if not create and not path.is_dir():
            raise StoreError(f"There is no store in {path}; `lookfirst run --data …` makes one.")
        path.mkdir(parents=True, exist_ok=True)
        database = _connected(path)
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


def _connected(path: Path) -> Any:
    return lancedb.connect(path, read_consistency_interval=timedelta(0))


def cause_of(error: Exception) -> str:
    """What the database says went wrong, less its type names and the place in its own source."""
    return _PLACE_IN_SOURCE.sub("", str(error).removeprefix("lance error: ")).rstrip(".")


def full_text(tokenizer: str) -> FTS:
    """A full-text index for texts in many languages: stemming and stop words are for one only."""
    return FTS(
        base_tokenizer=tokenizer, stem=False, remove_stop_words=False, with_position=False, max_token_length=256
    )


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
    if written != str(STORE_FORMAT):
        raise StoreError(
            f"Table {name} of the store in {path} has format {written}, this release reads {STORE_FORMAT}; "
            "use the release that wrote it, or make it anew with `lookfirst rebuild store`."
        )

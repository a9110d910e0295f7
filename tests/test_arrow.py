"""Table schemas are derived from the row models, versioned, and cannot change unnoticed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import lancedb
import pyarrow as pa
import pytest
from pydantic import create_model

from store import open_store
from store.arrow import FORMAT_KEY, arrow_schema, from_arrow, to_arrow
from store.schema import (
    STORE_FORMAT,
    Action,
    DecisionRow,
    EventRow,
    Frozen,
    PersonRow,
    Position,
    SessionEntry,
    StoreError,
    TaskRow,
    Version,
)
from store.schema.change import ChangeRow
from store.tables import MEMORY, RECORD, MemoryRow

ALL = {**RECORD, **MEMORY}
MOMENT = datetime(2024, 5, 1, 9, 30, 15, 123_457, tzinfo=UTC)
VERSION = Version(at=MOMENT, seq=(1 << 62) + 7, operation="o-1")

_ID = "string not null"
_WHEN = "timestamp[us, tz=UTC] not null"
_VERSION = "struct<at: timestamp[us, tz=UTC] not null, seq: int64 not null, operation: string not null>"
PINNED: Mapping[str, Mapping[str, str]] = {
    "changes": {
        "table": _ID,
        "row_id": _ID,
        "workspace": _ID,
        "field": _ID,
        "action": _ID,
        "value": _ID,
        "version": f"{_VERSION} not null",
        "seen": _VERSION,
        "event": "string",
        "arrived": _WHEN,
        "id": _ID,
        "partition": "int64 not null",
        "position": "int64 not null",
    },
    "tasks": {
        "id": _ID,
        "workspace": _ID,
        "thread": _ID,
        "title": _ID,
        "state": _ID,
        "due": "date32[day]",
        "body": _ID,
        "assignees": "list<item: string> not null",
        "requester": "string",
        "participants": "list<item: string> not null",
        "identifiers": "list<item: string> not null",
        "evidence": "list<item: string> not null",
        "created": _WHEN,
        "updated": _WHEN,
        "version": f"{_VERSION} not null",
    },
    "people": {
        "id": _ID,
        "workspace": _ID,
        "names": "list<item: string> not null",
        "addresses": "list<item: string> not null",
        "first_seen": _WHEN,
        "last_seen": _WHEN,
    },
    "sessions": {
        "id": _ID,
        "workspace": _ID,
        "thread": _ID,
        "parent": "string",
        "kind": _ID,
        "position": "int64 not null",
        "at": _WHEN,
        "payload": _ID,
    },
    "decisions": {
        "id": _ID,
        "decision": _ID,
        "event": _ID,
        "workspace": _ID,
        "partition": "int64 not null",
        "position": "int64 not null",
        "stands": "bool not null",
        "arrived": _WHEN,
        "message": _ID,
    },
    "events": {
        "id": _ID,
        "workspace": _ID,
        "source": _ID,
        "thread": _ID,
        "source_id": _ID,
        "kind": _ID,
        "at": _WHEN,
        "arrived": _WHEN,
        "seq": "int64 not null",
        "author": "string",
        "author_label": "string",
        "subject": "string",
        "text": _ID,
        "outcome": _ID,
        "decision": "string",
        "rows": "list<item: string> not null",
        "postdated": "bool not null",
        "unkeyed": "bool not null",
    },
    "positions": {
        "id": _ID,
        "part": _ID,
        "topic": _ID,
        "topic_id": _ID,
        "partition": "int64 not null",
        "next_offset": "int64 not null",
    },
    "memory": {
        "row_id": _ID,
        "workspace": _ID,
        "text": _ID,
        "terms": _ID,
        "identifiers": "list<item: string> not null",
        "updated": _WHEN,
    },
}
"""What stores of format 2 hold. A change here needs a new format and a way to read the old one."""

_TASK = {"id": "t-1", "workspace": "w", "thread": "t", "title": "a", "state": "open", "body": "b"}
_WHEN_TASK = {"created": MOMENT, "updated": MOMENT, "version": VERSION}
_CHANGE = {
    "id": "c-1",
    "table": "tasks",
    "row_id": "t-1",
    "workspace": "w",
    "action": Action.SET,
    "arrived": MOMENT,
}
_EVENT = {"id": "e-1", "workspace": "w", "source": "s", "thread": "t", "source_id": "1", "kind": "mail", "seq": 3}
ROWS: Mapping[str, tuple[Frozen, ...]] = {
    "changes": (
        ChangeRow(**_CHANGE, version=VERSION, partition=0, position=1),
        ChangeRow(**{**_CHANGE, "id": "c-2"}, version=VERSION, seen=VERSION, event="e", partition=0, position=2),
    ),
    "tasks": (
        TaskRow(**_TASK, **_WHEN_TASK),
        TaskRow(
            **{**_TASK, "id": "t-2", "title": "", "body": "\u00e9\U0001f600\n\u202e"},
            **_WHEN_TASK,
            due=date(1970, 1, 1),
            assignees=("p-1", ""),
            requester="",
            participants=("p-1", "p-2"),
            identifiers=("ticket:A-1",),
            evidence=("e-1",),
        ),
    ),
    "people": (
        PersonRow(id="p-1", workspace="w", first_seen=MOMENT, last_seen=MOMENT),
        PersonRow(
            id="p-2",
            workspace="w",
            names=("Anna", "安娜"),
            addresses=("a@example.org",),
            first_seen=datetime(1, 1, 1, tzinfo=UTC),
            last_seen=datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        ),
    ),
    "sessions": (
        SessionEntry(
            id="s-1", workspace="w", thread="t", parent=None, kind="gap", position=0, at=MOMENT, payload="{}"
        ),
        SessionEntry(
            id="s-2", workspace="w", thread="t", parent="s-1", kind="summary", position=1, at=MOMENT, payload=""
        ),
    ),
    "decisions": tuple(
        DecisionRow(
            id=f"d-1@0:{position}",
            decision="d-1",
            event="e-1",
            workspace="w",
            partition=0,
            position=position,
            stands=position == 0,
            arrived=MOMENT,
            message="{}",
        )
        for position in (0, 1)
    ),
    "events": (
        EventRow(
            **_EVENT,
            at=MOMENT,
            arrived=MOMENT,
            author=None,
            author_label=None,
            subject=None,
            text="",
            outcome="parked",
            decision=None,
        ),
        EventRow(
            **{**_EVENT, "id": "e-2"},
            at=MOMENT,
            arrived=MOMENT + timedelta(microseconds=1),
            author="p-1",
            author_label="Anna",
            subject="s",
            text="x",
            outcome="created",
            decision="d-1",
            rows=("t-1", "t-2"),
            postdated=True,
            unkeyed=True,
        ),
    ),
    "positions": (
        Position(id="record:o:0", part="record", topic="o", topic_id="i", partition=0, next_offset=1 << 40),
    ),
    "memory": (
        MemoryRow(row_id="t-1", workspace="w", text="", terms="", identifiers=(), updated=MOMENT),
        MemoryRow(row_id="t-2", workspace="w", text="x", terms="x y", identifiers=("ticket:A-1",), updated=MOMENT),
    ),
}


def spelled(schema: pa.Schema) -> dict[str, str]:
    """A schema as words."""
    return {field.name: f"{field.type}{'' if field.nullable else ' not null'}" for field in schema}


def test_persisted_schemas_are_pinned(tmp_path: Path) -> None:
    """Table names, columns and types of a new store are those of format 2, each marked with it."""
    made = open_store(tmp_path, create=True)
    assert 2 == STORE_FORMAT
    assert sorted(PINNED) == sorted(lancedb.connect(tmp_path).list_tables().tables)
    for name, columns in PINNED.items():
        assert list(columns.items()) == list(spelled(arrow_schema(ALL[name].model)).items())
        written = made.tables[name].schema
        assert list(columns.items()) == list(spelled(written).items())
        assert b"2" == written.metadata[FORMAT_KEY]


def test_every_indexed_column_is_a_column() -> None:
    """Keys and indexes name fields of their row models."""
    for spec in ALL.values():
        assert {spec.key, *spec.indexes()} <= set(spec.model.model_fields)


@pytest.mark.parametrize("name", ROWS)
def test_rows_come_back_from_arrow_and_from_lance_as_they_were(tmp_path: Path, name: str) -> None:
    """Microseconds, None, empty texts and empty tuples survive both ways."""
    rows, model = list(ROWS[name]), ALL[name].model
    table = to_arrow(model, rows)
    assert rows == from_arrow(model, table)
    made = open_store(tmp_path, create=True)
    made.tables[name].add(table)
    assert rows == from_arrow(model, made.tables[name].to_arrow().sort_by(ALL[name].key))
    reopened = open_store(tmp_path)
    found = reopened.tables[name].search().where("true").to_arrow()
    assert rows == sorted(from_arrow(model, found), key=lambda row: str(getattr(row, ALL[name].key)))


def test_every_table_has_rows_in_the_round_trip() -> None:
    """A new table is tested too."""
    assert set(ALL) == set(ROWS) == set(PINNED)


def test_moment_of_another_zone_is_the_same_moment() -> None:
    """The store keeps moments, in UTC."""
    berlin = MOMENT.astimezone(timezone(timedelta(hours=2)))
    row = MemoryRow(row_id="t", workspace="w", text="", terms="", identifiers=(), updated=berlin)
    (found,) = from_arrow(MemoryRow, to_arrow(MemoryRow, [row]))
    assert (MOMENT, timedelta(0)) == (found.updated, found.updated.utcoffset())


def test_columns_that_a_model_does_not_know_are_left_out() -> None:
    """A search adds its score to what it returns."""
    (row,) = ROWS["positions"]
    scored = to_arrow(Position, [row]).append_column("_score", pa.array([0.5]))  # type: ignore[list-item]
    assert [row] == from_arrow(Position, scored)


def test_no_rows_have_the_schema_too() -> None:
    """A table of nothing is still a table of that model."""
    assert (0, arrow_schema(TaskRow)) == (to_arrow(TaskRow, []).num_rows, to_arrow(TaskRow, []).schema)
    assert [] == from_arrow(TaskRow, to_arrow(TaskRow, []))


@pytest.mark.parametrize(
    "annotation",
    [
        bytes,
        time,
        timedelta,
        Decimal,
        UUID,
        Any,
        object,
        dict[str, str],
        list[str],
        set[str],
        frozenset[str],
        str | int,
        tuple[str, int],
        tuple[dict[str, str], ...],
        tuple[str | int, ...],
        Literal["a", 1],
        Literal[None],
    ],
    ids=str,
)
def test_unsupported_field_is_a_type_error(annotation: Any) -> None:
    """A model cannot grow a field that the store would silently change."""
    model = create_model("Grown", __base__=Frozen, field=(annotation, ...))
    with pytest.raises(TypeError, match="field"):
        arrow_schema(model)


def test_store_of_another_format_is_refused(tmp_path: Path) -> None:
    """One sentence names the table, the folder, both formats and the way out."""
    open_store(tmp_path, create=True)
    database = lancedb.connect(tmp_path)
    for written, named in (({FORMAT_KEY: b"1"}, "format 1"), ({}, "format none")):
        foreign = arrow_schema(Position).with_metadata(written)
        database.create_table("positions", schema=foreign, mode="overwrite")
        for create in (False, True):
            with pytest.raises(StoreError) as refused:
                open_store(tmp_path, create=create)
            sentence = str(refused.value)
            assert f"Table positions of the store in {tmp_path} has {named}, this release reads 2" in sentence
            assert "\n" not in sentence


def test_store_that_is_not_there_is_refused_and_not_made(tmp_path: Path) -> None:
    """Reading never makes a store; the sentence says what does."""
    with pytest.raises(StoreError, match=r"There is no store in .*; `lookfirst run"):
        open_store(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_store_with_a_missing_table_is_refused_for_reading_and_completed_for_writing(tmp_path: Path) -> None:
    """A store whose making was cut short is made complete by the next run."""
    open_store(tmp_path, create=True)
    lancedb.connect(tmp_path).drop_table("sessions")
    with pytest.raises(StoreError, match="has no table sessions"):
        open_store(tmp_path)
    assert 0 == open_store(tmp_path, create=True).record.count("sessions")
    open_store(tmp_path)


def test_store_at_a_file_is_refused(tmp_path: Path) -> None:
    """A path that cannot be a folder is told in one sentence."""
    (tmp_path / "store").write_text("not a folder")
    for create in (False, True):
        with pytest.raises(StoreError, match="store"):
            open_store(tmp_path / "store", create=create)

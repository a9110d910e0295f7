"""Versions and changes: what rows are folded from."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from store.schema.base import Frozen, UtcTime
from store.schema.identity import derive_id

PERSON_SEQ = 1 << 62
"""Added to the sequence of a person's operation, so that it wins against an event of the same instant."""

TableName = Literal["tasks", "people"]


class Version(Frozen):
    """`(event time, seq, operation id)`: a total order, the same wherever it is computed."""

    at: UtcTime
    seq: int
    operation: str

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key

    def __le__(self, other: Version) -> bool:
        return self._key <= other._key

    @property
    def _key(self) -> tuple[object, ...]:
        return (self.at, self.seq, self.operation)


class Action(StrEnum):
    """What a change does to a field, or to the whole row."""

    SET = "set"
    """The later version wins."""
    ADD = "add"
    """Put a value into a set; the later of add and remove wins for that value."""
    REMOVE = "remove"
    UNION = "union"
    """Put a value into a set that only grows."""
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    CREATE = "create"
    """The row exists; until this has arrived its other changes are kept and not shown."""
    DELETE = "delete"
    """Absorbs every change but a person's restore."""
    RESTORE = "restore"


class Change(Frozen):
    """One step of one row: (row, field, value, version, operation, version seen)."""

    table: TableName
    row_id: str
    workspace: str
    field: str = ""
    """Empty for a change of the whole row."""
    action: Action
    value: str = ""
    """Text; dates and times in ISO 8601; empty for none."""
    version: Version
    seen: Version | None = None
    """The version of the row in the View the change was decided from."""
    event: str | None = None
    """Uid of the event it came from; None for a person's operation."""
    arrived: UtcTime

    @property
    def identity(self) -> tuple[str, str, str, str, str]:
        """Equal for the same change however often it is delivered."""
        return (self.row_id, self.field, self.action, self.value, self.version.operation)


class ChangeRow(Change):
    """A change as it is kept, with where the message it came from stands."""

    id: str
    partition: int
    position: int


def change_id(change: Change) -> str:
    """The id of a change is its identity, so that a repeated delivery is the same row."""
    return derive_id("c", *change.identity)

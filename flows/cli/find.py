"""From what a person types to the id of one row."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from store.record import Record
from store.schema import UsageError

_TYPED: Final = re.compile(r"([a-z])-([0-9a-f]{6,24})")
_SHORT: Final = 12
"""Characters of an id on a page; a million rows and more tell each other apart by them."""
_MATCHES: Final = 10
"""Matches of an ambiguous prefix that are listed (count)."""

_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    "t": ("tasks", "id"),
    "p": ("people", "id"),
    "e": ("events", "id"),
}
_CHANGED: Final = ("changes", "row_id")


def short_id(row_id: str) -> str:
    """As much of an id as a page shows; `find_row` takes it back."""
    return row_id[:_SHORT]


def find_row(record: Record, typed: str) -> str:
    """The id of the task, person or event that `typed` is, or is a unique beginning of.

    Raises UsageError when it is no id, names no row, or begins several.
    """
    letter = _letter(typed, "t, p or e", _COLUMNS)
    found = record.starting_with(*_COLUMNS[letter], typed)
    if not found and letter == "t" and record.starting_with(*_CHANGED, typed):
        raise UsageError(
            f"The task {typed} is deleted or not created yet; `lookfirst why {typed}` tells its story."
        )
    return _only(typed, found)


def find_task(record: Record, typed: str) -> str:
    """The id of a task, listed or deleted: of whatever has changes."""
    _letter(typed, "t", ("t",))
    return _only(typed, record.starting_with(*_CHANGED, typed))


def _letter(typed: str, letters: str, known: Mapping[str, object] | tuple[str, ...]) -> str:
    match = _TYPED.fullmatch(typed)
    if match is None or match[1] not in known:
        raise UsageError(
            f"{typed!r} is no id: one is {letters}, a dash and at least 6 of its hexadecimal digits; "
            "`lookfirst tasks` shows those of tasks."
        )
    return match[1]


def _only(typed: str, found: list[str]) -> str:
    match found:
        case [row_id]:
            return row_id
        case []:
            raise UsageError(f"There is no row {typed}; `lookfirst tasks` lists the tasks there are.")
        case _:
            listed = ", ".join(found[:_MATCHES]) + (", …" if len(found) > _MATCHES else "")
            raise UsageError(f"{typed} begins {len(found)} ids ({listed}); type more of the one you mean.")

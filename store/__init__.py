"""What is kept: schemas, changes and merge, record, memory."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.memory import Memory
    from store.opening import open_store
    from store.past import Past
    from store.record import Record
    from store.tables import Tables


@dataclass(frozen=True, slots=True)
class Store:
    """An open store: the record is the truth, memory the copy that is searched."""

    tables: Tables
    record: Record
    memory: Memory

    def past(self, *, as_of: datetime | None = None, known_at: datetime | None = None) -> Past:
        """The record as it was: `past(as_of=moment).arrow("tasks")`, or `.tasks()`, `.people()`, `.events()`.

        `as_of` leaves out what happened later, `known_at` what arrived later; both may be given. Raises UsageError
        for a time without a zone.
        """
        from store.past import Past

        return Past.of(self.tables, self.record, as_of, known_at)


def __getattr__(name: str) -> object:
    """`open_store` comes when it is asked for.

    The database takes a second to import, and whoever only wants the contracts does not pay for it. Whoever takes
    `open_store` can search a table of vectors with plain text, also one that was opened without it: by then
    the database knows the function that embeds.
    """
    if name != "open_store":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from store.opening import open_store

    return open_store


__all__ = ["Store", "open_store"]

"""Filters are SQL text, so every value that enters one goes through here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

IN_KEYS = 512
"""Keys of one `IN` (count): measured flat to here, and short enough for any parser."""


def quote(value: str) -> str:
    """A text literal. Doubling the quote is all that standard SQL knows of escaping."""
    return "'" + value.replace("'", "''") + "'"


def is_in(column: str, values: Iterable[str]) -> str:
    """`column IN (…)` with every value quoted; matches nothing when there are none."""
    quoted = ", ".join(quote(value) for value in values)
    return f"{column} IN ({quoted})" if quoted else "false"


def chunked(values: Iterable[str], size: int = IN_KEYS) -> Iterable[Sequence[str]]:
    """Distinct values in lists of at most `size`, in order."""
    rest = iter(dict.fromkeys(values))
    while chunk := list(islice(rest, size)):
        yield chunk

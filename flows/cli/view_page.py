"""A View in words: what was looked for, how every read ended, and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from flows.retrieve.fuse import points
from flows.retrieve.slices import shorten
from store.schema import PersonSlice, Query, Slice, View, describe

_MEANT: Final = 80
"""Text of a vector query that is shown (characters)."""


def asked(view: View) -> Iterator[tuple[str, str]]:
    """The queries and the outcome of every read."""
    for query in view.queries:
        yield "looked for", _query(query)
    made = Counter(read.name for read in view.reads)
    for read in view.reads:
        # The words tell reads of one lane apart; where there is one they were said above.
        terms = f" ({' '.join(read.terms)})" if made[read.name] > 1 else ""
        yield "read", f"{read.name.replace('_', ' ')}: {describe(read.outcome)}{terms}"


def found(view: View) -> Iterator[tuple[str, str]]:
    """Everything that was visible, each row under its handle, as the judge read it, with why it stands there."""
    yield from _lanes(view)
    for label, rows in _parts(view):
        for row in rows:
            yield label, f"{row.handle}{_ranks(row, add_up=True)}: {row.text}"
    yield from _others(view)


def found_titles(view: View) -> Iterator[tuple[str, str]]:
    """Everything that was visible, each row by its title."""
    for label, rows in _parts(view):
        for row in rows:
            yield label, f"{row.handle}{_ranks(row)}: {row.title} · {row.state}"
    yield from _others(view)


def _parts(view: View) -> tuple[tuple[str, tuple[Slice, ...]], ...]:
    return (
        ("found", view.slices),
        ("same thread", view.thread_rows),
        ("standby", view.standby.tasks),
    )


def _others(view: View) -> Iterator[tuple[str, str]]:
    for person in view.standby.people:
        yield "people", _person(person)
    if view.summary:
        yield "summary", view.summary.text


def _lanes(view: View) -> Iterator[tuple[str, str]]:
    """The shown rows of each lane, in the order of the lane, and how the lanes are put together."""
    for lane in dict.fromkeys(query.lane for query in view.queries):
        rows = [(rank.rank, row.handle) for row in view.slices for rank in row.lanes if rank.lane == lane]
        told = ", ".join(f"{handle} ({rank})" for rank, handle in sorted(rows))
        yield f"{lane} lane", told or "nothing"
    if view.slices:
        yield "order", "the sum of 1/(60 + place) in each lane, in people (author, addressee) and in last activity"


def _query(query: Query) -> str:
    asked = " ".join(" ".join(query.terms).split())
    # The meaning of a whole text is looked for; its words are in the text query.
    return f"{query.lane}: {shorten(asked, _MEANT) if query.lane == 'vector' else asked}"


def _ranks(row: Slice, *, add_up: bool = False) -> str:
    """What the row is ordered by: ` (exact 1, text 3, author, newest 2)`, with the sum if `add_up` asks for it."""
    marks = [f"{lane.lane} {lane.rank}" for lane in row.lanes]
    marks += row.ties
    if row.recency is not None:
        marks.append(f"newest {row.recency}")
        if add_up:
            marks[-1] += f" = {points(row.lanes, row.ties, row.recency):.4f}"
    if row.answered:
        marks.append("answered")
    return f" ({', '.join(marks)})" if marks else ""


def _person(person: PersonSlice) -> str:
    called = ", ".join((*person.names, *person.addresses)) or person.row_id
    return f"{person.handle}: {called} · {person.role}"

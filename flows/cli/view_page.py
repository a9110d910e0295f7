"""A View in words: what was looked for, how every read ended, and what was found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from store.schema import PersonSlice, Query, Slice, View, describe


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
    """Everything that was visible, each row under its handle, as the judge read it."""
    for label, rows in _parts(view):
        for row in rows:
            yield label, f"{row.handle}{_ranks(row)}: {row.text}"
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


def _query(query: Query) -> str:
    return f"{query.lane}: {' '.join(query.terms)}"


def _ranks(row: Slice) -> str:
    """How the lanes ranked the row: ` (exact 1, text 3)`."""
    marks = [f"{lane.lane} {lane.rank}" for lane in row.lanes]
    if row.answered:
        marks.append("answered")
    return f" ({', '.join(marks)})" if marks else ""


def _person(person: PersonSlice) -> str:
    called = ", ".join((*person.names, *person.addresses)) or person.row_id
    return f"{person.handle}: {called} · {person.role}"

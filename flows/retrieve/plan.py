"""Which questions an event needs: planned after it was seen, from its own words (R10)."""

from __future__ import annotations

import re
from math import ceil

from store.identifiers import find_identifiers
from store.schema import Event, Query, Settings

_WORD = re.compile(r"\w+")
_READ_CHARACTERS = 48_000
"""Text the planner looks at (characters): head and tail of anything longer, so that its work is bounded."""


def plan(event: Event, limits: Settings) -> tuple[Query, ...]:
    """As few queries as the event needs, never none and never more than the cap (R11).

    An exact query when it names identifiers. One text query of its words; a long text gets more, spread evenly
    from its first words to its last, so that a commitment at the end is looked for as well (R28). An event
    without a word is looked for by the people and the thread it names.
    """
    said = _bounded(f"{event.subject or ''}\n{event.text}")
    keys = tuple(identifier.key for identifier in find_identifiers(said))[: limits.identifiers]
    queries = [Query(lane="exact", terms=keys)] if keys and limits.queries > 1 else []
    words = words_of(said) or words_of(_named(event)) or (event.thread,)
    room = limits.queries - len(queries)
    queries += [Query(lane="text", terms=part) for part in _spread(words, limits.query_terms, room)]
    return tuple(queries)


def words_of(text: str) -> tuple[str, ...]:
    """The distinct words of a text in order; single Latin letters say nothing (R12)."""
    found = (word.strip("_") for word in _WORD.findall(text.casefold()))
    found = (word for word in found if len(word) > 1 or not word.isascii())
    return tuple(dict.fromkeys(found))


def _bounded(text: str) -> str:
    if len(text) <= _READ_CHARACTERS:
        return text
    half = _READ_CHARACTERS // 2
    return f"{text[:half]}\n{text[-half:]}"


def _named(event: Event) -> str:
    labels = [person.label or "" for person in (event.author, *event.mentions)]
    return " ".join([*labels, event.thread])


def _spread(words: tuple[str, ...], size: int, most: int) -> list[tuple[str, ...]]:
    """Up to `most` windows of `size` words, the first at the start and the last at the end."""
    count = min(most, ceil(len(words) / size))
    if count <= 1:
        return [words[:size]]
    last = len(words) - size
    starts = [round(number * last / (count - 1)) for number in range(count)]
    return [words[start : start + size] for start in starts]

"""Which questions an event needs: planned after it was seen, from its own words (R10)."""

from __future__ import annotations

import re
from math import ceil

from store.identifiers import find_identifiers
from store.schema import Event, Query, Settings
from store.terms import words

_READ_CHARACTERS = 48_000
"""Text the planner looks at (characters): head and tail of anything longer, so that its work is bounded."""

_MESSAGE_ID = re.compile(r"<[^\s<>@]{1,250}@[^\s<>@]{1,250}>")
_REFERENCES = 16
"""Mails that one event is taken to refer to (count): the latest of a long thread."""


def plan(event: Event, limits: Settings) -> tuple[Query, ...]:
    """As few queries as the event needs, never none and never more than the cap (R11).

    An exact query when it names identifiers, a vector query when there is an embedder. One text query of its
    words; a long text gets more, spread evenly from its first words to its last, so that a commitment at the end
    is looked for as well (R28). An event without a word is looked for by the people and the thread it names.
    """
    said = _bounded(f"{event.subject or ''}\n{event.text}")
    keys = tuple(identifier.key for identifier in find_identifiers(said))[: limits.identifiers]
    queries = [Query(lane="exact", terms=keys)] if keys and limits.queries > 1 else []
    head = said.strip()[: limits.embedder_characters]
    # Marks and smileys alone are like everything and nothing.
    if limits.embedding and words_of(head) and limits.queries > len(queries) + 1:
        queries.append(Query(lane="vector", terms=(head,)))
    asked = words_of(said) or words_of(_named(event)) or (event.thread,)
    room = limits.queries - len(queries)
    queries += [Query(lane="text", terms=part) for part in _spread(asked, limits.query_terms, room)]
    return tuple(queries)


def references_of(event: Event) -> tuple[str, ...]:
    """Ids of the mails that an event answers or refers to: its reply mark, and its attribute `references`.

    Only ids that name one mail in the world: those of other sources say something within their thread only.
    """
    said = f"{event.reply_to or ''} {event.attrs.get('references') or ''}"
    return tuple(dict.fromkeys(_MESSAGE_ID.findall(said)))[-_REFERENCES:]


def words_of(text: str) -> tuple[str, ...]:
    """The distinct words of a text in order; single Latin letters say nothing (R12)."""
    said = (word for word in words(text) if len(word) > 1 or not word.isascii())
    return tuple(dict.fromkeys(said))


def _bounded(text: str) -> str:
    if len(text) <= _READ_CHARACTERS:
        return text
    half = _READ_CHARACTERS // 2
    return f"{text[:half]}\n{text[-half:]}"


def _named(event: Event) -> str:
    labels = [person.label or "" for person in (event.author, *event.mentions)]
    return " ".join([*labels, event.thread])


def _spread(asked: tuple[str, ...], size: int, most: int) -> list[tuple[str, ...]]:
    """Up to `most` windows of `size` words, the first at the start and the last at the end."""
    count = min(most, ceil(len(asked) / size))
    if count <= 1:
        return [asked[:size]]
    last = len(asked) - size
    starts = [round(number * last / (count - 1)) for number in range(count)]
    return [asked[start : start + size] for start in starts]

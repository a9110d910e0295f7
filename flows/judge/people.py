"""Whom a sentence asks, and who promises in it: handles of people that were shown, by their names."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from flows.judge.cues import Act
from store.schema import Event, PersonSlice, View

_NOT_ASKED_BEFORE: Final = re.compile(
    r"(?<![a-zà-ɏ])(?:to|for|with|from|about|an|für|mit|von|bei|and|und)(?: @?)?$", re.IGNORECASE
)
_NOT_ASKED_AFTER: Final = re.compile(r"(?:さん|様|-san)?(?:に|へ|と|の|宛|から|'s)")
_PROMISES: Final = re.compile(
    r"(?: [A-Za-zÀ-ɏ-]{2,30})? (?:will|to|is going to|wird|übernimmt|schickt|sendet|schreibt|prüft|macht|erledigt|"
    r"bucht|bereitet|kümmert sich)(?![A-Za-zÀ-ɏ])|(?:さん|様)?が.{1,60}(?:する|します|予定|担当)"
)
_SPEAKS: Final = re.compile(r"(?:さん|様)?\s{0,2}[:：]")
_HEAD: Final = re.compile(r"(?:^\s*(?:[-*•·]|[0-9]{1,2}[.)])?|[:：–—] )\s*@?$")
"""What may stand before a name at the head of a statement."""


class Speaker(NamedTuple):
    """Who promises in a sentence, when it is not simply its author."""

    handles: tuple[str, ...] = ()
    acts: frozenset[Act] = frozenset()


def speaker(text: str, view: View) -> Speaker:
    """The person at the head of a line of notes: "Lena: I'll ask", "Ken will send", "佐藤さんが…する"."""
    for person in view.standby.people:
        for place in _places(text, person):
            if not _HEAD.search(text[: place.start()][-8:]):
                continue
            if _PROMISES.match(text, place.end()):
                return Speaker((person.handle,), frozenset({"commitment"}))
            if _SPEAKS.match(text, place.end()):
                return Speaker((person.handle,))
    return Speaker()


def addressed(text: str, event: Event, view: View) -> tuple[str, ...]:
    """The people a request names, less those it is only for; without a name, those it mentions.

    Notes of a meeting mention everybody who was there, so there only a name counts.
    """
    people = [person for person in view.standby.people if person.role == "mentioned"]
    named, beside = [], set()
    for person in people:
        places = list(_places(text, person))
        if any(not _is_beside(text, place) for place in places):
            named.append(person.handle)
        elif places:
            beside.add(person.handle)
    if named or event.kind == "meeting":
        return tuple(named)
    return tuple(person.handle for person in people if person.handle not in beside)


def _places(text: str, person: PersonSlice) -> list[re.Match[str]]:
    """Where a person's name, or a part of it that is a word of its own, stands in the text."""
    parts = {part for name in person.names for part in (name, *name.split()) if len(part) > 1}
    if not parts:
        return []
    alternatives = "|".join(re.escape(part) for part in sorted(parts, key=lambda part: (-len(part), part)))
    return list(re.finditer(rf"(?<![A-Za-zÀ-ɏ0-9])(?:{alternatives})(?![A-Za-zÀ-ɏ0-9])", text))


def _is_beside(text: str, place: re.Match[str]) -> bool:
    before = text[max(0, place.start() - 12) : place.start()].rstrip("@ ")
    return bool(_NOT_ASKED_BEFORE.search(before) or _NOT_ASKED_AFTER.match(text, place.end()))

"""Wordings: what titles say and name, and which of them say the same of different things.

Tasks that nothing in their titles tells apart are one wording. Two wordings are apart when each names something of
one kind that the other does not: another identifier, amount, day or number. What only one of them names tells
nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement, product
from typing import Final, NamedTuple, TypeAlias

from flows.judge.amounts import find_amounts
from flows.judge.days import Day, find_days
from flows.judge.sentences import WEEKDAYS, content
from store.identifiers import Identifier, conflicting, find_identifiers

Name: TypeAlias = tuple[str, Hashable]
"""Something a title names, by its kind."""

_FEW: Final = 10_000
"""Pairs that are compared one by one (count)."""
_NUMBER: Final = re.compile(r"[A-Za-z]{0,20}[0-9][A-Za-z0-9]{0,40}(?:[-./][A-Za-z0-9]{1,40}){0,6}")
_OTHER_SCRIPT: Final = re.compile(r"[^\W\d_a-zà-ɏ一-龠々ァ-ヶーぁ-ん]{2,80}")
"""Words of scripts that `content` does not read."""


@dataclass(slots=True)
class Wording:
    """Tasks that their titles do not tell apart, by number."""

    names: frozenset[Name]
    identifiers: frozenset[Identifier]
    tasks: list[int] = field(default_factory=list)

    @property
    def kinds(self) -> frozenset[str]:
        """Of what kinds it names something."""
        return frozenset(kind for kind, _ in self.names)

    def is_apart(self, other: Wording) -> bool:
        """Whether each side names something of one kind that the other does not."""
        ours, theirs = self.names - other.names, other.names - self.names
        if not {kind for kind, _ in ours}.isdisjoint(kind for kind, _ in theirs):
            return True
        return conflicting(self.identifiers, other.identifiers)


class Title(NamedTuple):
    """A title, taken apart."""

    words: frozenset[str]
    """What it is about; never empty."""
    names: frozenset[Name]
    identifiers: frozenset[Identifier]


def read_title(title: str) -> Title:
    """Take a title apart into its content words and what it names."""
    days, amounts = find_days(title), find_amounts(title)
    names: set[Name] = {("amount", found.value) for found in amounts}
    names.update(name for found in days for name in _names_of(found.value))
    plain = list(title)
    for start, end in [*((d.start, d.end) for d in days), *((a.start, a.end) for a in amounts)]:
        plain[start:end] = " " * (end - start)
    text = "".join(plain)
    names.update(("number", number.casefold()) for number in _NUMBER.findall(text))
    spoken = content(text.replace("-", " ")) - WEEKDAYS
    words = {word for word in spoken if not any(sign.isdigit() for sign in word)}
    words.update(_OTHER_SCRIPT.findall(text.casefold()))
    # A title without a word that says something is compared as it stands.
    about = frozenset(words) or frozenset({" ".join(title.casefold().split())})
    return Title(about, frozenset(names), frozenset(find_identifiers(title)))


def _names_of(day: Day) -> Iterator[Name]:
    parts = {"weekday": day.weekday, "month": day.month, "year": day.year}
    yield from ((kind, value) for kind, value in parts.items() if value is not None)
    if day.day is not None:
        yield "day", (day.month, day.day)


def partners(left: Sequence[Wording], right: Sequence[Wording]) -> Iterator[tuple[Wording, Wording]]:
    """The pairs of two lists, or within one given twice, that are not apart; a wording is its own partner."""
    if len(left) * len(right) <= _FEW:
        pairs = combinations_with_replacement(left, 2) if left is right else product(left, right)
        yield from (pair for pair in pairs if not pair[0].is_apart(pair[1]))
        return
    spread = Counter(kind for kind, _ in {name for each in (*left, *right) for name in each.names})
    known: set[tuple[int, int]] = set()
    for ones, others, turned in ((left, right, False), (right, left, True)):
        by_kinds = _by_kinds(others)
        for one in ones:
            for other in _meeting(one, by_kinds, spread):
                pair = (other, one) if turned else (one, other)
                key = (id(pair[0]), id(pair[1]))
                if left is right:
                    key = (min(key), max(key))
                if key not in known and not one.is_apart(other):
                    known.add(key)
                    yield pair


_ByKinds: TypeAlias = Mapping[frozenset[str], Mapping[Name | None, list[Wording]]]
"""Wordings by the kinds of what they name, then by each name; under None all of these kinds."""


def _by_kinds(wordings: Sequence[Wording]) -> _ByKinds:
    found: dict[frozenset[str], dict[Name | None, list[Wording]]] = {}
    for wording in wordings:
        names = found.setdefault(wording.kinds, {})
        for name in (None, *wording.names):
            names.setdefault(name, []).append(wording)
    return found


def _meeting(one: Wording, by_kinds: _ByKinds, spread: Mapping[str, int]) -> Iterator[Wording]:
    """Wordings that name all that the one names of a kind, or nothing of any of its kinds.

    A pair that is not apart meets so from one side or the other. The kind with the most names in it is taken: what
    else they name is looked at when the two are compared.
    """
    for kinds, named in by_kinds.items():
        if common := one.kinds & kinds:
            kind = max(common, key=lambda each: (spread[each], each))
            yield from min((named.get(name, []) for name in one.names if name[0] == kind), key=len)
        else:
            yield from named[None]

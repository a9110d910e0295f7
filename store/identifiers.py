"""Exact identifiers in a text: what may link two texts, or keep them apart, without any likeness."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple, cast

from store.schemes import SCHEMES, IdentifierScheme, blank_links

_TELL_APART: Final = frozenset(scheme.name for scheme in SCHEMES if scheme.tells_apart)


class Identifier(NamedTuple):
    """An identifier in the one spelling under which it is compared."""

    scheme: IdentifierScheme
    value: str

    @property
    def key(self) -> str:
        """The identifier as one term, such as `ticket:SR-2023-052` or `numbered:amendment 16`."""
        return f"{self.scheme}:{self.value}"

    @classmethod
    def of_key(cls, key: str) -> Identifier:
        """The identifier that a key names."""
        scheme, _, value = key.partition(":")
        return cls(cast(IdentifierScheme, scheme), value)


# Full-width letters and signs, as Japanese keyboards give them. A table of single characters and not NFKC:
# its reordering of marks takes quadratic time on a hostile text.
_NARROW: Final = {0xFF01 + offset: 0x21 + offset for offset in range(94)} | {0x3000: " ", 0xA0: " "}


def find_identifiers(text: str) -> tuple[Identifier, ...]:
    """The distinct identifiers of a text, in order of appearance."""
    texts = blank_links(text.translate(_NARROW))
    found = [
        (match.start(), Identifier(scheme.name, value))
        for scheme in SCHEMES
        for match in scheme.pattern.finditer(texts[scheme.where])
        if (value := scheme.value(match)) is not None
    ]
    found.sort(key=lambda item: item[0])
    return tuple(dict.fromkeys(identifier for _, identifier in found))


def conflicting(left: Iterable[Identifier], right: Iterable[Identifier]) -> bool:
    """Whether both sides name things of one kind and have none in common.

    Numbered words are compared word by word: "Amendment 16" excludes "Amendment 17" and says nothing about
    "Rev A".
    """
    ours, theirs = _by_kind(left), _by_kind(right)
    return any(ours[kind].isdisjoint(theirs[kind]) for kind in ours.keys() & theirs.keys())


def _by_kind(identifiers: Iterable[Identifier]) -> dict[str, set[str]]:
    kinds: dict[str, set[str]] = {}
    for identifier in identifiers:
        if identifier.scheme in _TELL_APART:
            word = identifier.value.rpartition(" ")[0] if identifier.scheme == "numbered" else ""
            kinds.setdefault(f"{identifier.scheme}:{word}", set()).add(identifier.value)
    return kinds

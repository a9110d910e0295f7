"""Exact identifiers in a text: what may link two texts, or keep them apart, without any likeness.

Each scheme is one row of a small table. Every pattern is bounded and starts at a fixed left edge, so a
hostile text of a megabyte costs time in proportion to its length and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple, cast

IdentifierScheme = Literal["ticket", "issue", "url", "commit", "uuid", "numbered", "mail"]


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

_URL: Final = re.compile(r"https?://[^\s<>\"\\^`{|}\u3000-\u303f\uff00-\uffef]{1,2000}", re.IGNORECASE)
"""A link names one page, and travels unchanged between chat, mail and notes."""

_MAIL: Final = re.compile(
    r"<[^\s<>@]{1,250}@[^\s<>@]{1,250}>"
    r"|(?<![A-Za-z0-9._%+-])[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"
)
"""A message id names one mail, an address one mailbox."""

_TICKET: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?!(?:UTF|ISO|SHA|UTC|GMT|TLS|MD|COVID|GPT|HTTP)-)"
    r"(?:[A-Z][A-Z0-9]{1,9}-[0-9]{1,7}(?:-[0-9]{1,7}){0,2}|[a-z]{2,10}-(?:19|20)[0-9]{2}-[0-9]{1,7})"
    r"(?![A-Za-z0-9_]|-[0-9])"
)
"""Trackers name their items by a prefix and a number; lower case only with a year: any-2 is none."""

_ISSUE: Final = re.compile(r"(?<![&#])#([0-9]{1,7})(?![A-Za-z0-9_])")
"""The short form of an issue or pull request."""

_COMMIT: Final = re.compile(r"(?<![A-Za-z0-9_-])[0-9a-f]{7,128}(?![A-Za-z0-9_-])")
"""A commit id, abbreviated or whole, or another hash; without a letter it is a number, without a digit a word."""

_UUID: Final = re.compile(r"(?<![0-9A-Za-z-])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z-])")
"""What machines call their jobs, orders and documents."""

_COMPARED_AS: Final = {
    "v": "version",
    "rev.": "rev",
    "revision": "rev",
    "バージョン": "version",
    "リビジョン": "rev",
    "チケット": "ticket",
}
"""Words that are another spelling of a word."""

_LATIN: Final = (
    # English
    "amendment|annex|appendix|article|chapter|clause|contract|draft|edition|invoice|milestone|part|phase|"
    r"proposal|quote|release|rev|rev\.|revision|section|sprint|ticket|v|version|volume|"
    # German
    "angebot|anhang|anlage|auftrag|bestellung|entwurf|fassung|kapitel|meilenstein|nachtrag|rechnung|teil|vertrag"
)
_JAPANESE: Final = "請求書|見積書|見積|契約書|案|改訂|バージョン|リビジョン|チケット"
"""Words that a number or one capital letter turns into a name.

Words that are verbs too ("order 5 chairs", "build 2 rooms") are left out: a wrong name does more harm than a
missing one.
"""

# Neither the head of "1,200 €" nor that of "2024-017": each would make one thing of many.
_VERSION: Final = r"[0-9]{1,9}(?:\.[0-9]{1,5}){0,3}(?:[-/][0-9]{1,7}){0,2}(?![-,/]?[0-9])"
_NUMBERED: Final = re.compile(
    rf"(?<![A-Za-zÀ-ɏ0-9_])(?P<latin>(?i:{_LATIN}))(?i:\ ?(?:no\.?|nr\.?|\#|-))?\ {{0,2}}"
    # "part I" is a sentence going on, more often than a Roman one.
    rf"(?P<value>{_VERSION}|(?-i:[A-HJ-Z]))(?![A-Za-zÀ-ɏ0-9_])"
    rf"|(?P<word>{_JAPANESE})\ ?(?:第|\#)?(?P<number>{_VERSION})"
    rf"|第(?P<ordinal>[0-9]{{1,9}})(?P<counter>[版号条章回期次案])"
)
"""A word and what versions it: "Amendment 16", "Rev A", "Angebot 17", "第3版"."""

_MAY_CONFLICT: Final[frozenset[IdentifierScheme]] = frozenset({"ticket", "issue", "numbered"})
"""Two texts about one thing may well cite different links, commits and addresses; never other numbers."""


def find_identifiers(text: str) -> tuple[Identifier, ...]:
    """The distinct identifiers of a text, in order of appearance."""
    text = text.translate(_NARROW)
    found = list(_links(text))
    # What stands inside a link or an address belongs to it, except a ticket: trackers put it in their links.
    without_mail = _MAIL.sub(_blank, text)
    plain = _URL.sub(_blank, without_mail)
    found += [(match.start(), Identifier("ticket", match[0].upper())) for match in _TICKET.finditer(without_mail)]
    found += [(match.start(), Identifier("issue", f"#{_number(match[1])}")) for match in _ISSUE.finditer(plain)]
    found += [
        (match.start(), Identifier("commit", match[0]))
        for match in _COMMIT.finditer(plain)
        if not match[0].isdigit() and not match[0].isalpha()
    ]
    found += [(match.start(), Identifier("uuid", match[0].lower())) for match in _UUID.finditer(plain)]
    found += [(match.start(), _named(match)) for match in _NUMBERED.finditer(plain)]
    found.sort(key=lambda item: item[0])
    return tuple(dict.fromkeys(identifier for _, identifier in found))


def conflicting(left: Iterable[Identifier], right: Iterable[Identifier]) -> bool:
    """Whether both sides name things of one kind and have none in common.

    Numbered words are compared word by word: "Amendment 16" excludes "Amendment 17" and says nothing about
    "Rev A".
    """
    ours, theirs = _by_kind(left), _by_kind(right)
    return any(ours[kind].isdisjoint(theirs[kind]) for kind in ours.keys() & theirs.keys())


def _links(text: str) -> Iterator[tuple[int, Identifier]]:
    for match in _URL.finditer(text):
        yield match.start(), Identifier("url", match[0].rstrip(".,;:!?'*_)]"))
    for match in _MAIL.finditer(text):
        yield match.start(), Identifier("mail", match[0].strip("<>.").lower())


def _named(match: re.Match[str]) -> Identifier:
    word, value = match["latin"], match["value"]
    if word is None:
        word, value = match["word"] or match["counter"], match["number"] or match["ordinal"]
    word = word.lower()
    return Identifier("numbered", f"{_COMPARED_AS.get(word, word)} {_number(value).lower()}")


def _number(value: str) -> str:
    return value.lstrip("0") or "0" if value.isdigit() else value


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _by_kind(identifiers: Iterable[Identifier]) -> dict[str, set[str]]:
    kinds: dict[str, set[str]] = {}
    for identifier in identifiers:
        if identifier.scheme in _MAY_CONFLICT:
            word = identifier.value.rpartition(" ")[0] if identifier.scheme == "numbered" else ""
            kinds.setdefault(f"{identifier.scheme}:{word}", set()).add(identifier.value)
    return kinds

"""The schemes of exact identifiers: one row each in `SCHEMES`.

Every pattern is bounded and starts at a fixed left edge, so a hostile text of a megabyte costs time in proportion
to its length and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal, NamedTuple

IdentifierScheme = Literal["ticket", "issue", "url", "commit", "uuid", "numbered", "mail"]

Where = Literal["everywhere", "outside mail", "outside links"]
"""What stands inside a link or an address belongs to it, except a ticket: trackers put it in their links."""


class Scheme(NamedTuple):
    """One kind of identifier: how it is written, and what it says of two texts that differ in it."""

    name: IdentifierScheme
    pattern: re.Pattern[str]
    value: Callable[[re.Match[str]], str | None]
    """The one spelling under which it is compared; None for what only looks like one."""
    where: Where
    tells_apart: bool = False
    """Two texts about one thing may well cite different links, commits and addresses; never other numbers."""


URL: Final = re.compile(r"https?://[^\s<>\"\\^`{|}\u3000-\u303f\uff00-\uffef]{1,2000}", re.IGNORECASE)
"""A link names one page, and travels unchanged between chat, mail and notes."""

MAIL: Final = re.compile(
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


def blank_links(text: str) -> dict[Where, str]:
    """A text with what a scheme must not look into blanked out, of the same length."""
    outside_mail = MAIL.sub(_blank, text)
    return {"everywhere": text, "outside mail": outside_mail, "outside links": URL.sub(_blank, outside_mail)}


def _hash(match: re.Match[str]) -> str | None:
    return None if match[0].isdigit() or match[0].isalpha() else match[0]


def _named(match: re.Match[str]) -> str:
    word, value = match["latin"], match["value"]
    if word is None:
        word, value = match["word"] or match["counter"], match["number"] or match["ordinal"]
    word = word.lower()
    return f"{_COMPARED_AS.get(word, word)} {_number(value).lower()}"


def _number(value: str) -> str:
    return value.lstrip("0") or "0" if value.isdigit() else value


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


SCHEMES: Final[tuple[Scheme, ...]] = (
    Scheme("url", URL, lambda match: match[0].rstrip(".,;:!?'*_)]"), "everywhere"),
    Scheme("mail", MAIL, lambda match: match[0].strip("<>.").lower(), "everywhere"),
    Scheme("ticket", _TICKET, lambda match: match[0].upper(), "outside mail", tells_apart=True),
    Scheme("issue", _ISSUE, lambda match: f"#{_number(match[1])}", "outside links", tells_apart=True),
    Scheme("commit", _COMMIT, _hash, "outside links"),
    Scheme("uuid", _UUID, lambda match: match[0].lower(), "outside links"),
    Scheme("numbered", _NUMBERED, _named, "outside links", tells_apart=True),
)
"""The registry. Of two that begin at one place, the one that stands first here is named first."""

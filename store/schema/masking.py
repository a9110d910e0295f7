"""Masking: secrets that found their way into a text, such as a log line or a traceback, are made unreadable.

A secret is known by its shape, or by the word before it. What is left of it is the head by which its owner knows
it again (`sk_test_****`). None of the guards asks for a word border: to Python a Chinese character is part of a
word, and a key that is glued to one is a key all the same (N6). No pattern looks further ahead in vain than some
hundred characters, however a text is made up.
"""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "****"

_SHAPES: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?P<stripe>(?:sk|pk|rk)_(?:live|test)_|whsec_)[A-Za-z0-9_]{4,}"
    r"|(?P<openai>sk-)(?=[A-Za-z0-9_-]{0,40}[0-9])[A-Za-z0-9_-]{16,}"
    r"|(?P<github>gh[pousr]_|github_pat_|glpat-|hf_|npm_|pypi-)[A-Za-z0-9_-]{16,}"
    r"|(?P<slack>xox[abeprs]-)[A-Za-z0-9-]{8,}"
    r"|(?P<aws>AKIA|ASIA)[A-Z0-9]{12}[A-Za-z0-9]*"
    r"|(?P<google>AIza|ya29\.)[A-Za-z0-9_-]{20,}"
    r"|(?P<jwt>eyJ)[A-Za-z0-9_-]{8,400}\.[A-Za-z0-9_-]{4,}(?:\.[A-Za-z0-9_-]*)?"
    r")"
)
"""Keys that say themselves what they are; the named part of each is left."""

_BLOCK: Final = re.compile(
    r"(?P<begin>-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----)"
    r"(?:(?!-----)[\s\S])*"
    r"(?P<end>(?:-----END [A-Z0-9 ]{0,40}-----)?)"
)
"""A private key in its armour; of one that was cut short, everything behind its first line."""

_IN_URL: Final = re.compile(r"(?<=://)(?P<user>[^\s/:@?#]*:)[^\s/?#]*@")

_BEARER: Final = re.compile(
    r"(?i)(?<![A-Za-z0-9])(?P<head>bearer\s+)(?=\S{0,40}[0-9]|\S{20})[A-Za-z0-9._~+/=-]{8,}"
)

_IS: Final = r"\\?[\"']?[ \t]{0,8}[:=：][ \t]{0,8}"
_QUOTED: Final = r"(?P<quote>\\?[\"'])(?:(?!(?P=quote))[^\n])+"
_BARE: Final = r"(?:(?:bearer|basic)[ \t]{1,8})?[^\s\"'`\\,;&<>，。；、）」]+"
_MADE_UP: Final = r"(?=[^\s,;&]{16}|[^\s,;&]{0,40}[0-9])(?=[^\s,;&]{6})"
_PASSWORD: Final = re.compile(
    rf"(?i)(?P<head>(?:passw(?:or)?d|passphrase|pwd|authorization|密码|口令|パスワード){_IS})(?:{_QUOTED}|{_BARE})"
)
"""What follows such a word is a secret, whatever it looks like."""

_TOKEN: Final = re.compile(
    r"(?i)(?P<head>(?:token|secret|credentials?|(?:api|access|private|secret)[_-]?key|密钥|令牌|凭证)"
    rf"{_IS})(?:{_QUOTED}|(?<==){_BARE}|{_MADE_UP}{_BARE})"
)
"""These words are also just words: behind a colon only what is quoted or looks made up is a secret."""

_SECRET_STR: Final = re.compile(r"(?P<head>Secret(?:Str|Bytes)\(b?)(?P<quote>['\"])[^'\"]*(?P=quote)")


def mask(text: str) -> str:
    """`text` with the secrets in it masked; what is masked already stays as it is."""
    text = _BLOCK.sub(rf"\g<begin>{MASK}\g<end>", text)
    text = _SHAPES.sub(lambda found: f"{found[found.lastgroup or 0]}{MASK}", text)
    text = _IN_URL.sub(rf"\g<user>{MASK}@", text)
    text = _SECRET_STR.sub(rf"\g<head>\g<quote>{MASK}\g<quote>", text)
    text = _BEARER.sub(rf"\g<head>{MASK}", text)
    for labelled in (_PASSWORD, _TOKEN):
        text = labelled.sub(lambda found: f"{found['head']}{found['quote'] or ''}{MASK}", text)
    return text

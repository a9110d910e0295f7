"""Terms of a text for the full-text lane: every language at the speed of an index of words.

An index of all n-grams of all texts finds parts of words in any language, and is fifty times slower than one of
words. So the parts are made here, and only where a language needs them:

- writing without spaces (Chinese, Japanese, Korean with its particles, Thai): pairs of characters,
- long words (`Vertragsentwurf`): on the row's side their heads and tails, so that `Entwurf` finds them; on the
  query's side the same as plain words, so that they find `Entwurf`,
- names of code (`readAheadCounters`, `read_ahead`): their pieces,
- Arabic: the word without article and the particles that are written onto it,
- marks that one writes and another leaves out (`Málaga`, vowel signs): left out.

A row and a query meet in equal terms only, so a long word that both have counts once, not for each of its parts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import Final

_MARKS: Final = "\u0300-\u036f\u0483-\u0489\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06ed"
"""Signs that belong to the letter before them, and that `\\w` takes for the end of a word."""
_INDIC: Final = "\u0900-\u0963\u0966-\u0dff"
_WORD: Final = re.compile(rf"[\w{_MARKS}{_INDIC}]+")

_UNSPACED: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff]+"
)
"""Writing in which words are not set apart by spaces, or carry particles."""

_PIECES: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\dA-Z_]+|\d+")
"""Pieces of a name of code."""
_CAMEL: Final = re.compile(r"[a-z][A-Z]|[A-Z]{2}[a-z]{2}")

_LONG: Final = 10
"""A word is taken for a compound from here on (characters)."""
_LONGEST: Final = 40
"""What is longer is no word but a key or a hash (characters)."""
_PART: Final = 5
"""The shortest part of a compound (characters)."""

_IN_COMPOUND: Final = "~"
"""Marks a term that is a part of a longer word of the row."""

_ARABIC: Final = re.compile("[\u0621-\u064a]+")
_ARABIC_LETTERS: Final = str.maketrans("أإآىة", "ااايه", "\u0640")
_ARABIC_CLITICS: Final = re.compile("^[وف]?(?:[بك]?ال|لل|[بكلس])?(?=.{3})")

_TOKEN: Final = 64
"""Characters of a word that count: what is longer is no word, and marks are looked at in linear time."""


def words(text: str) -> Iterator[str]:
    """The words of a text in order, folded; a name of code is followed by its pieces."""
    return (word for word, _ in _words(text))


def row_terms(text: str) -> str:
    """The terms under which a row is found, one space between them."""
    terms: list[str] = []
    for word, whole in _words(text):
        terms += _terms(word)
        if whole:
            terms += (f"{_IN_COMPOUND}{part}" for part in _parts(_plain(word)))
    return " ".join(terms)


def query_terms(said: Iterable[str], most: int) -> tuple[str, str]:
    """The terms that words of a query ask for, and those that only make up a part of a word somewhere.

    Each term once, of each kind at most `most`, those of the first words first. What meets in a part only is worth
    less than what meets as a word: whoever searches says so.
    """
    plain: dict[str, None] = {}
    parts: dict[str, None] = {}
    for word in chain.from_iterable(map(words, said)):
        if len(plain) >= most:
            break
        plain.update(dict.fromkeys(_terms(word)))
        parts.update(dict.fromkeys(_asked_parts(word)))
    parts = {term: None for term in parts if term not in plain}
    return " ".join(islice(plain, most)), " ".join(islice(parts, most))


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Words, and whether the word is all there is: the parts of a name of code are its pieces."""
    for match in _WORD.finditer(text):
        written = match[0].strip("_")
        named = "_" in written or bool(_CAMEL.search(written))
        pieces = _PIECES.findall(written) if named else []
        for word in (written, *pieces):
            folded = word.casefold()
            if folded:
                yield folded, not named


def _terms(word: str) -> Iterator[str]:
    end = 0
    for run in _UNSPACED.finditer(word):
        yield from _spaced(word[end : run.start()])
        yield from _pairs(run[0])
        end = run.end()
    yield from _spaced(word[end:])


def _asked_parts(word: str) -> Iterator[str]:
    """What a query asks for beside a word: the compounds it is a part of, and its own parts as words."""
    plain = _plain(word)
    if plain.isalpha() and not _UNSPACED.match(plain):
        if _PART <= len(plain) < _LONG:
            yield f"{_IN_COMPOUND}{plain}"
        yield from _parts(plain)


def _parts(word: str) -> Iterator[str]:
    """Heads and tails of a long word, the longest first; none of any other word."""
    if _LONG <= len(word) <= _LONGEST and word.isalpha() and not _UNSPACED.match(word):
        for rest in range(_PART, len(word) - _PART + 1):
            yield word[:-rest]
            yield word[rest:]


def _pairs(run: str) -> Iterator[str]:
    if len(run) == 1:
        yield run
    for first, second in pairwise(run):
        yield first + second


def _spaced(word: str) -> Iterator[str]:
    plain = _plain(word)
    if plain:
        yield plain
        stem = _ARABIC_CLITICS.sub("", plain) if _ARABIC.fullmatch(plain) else plain
        if stem != plain:
            yield stem


def _plain(word: str) -> str:
    """A word without the marks that not everybody writes."""
    word = word[:_TOKEN]
    if word.isascii():
        return word
    apart = unicodedata.normalize("NFKD", word)
    bare = "".join(char for char in apart if unicodedata.category(char) != "Mn" or "\u0900" <= char <= "\u0dff")
    return unicodedata.normalize("NFC", bare).translate(_ARABIC_LETTERS)

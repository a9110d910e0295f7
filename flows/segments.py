"""Segments: a long text in pieces that can be judged one after the other.

Pure functions of the text and the limits. A cut is made where a reader would pause, and each piece repeats the
end of the one before, so that a sentence on a border is whole in one of the two. Of a text with more pieces than
may be judged the middle is left out, and said so: what matters is asked for at the beginning and promised at
the end.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from store.schema import Settings

Span = tuple[int, int]
"""Begin and end of a piece in the text (characters; the end is not part of it)."""

_PAUSES = (
    re.compile(r"\n[ \t\r]*\n"),
    re.compile(r"\n"),
    re.compile(r"[.!?][\"'»”’)\]]*\s|[。！？…]+[」』”’）]*"),
    re.compile(r"\s"),
)
"""Where a text may be cut, best first: ends of paragraphs, lines, sentences, words. None can backtrack far."""

_WORD_BEGINS = re.compile(r"\s\S")
_WORD_ENDS = re.compile(r"\S\s")


@dataclass(frozen=True, slots=True)
class Segments:
    """The pieces of one text, in order."""

    spans: tuple[Span, ...]
    """At least one; they cover the text but for `unjudged`, and the last one ends where the text ends."""
    unjudged: Span | None
    """The middle that is in no piece; None when everything is."""


def split(text: str, limits: Settings) -> Segments:
    """Cut `text` into at most `limits.segments` pieces of at most `limits.segment_characters` characters.

    Two neighbours share at most `limits.segment_overlap` characters. A last line that is shorter than half a
    piece stands whole in the last piece. The work is that of reading the pieces once, however long the text is.
    """
    cutter = _Cutter(text, limits)
    pieces = cutter.forward(limits.segments)
    if pieces[-1][1] == len(text):
        return Segments(tuple(pieces), None)
    head = pieces[: limits.segments // 2]
    tail = cutter.backward(head[-1][1], limits.segments - len(head))
    reached, resumed = head[-1][1], tail[0][0]
    return Segments((*head, *tail), (reached, resumed) if reached < resumed else None)


class _Cutter:
    """One text with the limits of its pieces."""

    def __init__(self, text: str, limits: Settings) -> None:
        self._text = text
        self._most = limits.segment_characters
        self._half = limits.segment_characters // 2
        self._overlap = limits.segment_overlap

    def forward(self, most: int) -> list[Span]:
        """At most `most` pieces from the beginning of the text on."""
        pieces: list[Span] = []
        begin = 0
        while len(pieces) < most:
            full = begin + self._most
            if full >= len(self._text):
                pieces.append((begin, len(self._text)))
                break
            cut = self._pauses(begin + self._half, full)[1]
            pieces.append((begin, cut))
            begin = self._before(cut)
        return pieces

    def backward(self, reached: int, most: int) -> list[Span]:
        """At most `most` pieces before the end of the text, in order; none begins before what was `reached`."""
        pieces: list[Span] = []
        earliest, end = self._before(reached), len(self._text)
        while len(pieces) < most:
            if end - earliest <= self._most:
                pieces.append((earliest, end))
                break
            cut = self._pauses(end - self._most, end - self._half - 1)[0]
            pieces.append((cut, end))
            if cut <= reached:
                break
            end = self._after(cut)
        return pieces[::-1]

    def _pauses(self, begin: int, end: int) -> Span:
        """The first and the last of the best places to cut after `begin` and up to `end`; else these two."""
        for pause in _PAUSES:
            found = [match.end() for match in pause.finditer(self._text, begin, end)]
            if found:
                return found[0], found[-1]
        return begin, end

    def _before(self, cut: int) -> int:
        """Where the piece after `cut` begins: at a word within the overlap."""
        begin = cut - self._overlap
        word = _WORD_BEGINS.search(self._text, max(begin - 1, 0), cut)
        return word.start() + 1 if word else begin

    def _after(self, cut: int) -> int:
        """Where the piece before `cut` ends: after a word within the overlap."""
        end = cut + self._overlap
        words = [match.start() for match in _WORD_ENDS.finditer(self._text, cut, end + 1)]
        return words[-1] + 1 if words else end

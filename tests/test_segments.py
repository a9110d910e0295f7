"""Segments of a long text: laws that hold for any text and any limits, and where the cuts fall."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.segments import Segments, split
from store.schema import Settings

_SYLLABLES = (
    "a",
    "word",
    " ",
    "  ",
    "\n",
    "\r\n",
    "\n\n",
    ". ",
    "。",
    "好",
    "?” ",
    "x" * 90,
    "line\n" * 20,
    " " * 70,
)

texts = st.builds(
    lambda parts, times, last: "".join(parts) * times + last,
    st.lists(st.sampled_from(_SYLLABLES), max_size=30),
    st.integers(0, 120),
    st.text(max_size=30) | st.sampled_from(_SYLLABLES),
)
"""Texts of up to some hundred thousand characters, with and without places to pause."""

pieces = st.integers(1_000, 1_101).flatmap(
    lambda most: st.builds(
        Settings,
        segment_characters=st.just(most),
        segment_overlap=st.integers(0, most // 2) | st.just(100),
        segments=st.integers(2, 9) | st.just(40),
    )
)
"""Limits of pieces, also ones whose overlap is as large as may be."""


@given(texts, pieces)
def test_the_pieces_are_the_text(text: str, limits: Settings) -> None:
    """Every character is in a piece or in the one range that is told as unjudged, and in order."""
    segments = split(text, limits)
    covered = 0
    for begin, end in segments.spans:
        if segments.unjudged is not None and segments.unjudged[0] == covered:
            assert segments.unjudged[1] == begin
            covered = begin
        assert begin <= covered <= end
        covered = end
    assert len(text) == covered
    assert segments.unjudged is None or segments.unjudged[0] < segments.unjudged[1]


@given(texts, pieces)
def test_a_piece_is_within_its_limits(text: str, limits: Settings) -> None:
    """No piece is longer than may be judged, there are no more than may be, and each gets the text further."""
    segments = split(text, limits)
    assert len(segments.spans) <= limits.segments
    assert all(end - begin <= limits.segment_characters for begin, end in segments.spans)
    for (begin, end), (later_begin, later_end) in pairwise(segments.spans):
        assert begin < later_begin
        assert end < later_end
        assert end - later_begin <= limits.segment_overlap


@given(texts, pieces)
def test_the_middle_is_left_out_only_when_there_are_too_many_pieces(text: str, limits: Settings) -> None:
    """An unjudged range stands in the middle of as many pieces as there may be, half of them before it."""
    segments = split(text, limits)
    if segments.unjudged is not None:
        ends = [end for _, end in segments.spans]
        assert limits.segments == len(segments.spans)
        assert limits.segments // 2 == ends.index(segments.unjudged[0]) + 1


@given(texts, pieces)
def test_the_same_text_has_the_same_pieces(text: str, limits: Settings) -> None:
    """The pieces follow from the text and the limits alone."""
    assert split(text, limits) == split(text, limits)


@given(texts, st.text(alphabet="ab 好.", min_size=1, max_size=498), pieces)
def test_the_last_line_is_in_one_piece(text: str, last: str, limits: Settings) -> None:
    """A last line that is shorter than half a piece is never cut, however long the text before it."""
    whole = f"{text}\n{last}"
    begin, end = split(whole, limits).spans[-1]
    assert last == whole[begin:end][-len(last) :]


@given(st.text(alphabet="ab \n\r\t", max_size=1_000))
def test_a_text_that_fits_is_one_piece(text: str) -> None:
    """As long as a piece may be, a text is not cut."""
    limits = Settings(segment_characters=1_000, segment_overlap=100)
    assert Segments(((0, len(text)),), None) == split(text, limits)


@pytest.mark.parametrize(
    ("pause", "worse"),
    [("\n\n", "\n"), ("\r\n\r\n", "\r\n"), ("\n \t\n", "\n"), ("\n", ". "), (". ", " "), ("。", " "), (" ", "-")],
    ids=("paragraph", "paragraph of a mail", "blank line", "line", "sentence", "sentence in Chinese", "word"),
)
def test_a_cut_is_made_at_the_best_pause(pause: str, worse: str) -> None:
    """Of the second half of a piece the last paragraph end is taken, else a line, a sentence, a word."""
    limits = Settings(segment_characters=1_000, segment_overlap=0)
    text = "a" * 700 + pause + "b" * 100 + worse + "c" * 1_000
    first, *_ = split(text, limits).spans
    assert (0, 700 + len(pause)) == first


def test_a_text_without_a_pause_is_cut_all_the_same() -> None:
    """Where nothing invites a cut, a piece is as long as it may be and repeats the whole overlap."""
    limits = Settings(segment_characters=1_000, segment_overlap=100)
    assert ((0, 1_000), (900, 1_900), (1_800, 2_100)) == split("x" * 2_100, limits).spans


def test_a_piece_begins_at_a_word() -> None:
    """The overlap is shortened to the beginning of a word when there is one in it."""
    limits = Settings(segment_characters=1_000, segment_overlap=100)
    text = "a" * 950 + " and " + "b" * 42 + "\n" + "c" * 900
    (_, cut), (begin, _) = split(text, limits).spans
    assert (998, "and " + "b" * 42 + "\n") == (cut, text[begin:cut])


def test_a_very_long_text_keeps_head_and_tail() -> None:
    """Beyond the number of pieces the middle is left out, and the last piece ends where the text ends."""
    limits = Settings(segment_characters=1_000, segment_overlap=100, segments=4)
    text = "".join(f"Line {number:05}.\n" for number in range(2_000))
    segments = split(text, limits)
    kept = [text[begin:end] for begin, end in segments.spans]
    assert 4 == len(kept)
    assert kept[0].startswith("Line 00000.")
    assert kept[-1].endswith("Line 01999.\n")
    assert (segments.spans[1][1], segments.spans[2][0]) == segments.unjudged
    left_out = text[slice(*segments.unjudged)]
    assert left_out.startswith("Line ")
    assert left_out.endswith(".\n")


@pytest.mark.parametrize("unit", ["x", " ", "\n", "\n ", "\r", ".", "。", "! ", "好", '"', ".'", "a b\n\n"])
def test_ten_megabytes_take_no_time(unit: str) -> None:
    """Whatever it is made of, a text of ten million characters is split at once."""
    text = unit * (10_000_000 // len(unit))
    begun = time.perf_counter()
    segments = split(text, Settings())
    assert time.perf_counter() - begun < 1.0
    assert 40 == len(segments.spans)

"""Exact identifiers: what is found, in which spelling, and when two texts name different things."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.identifiers import conflicting, find_identifiers


def keys(text: str) -> list[str]:
    return [identifier.key for identifier in find_identifiers(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see SR-2023-052 and ABC-123", ["ticket:SR-2023-052", "ticket:ABC-123"]),
        ("sr-2023-052 ist fertig", ["ticket:SR-2023-052"]),
        ("ＳＲ－２０２３－０５２の件", ["ticket:SR-2023-052"]),
        ("チケットSR-2023-052を", ["ticket:SR-2023-052"]),
        ("fixes #123, api#7", ["issue:#123", "issue:#7"]),
        ("https://x.org/a_(b)?c=#1.", ["url:https://x.org/a_(b)?c=#1"]),
        ("https://x.org/browse/ABC-9)", ["url:https://x.org/browse/ABC-9", "ticket:ABC-9"]),
        ("コミット4fd03bcを確認", ["commit:4fd03bc"]),
        ("Amendment 16, Rev A", ["numbered:amendment 16", "numbered:rev a"]),
        ("Revision A, rev. B", ["numbered:rev a", "numbered:rev b"]),
        ("Version 2.1. Then v3", ["numbered:version 2.1", "numbered:version 3"]),
        ("Angebot Nr. 17 und Nachtrag 02", ["numbered:angebot 17", "numbered:nachtrag 2"]),
        ("Rechnung 2024-017, release 2024-03-18", ["numbered:rechnung 2024-017", "numbered:release 2024-03-18"]),
        ("第３版と請求書17", ["numbered:版 3", "numbered:請求書 17"]),
        ("<a.b@c.d> and Ken@Example.org.", ["mail:a.b@c.d", "mail:ken@example.org"]),
    ],
)
def test_each_scheme_is_found_in_one_spelling(text: str, expected: list[str]) -> None:
    """Case, width, leading zeros and closing punctuation do not make another identifier."""
    assert expected == keys(text)


@pytest.mark.parametrize(
    "text",
    [
        "UTF-8 and ISO-8601",
        "for my part I think",
        "20240612",
        "deadbeef",
        "order 5 chairs",
        "invoice 1,200 €",
        "請求書12,000円",
        "party 5",
        "&#39;",
    ],
)
def test_ordinary_words_and_numbers_are_no_identifiers(text: str) -> None:
    """A wrong identifier does more harm than a missing one."""
    assert keys(text) == []


def test_an_identifier_is_named_once() -> None:
    """Repeats are dropped, the first place counts."""
    assert keys("AB-2 AB-1 AB-2") == ["ticket:AB-2", "ticket:AB-1"]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("SR-2023-052", "SR-2023-053", True),
        ("SR-2023-052 and SR-2023-053", "SR-2023-053", False),
        ("SR-2023-052", "OPS-7", True),
        ("Amendment 16", "amendment 17", True),
        ("Amendment 16", "Rev A", False),
        ("Amendment 16, Rev A", "Amendment 16, Rev B", True),
        ("第3版", "第4版", True),
        ("#12", "#13", True),
        ("https://a.org/1 4fd03bc k@a.org", "https://a.org/2 5fd03bc l@a.org", False),
        ("SR-2023-052", "no number at all", False),
    ],
)
def test_conflict_is_a_shared_kind_with_nothing_in_common(left: str, right: str, expected: bool) -> None:
    """Near-identical numbers keep two texts apart; a kind that one side lacks says nothing (U1)."""
    assert expected is conflicting(find_identifiers(left), find_identifiers(right))
    assert expected is conflicting(find_identifiers(right), find_identifiers(left))


@pytest.mark.parametrize(
    "unit",
    [
        "a",
        "<",
        "<a",
        "@",
        "a@",
        "a.",
        "A-1",
        "A-1-",
        "#1",
        "http://",
        "part ",
        "v",
        "第1",
        "0f",
        "a@b.",
        "Ǆ",
        "́̀",
    ],
)
def test_hostile_text_costs_linear_time(unit: str) -> None:
    """A megabyte that almost matches everywhere is read in a moment."""
    text = (unit * 1_000_000)[:1_000_000]
    started = time.process_time()
    find_identifiers(text)
    assert time.process_time() - started < 30


@given(st.text(st.characters(), max_size=200))
def test_any_text_is_accepted(text: str) -> None:
    """Lone surrogates, NUL and marks are read like any other character, and nothing conflicts with itself."""
    found = find_identifiers(text + "\0\ud800")
    assert not conflicting(found, found)

"""Terms of a text: words of every language meet, and nothing is asked for twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.bench.tokenizers import _CASES
from store.terms import query_terms, row_terms, words
from tests.looking import law

MOST = 256


def of_row(text: str) -> set[str]:
    """The terms a row is found under."""
    return set(row_terms(text).split(" ")) - {""}


def asked(text: str) -> tuple[set[str], set[str]]:
    """The whole terms and the parts that a text asks for."""
    plain, parts = query_terms(words(text), MOST)
    return set(plain.split(" ")) - {""}, set(parts.split(" ")) - {""}


@pytest.mark.parametrize(
    ("row", "question"),
    [
        ("Málaga besuchen", "malaga"),
        ("MÁLAGA", "málaga"),
        ("Straße räumen", "strasse"),
        ("fix read_ahead_limit", "limit"),
        ("HTTPServer is down", "server"),
        ("مُحَمَّد", "محمد"),
        ("إجتماع", "اجتماع"),
        ("للاجتماعات", "الاجتماعات"),
        ("हिन्दी में लिखें", "हिन्दी"),
        ("ประชุมวันศุกร์", "วันศุกร์"),
        ("会", "会"),
        ("ﾃｽﾄ", "ﾃｽﾄ"),
        ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
        ("перенести встречу", "ВСТРЕЧУ"),
    ],
)
def test_spellings_of_one_word_meet(row: str, question: str) -> None:
    """Case, accents, vowel signs, pieces of names and writing without spaces do not keep a word from its row."""
    assert of_row(row) & asked(question)[0]


@pytest.mark.parametrize("language", _CASES)
def test_what_people_ask_later_meets_its_row(language: str) -> None:
    """In each language a question shares a term with the row it is about."""
    for row, question in _CASES[language]:
        plain, parts = asked(question)
        assert of_row(row) & (plain | parts), (row, question)


def test_a_compound_is_found_by_its_part_and_finds_it() -> None:
    """The part is less than a word on either side, so that whoever searches can weigh it."""
    plain, parts = asked("Entwurf")
    assert (set(), {"~entwurf"}) == (of_row("Vertragsentwurf") & plain, of_row("Vertragsentwurf") & parts)
    plain, parts = asked("Vertragsentwurf")
    assert (set(), {"entwurf"}) == (of_row("Entwurf") & plain, of_row("Entwurf") & parts)


def test_a_long_word_that_both_sides_have_counts_once() -> None:
    """Its parts meet nothing of its own, or a long word would outweigh ten short ones."""
    plain, parts = asked("Vertragsentwurf")
    assert {"vertragsentwurf"} == of_row("Vertragsentwurf") & plain
    assert set() == of_row("Vertragsentwurf") & parts


@law
@given(st.text(max_size=60))
def test_a_text_is_found_by_its_own_words(text: str) -> None:
    """Whatever is written, every whole term that it asks for is one that its row has."""
    plain, parts = asked(text)
    assert plain <= of_row(text)
    assert set() == plain & parts


@law
@given(st.lists(st.text(max_size=12), max_size=8), st.integers(1, 10))
def test_a_query_is_bounded_and_asks_for_nothing_twice(said: list[str], most: int) -> None:
    """At most so many terms of each kind, each once, none of them blank."""
    for terms in query_terms(said, most):
        listed = terms.split(" ") if terms else []
        assert len(listed) == len(set(listed)) <= most
        assert "" not in listed


def test_hostile_text_takes_time_in_proportion() -> None:
    """A million marks on one letter, one endless word, and a page of compounds are read to the end."""
    assert row_terms("e" + "\u0301\u0323" * 500_000)
    assert row_terms("a" * 1_000_000)
    assert row_terms("字" * 300_000)
    assert query_terms(["Donaudampfschifffahrtsgesellschaft" * 20_000], MOST)

"""Amounts and days: what a text names of them, in which value, and what is none."""

from __future__ import annotations

import time
from datetime import date
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.judge.amounts import find_amounts, find_numbers
from flows.judge.days import Day, Role, find_days, same_day

NEAR = date(2024, 3, 15)
MONDAY, FRIDAY = Day(weekday=0), Day(weekday=4)


@pytest.mark.parametrize(
    ("text", "value", "currency"),
    [
        ("1,200 €", "1200", "EUR"),
        ("€1.200", "1200", "EUR"),
        ("12.000 EUR", "12000", "EUR"),
        ("12 000 Euro", "12000", "EUR"),
        ("1.200,50 €", "1200.5", "EUR"),
        ("1,200.50 €", "1200.5", "EUR"),
        ("12.50 €", "12.5", "EUR"),
        ("0.500 €", "0.5", "EUR"),
        ("500,- €", "500", "EUR"),
        ("ein 500-Euro-Gutschein", "500", "EUR"),
        ("3 Mio. Euro", "3000000", "EUR"),
        ("$500", "500", "USD"),
        ("US$ 40", "40", "USD"),
        ("$5k", "5000", "USD"),
        ("2 million dollars", "2000000", "USD"),
        ("1'200 CHF", "1200", "CHF"),
        ("5000円", "5000", "¥"),
        ("５，０００円", "5000", "¥"),
        ("5万円", "50000", "¥"),
        ("1万5千円", "15000", "¥"),
        ("¥5,000", "5000", "¥"),
        ("3000元", "3000", "¥"),
    ],
)
def test_an_amount_is_one_value_however_it_is_written(text: str, value: str, currency: str) -> None:
    """Signs and names of currencies, thousands and decimals of several countries, and scales."""
    (found,) = find_amounts(f"Pay {text}.")
    assert (Decimal(value), currency) == found.value


@pytest.mark.parametrize(
    "text", ["500", "Room 12", "10 %", "3 hours", "5 kg", "REQ-500", "v1.200", "the euro fell"]
)
def test_other_numbers_are_no_amounts(text: str) -> None:
    """A number without a currency, a percentage, a duration and a quantity are no money."""
    assert () == find_amounts(text)


def test_numbers_are_what_is_left() -> None:
    """Numbers that belong to an amount, a day or an identifier are no numbers of their own."""
    assert {Decimal(500), Decimal(1200)} == find_numbers(
        "from 500 to 800 € on March 18, 2024-03-19, REQ-12, 1,200"
    )


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("Release 2024-03-18", Day(2024, 3, 18)),
        ("2024/3/18の会議", Day(2024, 3, 18)),
        ("Review 18.3.", Day(None, 3, 18)),
        ("Review am 18.3", Day(None, 3, 18)),
        ("das Review am 18.03.2024", Day(2024, 3, 18)),
        ("das Review am 18.03.24", Day(2024, 3, 18)),
        ("March 18", Day(None, 3, 18)),
        ("the 18th of March, 2024", Day(2024, 3, 18)),
        ("18. März", Day(None, 3, 18)),
        ("3/18", Day(None, 3, 18)),
        ("3月18日の会議", Day(None, 3, 18)),
        ("３月１８日", Day(None, 3, 18)),
        ("3月18号", Day(None, 3, 18)),
        ("May 5", Day(None, 5, 5)),
        ("Friday review", FRIDAY),
        ("Friday's review", FRIDAY),
        ("Fri 15:00", FRIDAY),
        ("Freitags-Review", FRIDAY),
        ("Freitagsreview", FRIDAY),
        ("金曜のレビュー", FRIDAY),
        ("金曜日", FRIDAY),
        ("周五的评审", FRIDAY),
        ("星期五", FRIDAY),
        ("March report", Day(None, 3)),
        ("report for March 2024", Day(2024, 3)),
        ("März-Abrechnung", Day(None, 3)),
        ("3月分の請求書", Day(None, 3)),
        ("Friday, March 18", Day(None, 3, 18, 4)),
        ("3月18日（金曜日）", Day(None, 3, 18, 4)),
        ("am Montag, den 18.3. um 9", Day(None, 3, 18, 0)),
    ],
)
def test_a_day_is_found_as_it_is_named(text: str, day: Day) -> None:
    """Dates, weekdays and months in several languages; a weekday beside its date is one day."""
    assert [day] == [found.value for found in find_days(text)]


@pytest.mark.parametrize(
    "text",
    [
        "24/7",
        "1/2",
        "v1.2.",
        "Version 3.5.",
        "section 3.1. of it",
        "2024-13-45",
        "32.1.",
        "May I ask",
        "we march on",
        "in March",
        "bis Ende März",
        "一周三次",
        "Sun and Sat",
        "REQ-2024-03-18",
        "192.168.1.1",
    ],
)
def test_what_is_no_day(text: str) -> None:
    """Versions, fractions, verbs, impossible dates and months that are only a time name no day."""
    assert () == find_days(text)


@pytest.mark.parametrize(
    ("text", "role"),
    [
        ("the Friday review", "name"),
        ("Friday's review", "name"),
        ("Freitags-Review", "name"),
        ("金曜の会議", "name"),
        ("the March 18 release", "name"),
        ("send it by Friday", "deadline"),
        ("bis zum 18.3. schicken", "deadline"),
        ("金曜までに送る", "deadline"),
        ("sent on Friday", "happened"),
        ("am 18.3. verschickt", "happened"),
        ("18日ではなく3月18日に送りました", "happened"),
        ("last Friday", "past"),
        ("seit Freitag", "past"),
        ("moves to Friday", "other"),
        ("the Friday is free", "other"),
        ("Freitagabend", "other"),
    ],
)
def test_the_role_of_a_day(text: str, role: Role) -> None:
    """Whether a day names a thing, is its deadline, or says when something happened."""
    assert [role] == [found.role for found in find_days(text)]


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("the Friday board review is on", "board review"),
        ("Freitags-Review", "Review"),
        ("Freitagsreview", "review"),
        ("Friday's review, now", "review"),
        ("金曜の会議、明日", "会議"),
        ("周五的评审", "评审"),
        ("moves to Friday", ""),
    ],
)
def test_what_a_day_is_the_name_of(text: str, thing: str) -> None:
    """The next words, where a day names something."""
    assert [thing] == [found.thing for found in find_days(text)]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (MONDAY, MONDAY, True),
        (MONDAY, FRIDAY, False),
        (Day(2024, 3, 18), Day(None, 3, 18), True),
        (Day(2024, 3, 18), Day(2025, 3, 18), False),
        (Day(None, 3, 18), Day(None, 3, 25), False),
        (Day(None, 3), Day(None, 3, 25), True),
        (Day(None, 4), Day(None, 3, 25), False),
        (Day(None, 3, 18), MONDAY, True),
        (Day(None, 3, 18), FRIDAY, False),
        (Day(None, 2, 30), FRIDAY, None),
        (Day(None, 3), FRIDAY, None),
    ],
)
def test_days_are_compared_as_far_as_they_are_named(left: Day, right: Day, same: bool | None) -> None:
    """A date without a year fits every year; a weekday is held against the nearest such date."""
    assert same is same_day(left, right, NEAR)
    assert same is same_day(right, left, NEAR)


def test_a_weekday_and_a_date_are_not_compared_out_of_time() -> None:
    """Without a day to look from, nobody knows which weekday March 18 is."""
    assert same_day(Day(None, 3, 18), MONDAY, None) is None


@pytest.mark.parametrize("unit", ["1", "1,", "1 ", "$1", "€ ", "5万", "1月", "3月1日", "monday ", "March ", "1. "])
def test_hostile_text_costs_linear_time(unit: str) -> None:
    """A quarter of a megabyte that almost matches everywhere is read in moments."""
    text = (unit * 250_000)[:250_000]
    started = time.process_time()
    find_amounts(text)
    find_days(text)
    assert time.process_time() - started < 30


@given(st.text(st.characters(), max_size=200))
def test_any_text_is_accepted(text: str) -> None:
    """Each mention stands where it says it does, and none overlaps the next of its kind."""
    for found in (find_amounts(text), find_days(text)):
        for mention in found:
            assert 0 <= mention.start < mention.end <= len(text)
        assert all(left.end <= right.start for left, right in pairwise(found))

"""The due date of a text: which of its dates it is, and what day that is."""

import time
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.judge.dates import find_due

WEDNESDAY = datetime(2024, 6, 5, 9, 30, tzinfo=UTC)


def due(day: int, month: int = 6, year: int = 2024) -> date:
    return date(year, month, day)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("send it by 2024-06-12", due(12)),
        ("on 12 June please", due(12)),
        ("by the 12th of June", due(12)),
        ("June 12, 2025", due(12, 6, 2025)),
        ("by Friday", due(7)),
        ("by Wednesday", due(12)),
        ("on Monday next week", due(10)),
        ("next week", due(14)),
        ("this week", due(7)),
        ("tomorrow morning", due(6)),
        ("by EOD", due(5)),
        ("the day after tomorrow", due(7)),
        ("end of the month", due(30)),
        ("end of July", due(31, 7)),
        ("by January 3", due(3, 1, 2025)),
        ("bis zum 12. Juni", due(12)),
        ("am 12.6. bitte", due(12)),
        ("bis 12.06.2025", due(12, 6, 2025)),
        ("1. März 2025", due(1, 3, 2025)),
        ("bis Freitag", due(7)),
        ("nächste Woche Montag", due(10)),
        ("nächste Woche", due(14)),
        ("das mache ich morgen", due(6)),
        ("heute noch", due(5)),
        ("bis Ende des Monats", due(30)),
        ("bis Ende Juli", due(31, 7)),
        ("6月12日までに", due(12)),
        ("2025年1月8日", due(8, 1, 2025)),
        ("金曜日まで", due(7)),
        ("来週の月曜に", due(10)),
        ("来週中", due(14)),
        ("明日までに", due(6)),
        ("本日中", due(5)),
        ("月末まで", due(30)),
        ("7月末", due(31, 7)),
    ],
)
def test_each_way_to_state_a_date(text: str, expected: date) -> None:
    """A date is read in three languages, relative to the event and never to the clock."""
    assert find_due(text, WEDNESDAY) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("move the review from Friday to Monday", due(10)),
        ("to Monday, not on Friday", due(10)),
        ("den Termin von Freitag auf Montag verschieben", due(10)),
        ("金曜から月曜に変更", due(10)),
        ("prepare the Friday review by Thursday", due(6)),
        ("金曜の会議の資料を明日送ってください", due(6)),
        ("ask Ken today, we ship on Friday", due(7)),
    ],
)
def test_of_several_dates_the_goal_wins(text: str, expected: date) -> None:
    """A date after "to", "auf", "に" beats the others, else the last one counts."""
    assert find_due(text, WEDNESDAY) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no date at all",
        "the Friday review",
        "Friday's review",
        "every Monday",
        "since Friday",
        "Guten Morgen",
        "Morgen zusammen!",
        "heute Morgen"[6:],
        "毎週月曜",
        "金曜の会議",
        "Version 2.1.",
        "31 June",
        "2024-13-40",
        "the report of 2 June",
        "mayday 5",
    ],
)
def test_what_is_no_due_date(text: str) -> None:
    """Names, repetitions, greetings, versions, impossible days and the last days are none."""
    assert find_due(text, WEDNESDAY) is None


@pytest.mark.parametrize("unit", ["monday ", "1 ", "12. ", "by ", "6月1日", "月末", "12.6.", "next ", "2024-01-"])
def test_hostile_text_costs_linear_time(unit: str) -> None:
    """A wall of dates is scanned once, and only a handful of it is resolved."""
    text = (unit * 200_000)[:200_000]
    started = time.perf_counter()
    find_due(text, WEDNESDAY)
    assert time.perf_counter() - started < 5


@given(st.text(max_size=80), st.datetimes(timezones=st.just(UTC)))
def test_any_text_at_any_time_is_accepted(text: str, at: datetime) -> None:
    """No text and no time makes it raise."""
    find_due(f"{text} on Friday, next week or by 30 February {text}", at)

"""The breaker: when a provider is left alone, and when it is asked again."""

from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from flows.breaker import Breaker
from store.schema import Settings
from tests.workplace import START

LIMITS = Settings(breaker_after=3, breaker_first=1, breaker_longest=4)


def after(seconds: float) -> datetime:
    """A moment of the test."""
    return START + timedelta(seconds=seconds)


def test_it_opens_after_failures_in_a_row() -> None:
    """Two failures and an answer leave it closed; three in a row open it."""
    breaker = Breaker("judge", LIMITS)
    for outcome in ("failed", "failed", "answered", "failed", "failed"):
        breaker.failed("429", START) if outcome == "failed" else breaker.answered()
    assert ("closed", 64) == (breaker.state(START), breaker.room(64, 0, START))
    breaker.failed("429", START)
    assert ("open", 0) == (breaker.state(START), breaker.room(64, 0, START))
    told = breaker.vitals(START)
    assert ("judge", 3, "429", START, after(1)) == (
        told.provider,
        told.failures,
        told.reason,
        told.since,
        told.retry_at,
    )


def test_one_event_finds_out() -> None:
    """After the pause one event may ask, and none while another is under way; an answer closes it."""
    breaker = Breaker("judge", LIMITS)
    for _ in range(3):
        breaker.failed("429", START)
    assert (1, 0) == (breaker.room(64, 0, after(1)), breaker.room(64, 1, after(1)))
    breaker.answered()
    assert ("closed", 64) == (breaker.state(after(1)), breaker.room(64, 0, after(1)))


def test_pauses_double_up_to_the_longest() -> None:
    """Each failed attempt doubles the pause; the first opening stays the time it is open since."""
    breaker = Breaker("judge", LIMITS)
    now, pauses = START, []
    for _ in range(3):
        breaker.failed("429", now)
    for _ in range(5):
        told = breaker.vitals(now)
        assert told.retry_at
        assert START == told.since
        pauses.append((told.retry_at - now).total_seconds())
        now = told.retry_at
        breaker.failed("429", now)
    assert [1, 2, 4, 4, 4] == pauses


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=80))
def test_it_never_stays_shut_for_ever(steps: list[tuple[bool, int]]) -> None:
    """Whatever happened, the next attempt is at most the longest pause away, and one answer opens the way."""
    breaker, now = Breaker("judge", LIMITS), START
    for failed, seconds in steps:
        now += timedelta(seconds=seconds)
        breaker.failed("x", now) if failed else breaker.answered()
        retry_at = breaker.vitals(now).retry_at
        assert retry_at is None or retry_at - now <= timedelta(seconds=LIMITS.breaker_longest)
    breaker.answered()
    assert 64 == breaker.room(64, 63, now)

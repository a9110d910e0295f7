"""The events that wait: in order, within three bounds, none lost."""

from __future__ import annotations

import random
from collections import defaultdict, deque
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.topic_file import TopicFile
from flows.backlog import Backlog
from flows.pending import Held, Pending
from store.schema import Arrival, Coordinates, Settings, TopicError
from tests.workplace import START, event

LIMITS = Settings(thread_pending=4, pending=30, pending_megabytes=0.1)


def arrivals(threads: Sequence[int]) -> list[Arrival]:
    """Events of these threads, in order of their offsets."""
    return [
        Arrival(
            event=event("x", id=str(offset), thread=f"t{thread}"),
            arrived=START,
            coordinates=Coordinates(topic="events", offset=offset),
        )
        for offset, thread in enumerate(threads)
    ]


def backlog_over(topic: Sequence[Arrival], limits: Settings = LIMITS) -> Backlog:
    """A backlog that can read the topic again."""
    return Backlog(limits, lambda places: [topic[place.offset] for place in places])


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(0, 1 << 30))
def test_every_event_comes_out_once_in_the_order_of_its_thread(threads: list[int], seed: int) -> None:
    """However events and settlements interleave: order within a thread, none lost, none twice, counts true."""
    chance = random.Random(seed)
    topic = arrivals(threads)
    backlog = backlog_over(topic)
    coming, gone = deque(topic), defaultdict(list)
    while coming or len(backlog):
        if coming and chance.random() < 0.6:
            backlog.take(coming[0].event.thread, [Pending(coming.popleft())])
        backlog.refill(START)
        heads = list(backlog.heads(START))
        if heads and (not coming or chance.random() < 0.4):
            head = chance.choice(heads)
            backlog.drop(head)
            gone[head.arrival.event.thread].append(head.arrival.coordinates.offset)
        kept = [each for name in set(threads) for each in backlog.kept(f"t{name}")]
        assert len(backlog) == len(kept)
        assert backlog.held == sum(isinstance(each, Held) for each in kept)
        assert backlog.size == sum(each.size for each in kept if isinstance(each, Pending))
    assert (0, 0, 0) == (backlog.events, backlog.held, backlog.size)
    for name, offsets in gone.items():
        assert offsets == [a.coordinates.offset for a in topic if a.event.thread == name]


@given(st.lists(st.integers(0, 2), max_size=40))
def test_what_is_kept_is_taken_up_again_in_the_same_order(threads: list[int]) -> None:
    """A snapshot and its resumption: the same events, held ones too, in the same order."""
    topic = arrivals(threads)
    before = backlog_over(topic)
    for each in topic:
        before.take("owner", [Pending(each)])
    kept = list(before.kept("owner"))
    after = backlog_over(topic)
    after.take("owner", kept)
    assert kept == list(after.kept("owner"))
    assert (before.events, before.held, before.size) == (after.events, after.held, after.size)


def test_a_thread_beyond_its_bound_keeps_places_only() -> None:
    """Of ten events of one thread four are kept whole, six by their place, and all count for the process."""
    topic = arrivals([0] * 10)
    backlog = backlog_over(topic)
    backlog.take("owner", [Pending(each) for each in topic])
    assert (4, 6, 10) == (backlog.events, backlog.held, len(backlog))
    assert 20 == backlog.room()[0]


def test_bytes_are_bounded_too() -> None:
    """Texts of 30,000 characters fill 100,000 bytes with the fourth one."""
    backlog = backlog_over([])
    for number, each in enumerate(arrivals([0, 1, 2, 3])):
        assert backlog.room()[1] > 0, number
        long = each.event.model_copy(update={"text": "x" * 30_000})
        backlog.take("owner", [Pending(each.model_copy(update={"event": long}))])
    assert 0 == backlog.room()[1]


def test_held_events_that_cannot_be_read_now_are_read_later() -> None:
    """A topic that is out of reach delays its thread and loses nothing."""
    topic = arrivals([0] * 6)
    out = [OSError("gone for a while")] * 2

    def fetch(places: Sequence[Coordinates]) -> list[Arrival]:
        if out:
            raise out.pop()
        return [topic[place.offset] for place in places]

    backlog = Backlog(LIMITS, fetch)
    backlog.take("owner", [Pending(each) for each in topic])
    while list(backlog.heads(START)):
        backlog.drop(next(backlog.heads(START)))
    assert (0, 2) == (backlog.events, backlog.held)
    now = START
    for expected in (0, 0, 2):
        backlog.refill(now)
        assert expected == backlog.events
        due = backlog.next_at("owner", now)
        assert due is not None
        now = max(due, now + timedelta(milliseconds=1))
    assert ["4", "5"] == [each.arrival.event.id for each in backlog.kept("owner") if isinstance(each, Pending)]


def test_a_topic_that_was_cut_is_an_error(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """What was read before and is gone ends the run with a sentence; it does not vanish."""
    topic = TopicFile(tmp_path, "events")
    with pytest.raises(TopicError, match="read before and is gone"):
        topic.fetch([Coordinates(topic="events", offset=3)])

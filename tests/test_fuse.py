"""Lanes are kept apart until the end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.retrieve.fuse import Candidate, Ranked, fuse, points
from store.schema import LaneRank
from store.schema.view import Lane, Tie

MOMENT = datetime(2026, 3, 2, tzinfo=UTC)
NAMES: tuple[Lane, ...] = ("exact", "text", "vector")

lanes = st.fixed_dictionaries(
    {name: st.lists(st.integers(0, 30).map(lambda n: f"row{n:02d}"), unique=True, max_size=13) for name in NAMES}
)
ties: st.SearchStrategy[tuple[Tie, ...]] = st.sampled_from([(), ("author",), ("author", "addressee")])
known = st.fixed_dictionaries(
    {
        f"row{number:02d}": st.builds(
            Candidate, st.integers(0, 9).map(lambda days: MOMENT + timedelta(days=days)), ties
        )
        for number in range(31)
    }
)


def shown(found: dict[Lane, list[str]], candidates: dict[str, Candidate]) -> list[Ranked]:
    """Twelve rows, four of each lane among them."""
    return fuse(found, candidates, most=12, guaranteed=4)


def of_one_day(found: dict[Lane, list[str]], **tied: Candidate) -> list[str]:
    """What is shown of rows that differ in nothing but their places, and in what is said of some."""
    alike = {row: Candidate(MOMENT) for rows in found.values() for row in rows}
    return [each.row for each in shown(found, {**alike, **tied})]


@pytest.mark.promise("D5")
@settings(print_blob=True)
@given(lanes, known)
def test_no_lane_loses_its_best(found: dict[Lane, list[str]], candidates: dict[str, Candidate]) -> None:
    """Each lane's first four rows are shown, at most twelve rows in all, each once and with all its ranks."""
    ranked = shown(found, candidates)
    rows = [each.row for each in ranked]
    assert len(rows) == len(set(rows)) <= 12
    assert set() == {row for hits in found.values() for row in hits[:4]} - set(rows)
    assert min(12, len({row for hits in found.values() for row in hits})) == len(rows)
    for each in ranked:
        expected = [
            LaneRank(lane=lane, rank=hits.index(each.row) + 1) for lane, hits in found.items() if each.row in hits
        ]
        assert expected == list(each.lanes)


@pytest.mark.promise("D5")
def test_first_in_one_lane_and_unknown_to_the_other() -> None:
    """Twelve rows that both lanes like do not push out the one that only the exact lane knows."""
    liked = [f"row{n:02d}" for n in range(12)]
    assert "right" in of_one_day({"exact": ["right", *liked], "text": liked})


@settings(print_blob=True)
@given(lanes, known)
def test_the_order_is_what_the_ranks_add_up_to(
    found: dict[Lane, list[str]], candidates: dict[str, Candidate]
) -> None:
    """Lanes, people and recency give the points that rows are ordered by; recency counts all that was found."""
    ranked = shown(found, candidates)
    keys = [(-points(each.lanes, each.ties, each.recency), each.row) for each in ranked]
    assert sorted(keys) == keys
    everything = sorted(
        {row for hits in found.values() for row in hits},
        key=lambda row: (-candidates[row].last_activity.timestamp(), row),
    )
    assert [everything.index(each.row) + 1 for each in ranked] == [each.recency for each in ranked]
    assert [candidates[each.row].ties for each in ranked] == [each.ties for each in ranked]


def test_who_counts_as_much_as_what() -> None:
    """The fifth most similar row is first when it is the author's; without a tie it stays where it was."""
    rows = [f"row{n}" for n in range(8)]
    assert "row0" == of_one_day({"text": rows})[0]
    assert "row5" == of_one_day({"text": rows}, row5=Candidate(MOMENT, ("author",)))[0]


def test_when_decides_between_equals() -> None:
    """Of two rows that two lanes disagree on, the one that was spoken of last comes first."""
    found: dict[Lane, list[str]] = {"text": ["old", "new"], "vector": ["new", "old"]}
    newer = Candidate(MOMENT + timedelta(days=1))
    assert ["new", "old"] == of_one_day(found, new=newer)
    assert ["old", "new"] == of_one_day(found, old=newer)

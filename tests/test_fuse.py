"""Lanes are kept apart until the end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.retrieve.fuse import fuse
from store.schema import LaneRank

lanes = st.fixed_dictionaries(
    {
        name: st.lists(st.integers(0, 30).map(lambda n: f"row{n:02d}"), unique=True, max_size=13)
        for name in ("exact", "text", "vector")
    }
)


@pytest.mark.promise("D5")
@settings(print_blob=True, deadline=None)
@given(lanes)
def test_no_lane_loses_its_best(found: dict[str, list[str]]) -> None:
    """Each lane's first four rows are shown, at most twelve rows in all, each once and with all its ranks."""
    shown = fuse(found, most=12, guaranteed=4)  # type: ignore[arg-type]
    rows = [row for row, _ in shown]
    assert len(rows) == len(set(rows)) <= 12
    assert set() == {row for hits in found.values() for row in hits[:4]} - set(rows)
    assert min(12, len({row for hits in found.values() for row in hits})) == len(rows)
    for row, ranks in shown:
        expected = [
            LaneRank.model_validate({"lane": lane, "rank": hits.index(row) + 1})
            for lane, hits in found.items()
            if row in hits
        ]
        assert expected == list(ranks)


@pytest.mark.promise("D5")
def test_first_in_one_lane_and_unknown_to_the_other() -> None:
    """Twelve rows that both lanes like do not push out the one that only the exact lane knows."""
    liked = [f"row{n:02d}" for n in range(12)]
    shown = fuse({"exact": ["right", *liked], "text": liked}, most=12, guaranteed=4)
    assert "right" in [row for row, _ in shown]

"""What, who and when: each lane gets its best rows in, and all rows are ordered by the sum of their ranks.

Likeness alone does not say which row is meant: on human-labelled chat the author's last row is it more often
than the most similar one. So a row that shares its people with the event gets as much for it as the first row of a
lane, and the rows that were found are ranked by last activity as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest

from store.schema import LaneRank
from store.schema.view import Lane, Tie

_K = 60
"""The usual constant of reciprocal rank fusion."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What is known of a row that search returned, beside its places in the lanes."""

    last_activity: datetime
    ties: tuple[Tie, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row with all it is ranked by."""

    row: str
    lanes: tuple[LaneRank, ...]
    ties: tuple[Tie, ...]
    recency: int

    @property
    def points(self) -> float:
        """The sum of reciprocal ranks."""
        return points(self.lanes, self.ties, self.recency)


def points(lanes: Sequence[LaneRank], ties: Sequence[Tie], recency: int) -> float:
    """What a row is ordered by: its lanes (what), its ties (who), its place by last activity (when)."""
    ranks = [*(lane.rank for lane in lanes), *(1 for _ in ties), recency]
    return sum(1 / (_K + rank) for rank in ranks)


def fuse(
    lanes: Mapping[Lane, Sequence[str]], candidates: Mapping[str, Candidate], *, most: int, guaranteed: int
) -> list[Ranked]:
    """At most `most` rows, best first; `candidates` knows every row of the lanes.

    The first `guaranteed` rows of each lane are always among them, so that no lane's best is lost because the
    others do not know it (D5). Equal sums are ordered by id.
    """
    places: dict[str, list[LaneRank]] = {}
    for lane, rows in lanes.items():
        for rank, row in enumerate(rows, start=1):
            places.setdefault(row, []).append(LaneRank(lane=lane, rank=rank))
    newest = sorted(places, key=lambda row: (-candidates[row].last_activity.timestamp(), row))
    ranked = [
        Ranked(row, tuple(places[row]), candidates[row].ties, recency)
        for recency, row in enumerate(newest, start=1)
    ]
    ranked.sort(key=lambda each: (-each.points, each.row))
    reserved = interleave([rows[:guaranteed] for rows in lanes.values()])
    chosen = set(list(dict.fromkeys([*reserved, *(each.row for each in ranked)]))[:most])
    return [each for each in ranked if each.row in chosen]


def interleave(lists: Sequence[Sequence[str]]) -> list[str]:
    """The firsts of all lists, then the seconds, each row once."""
    mixed = (row for tier in zip_longest(*lists) for row in tier if row is not None)
    return list(dict.fromkeys(mixed))

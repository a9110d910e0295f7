"""Lanes kept apart until the end: each keeps its best rows, the rest is shared by rank."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest

from store.schema import LaneRank
from store.schema.view import Lane

_K = 60
"""The usual constant of reciprocal rank fusion."""


def fuse(
    lanes: Mapping[Lane, Sequence[str]], *, most: int, guaranteed: int
) -> list[tuple[str, tuple[LaneRank, ...]]]:
    """At most `most` rows with their ranks, best first.

    The first `guaranteed` rows of each lane are always among them, so that no lane's best is lost because the
    others do not know it (D5). Equal scores are ordered by id.
    """
    ranks: dict[str, list[tuple[Lane, int]]] = {}
    scores: dict[str, float] = {}
    for lane, rows in lanes.items():
        for rank, row in enumerate(rows, start=1):
            ranks.setdefault(row, []).append((lane, rank))
            scores[row] = scores.get(row, 0.0) + 1 / (_K + rank)
    by_score = sorted(ranks, key=lambda row: (-scores[row], row))
    reserved = interleave([rows[:guaranteed] for rows in lanes.values()])
    chosen = set(list(dict.fromkeys([*reserved, *by_score]))[:most])
    return [
        (row, tuple(LaneRank(lane=lane, rank=rank) for lane, rank in ranks[row]))
        for row in by_score
        if row in chosen
    ]


def interleave(lists: Sequence[Sequence[str]]) -> list[str]:
    """The firsts of all lists, then the seconds, each row once."""
    mixed = (row for tier in zip_longest(*lists) for row in tier if row is not None)
    return list(dict.fromkeys(mixed))

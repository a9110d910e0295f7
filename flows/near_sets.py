"""Sets that are nearly equal, found among very many without comparing each with each.

An exact set-similarity join. Of two sets whose shared share of all their elements is at least `share`, the rarest
elements of either hold at least two that both have; so only sets that share such a pair are ever compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations
from math import ceil
from typing import Final

_PAIRED: Final = 2
"""Elements that near-equal sets have in common among their rarest ones (count)."""
_ROUNDING: Final = 1e-9


class NearSets:
    """The sets of a list, asked for those that are nearly equal to one of them."""

    def __init__(self, sets: Sequence[frozenset[str]], share: float) -> None:
        """Index the sets; `share` of the union is what two of them have in common, more than a half."""
        frequency = Counter(element for each in sets for element in each)
        rarest = sorted(frequency, key=lambda element: (frequency[element], element))
        numbers = {element: number for number, element in enumerate(rarest)}
        self._share = share
        self._elements = len(numbers)
        self._sets = [tuple(sorted(numbers[element] for element in each)) for each in sets]
        self._sizes = {len(each) for each in self._sets}
        self._first: dict[int, int] = {}
        self._more: defaultdict[int, list[int]] = defaultdict(list)
        for number, each in enumerate(self._sets):
            # The smallest set it may be near to is the one with which it needs the fewest in common.
            needed = ceil(share * len(each) - _ROUNDING)
            for key in self._keys(each, len(each), needed):
                if self._first.setdefault(key, number) != number:
                    self._more[key].append(number)

    def later(self, number: int) -> Iterator[tuple[int, float]]:
        """The sets behind this one that are near to it, with what they share of their union."""
        mine = self._sets[number]
        members = set(mine)
        size = len(mine)
        for other in sorted(self._candidates(mine, number)):
            theirs = self._sets[other]
            common = len(members.intersection(theirs))
            share = common / (size + len(theirs) - common)
            if share >= self._share - _ROUNDING:
                yield other, share

    def _candidates(self, mine: tuple[int, ...], number: int) -> set[int]:
        found: set[int] = set()
        smallest, largest = ceil(self._share * len(mine) - _ROUNDING), int(len(mine) / self._share + _ROUNDING)
        for size in range(smallest, largest + 1):
            if size in self._sizes:
                needed = ceil(self._share / (1 + self._share) * (len(mine) + size) - _ROUNDING)
                for key in self._keys(mine, size, needed):
                    if (first := self._first.get(key, 0)) > number:
                        found.add(first)
                    if key in self._more:
                        found.update(other for other in self._more[key] if other > number)
        return found

    def _keys(self, mine: tuple[int, ...], size: int, needed: int) -> Iterator[int]:
        """The pairs of the rarest elements, each as one number with the size of the set that is looked for."""
        for one, two in combinations(mine[: len(mine) - needed + _PAIRED], 2):
            yield (one * self._elements + two) * _LARGEST + min(size, _LARGEST - 1)


_LARGEST: Final = 1 << 12
"""Sizes beyond this share their keys (elements): a title never has so many."""

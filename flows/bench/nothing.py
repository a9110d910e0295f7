"""Reads that cost nothing and find nothing: for going through very many events to see what else there is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from flows.overlay import Overlay
from flows.retrieve.look import Looker
from flows.retrieve.plan import plan
from store.record import Record
from store.schema import Arrival, Decision, Empty, EventRow, Read, Settings, View
from store.schema.view import ReadName

_NAMES: Final[tuple[ReadName, ...]] = ("text", "thread", "standby_tasks", "standby_people")
NOTHING_FOUND: Final = tuple(Read(name=name, outcome=Empty()) for name in _NAMES)
"""Every read that a create needs, made and empty."""


class EmptyRecord(Record):
    """Knows no event."""

    def __init__(self) -> None:
        """Without tables."""

    def events(self, ids: Iterable[str]) -> dict[str, EventRow]:
        return {}


class NoOverlay(Overlay):
    """Keeps nothing: as if apply had written everything at once."""

    def add(self, decision: Decision) -> None:
        """Nothing: it would never be taken out again."""


class EmptyLooker(Looker):
    """Finds nothing, at once."""

    def __init__(self, limits: Settings) -> None:
        self._limits = limits

    def look(self, wave: Sequence[Arrival], known: Mapping[str, EventRow]) -> list[View]:
        events = [arrival.event for arrival in wave]
        return [View(event=event.uid, queries=plan(event, self._limits), reads=NOTHING_FOUND) for event in events]

    def ask_ahead(self, events: Sequence[Arrival]) -> None:
        """Nothing."""

    def ask_segments(self, segments: Sequence[Arrival]) -> None:
        """Nothing."""

    def forget(self, event: str) -> None:
        """Nothing."""

"""What a look at a data folder has found: values for a page and for a program."""

from __future__ import annotations

from typing import Literal

from store.schema import Frozen

State = Literal["ok", "note", "wrong"]


class Check(Frozen):
    """One question about the folder, and the answer in a sentence."""

    name: str
    state: State
    said: str
    remedy: str | None = None
    """What to do about it, where there is something to do."""


def checked(name: str, state: State, said: str, remedy: str | None = None) -> Check:
    """A check; what is ok needs no remedy."""
    return Check(name=name, state=state, said=said, remedy=None if state == "ok" else remedy)


class TopicShown(Frozen):
    """One topic file; `id` is None when there is none."""

    name: str
    id: str | None = None
    messages: int = 0
    bytes: int = 0


class PlaceShown(Frozen):
    """How far a part of the store has followed its topic (offsets)."""

    part: str
    topic: str
    partition: int
    next_offset: int
    end: int
    lag: int
    """Messages the part has still to follow (count)."""


class IndexShown(Frozen):
    """One index (rows)."""

    name: str
    indexed: int
    unindexed: int


class TableShown(Frozen):
    """One table of the store."""

    name: str
    rows: int
    fragments: int
    versions: int
    bytes: int
    indexes: tuple[IndexShown, ...]


class EventCounts(Frozen):
    """What became of the messages of the events topic, up to the end it had when the look began."""

    messages: int = 0
    decided: int = 0
    parked: int = 0
    """Could not be decided, and wait in the dead letters for somebody to bring them back."""
    unreadable: int = 0
    """Are no events; each has a dead letter."""
    repeats: int = 0
    """Of an event that another message brought."""
    waiting: int = 0
    """Neither decided nor in the dead letters yet."""
    strange: int = 0
    """Event rows of which the topic does not hold the event (rows)."""

    @property
    def adds_up(self) -> bool:
        """Whether every message is accounted for, once."""
        parts = self.decided + self.parked + self.unreadable + self.repeats + self.waiting
        return self.messages == parts and not self.strange


class OperationCounts(Frozen):
    """The messages of the operations topic, up to the end it had when the look began."""

    messages: int = 0
    applied: int = 0
    """Up to the record's position."""
    decisions: int = 0
    """Decisions among the applied."""
    missing: int = 0
    """Decisions among the applied that have no row."""
    dropped: int = 0
    """Second decisions of an event, each dropped whole (rows)."""
    unreadable: int = 0


class LettersShown(Frozen):
    """Dead letters of one kind."""

    topic: str
    """The topic the letter's message stood on."""
    failure: str
    reason: str
    """What the reasons of the kind begin with."""
    count: int


class Report(Frozen):
    """All of it. `wrong` checks make the folder unwell; notes do not."""

    folder: str
    versions: dict[str, str]
    running: bool
    topics: tuple[TopicShown, ...]
    places: tuple[PlaceShown, ...] = ()
    events: EventCounts | None = None
    operations: OperationCounts | None = None
    letters: tuple[LettersShown, ...] = ()
    tables: tuple[TableShown, ...] = ()
    checks: tuple[Check, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return all(check.state != "wrong" for check in self.checks)

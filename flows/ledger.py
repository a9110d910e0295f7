"""The topics of a folder gone through, so that every message is accounted for.

A run may be going on: the ends are taken first, and nothing beyond them counts. What a message became is known
from the row that names its offset; only a message that no row names is read in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from connectors.message import Incoming
from connectors.topic_file import TopicFile
from flows.diagnosis import EventCounts, LettersShown, OperationCounts
from flows.parse import read_event, read_operation
from flows.steps import Progress
from store.derive import Applied
from store.schema import Arrival, DeadLetter, Decision, Parked

_AT_ONCE: Final = 2_048
"""Messages read at once (count)."""
_SAMPLE: Final = 2_000
"""Messages read in full although a row names them, to see that it is the right row (count)."""
_REASON: Final = 60
"""Length of a reason's beginning (characters)."""


@dataclass(slots=True)
class KnownEvents:
    """The event rows as the ledger needs them."""

    decided: set[str] = field(default_factory=set)
    """Uids with a Decision."""
    parked: dict[str, int] = field(default_factory=dict)
    """Where the message stood that was parked, by uid."""
    at: dict[int, str] = field(default_factory=dict)
    """Uid by the offset of the message that brought the event."""
    crowded: int = 0
    """Rows that claim an offset another row has claimed (rows)."""

    def add(self, uid: str, seq: int, decision: str | None) -> None:
        """Take up a row."""
        if decision:
            self.decided.add(uid)
        else:
            self.parked[uid] = seq
        self.crowded += self.at.setdefault(seq, uid) != uid

    def beyond(self, end: int) -> int:
        """Rows of messages at or after an offset (rows)."""
        return sum(offset >= end for offset in self.at)


@dataclass(slots=True)
class Letters:
    """The dead letters."""

    kinds: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Topic, failure class and beginning of the reason."""
    offsets: dict[str, set[int]] = field(default_factory=dict)
    """Where the messages stood, by topic."""
    damaged: int = 0

    def shown(self) -> tuple[LettersShown, ...]:
        """The kinds, the most frequent first."""
        return tuple(
            LettersShown(topic=topic, failure=failure, reason=reason, count=count)
            for (topic, failure, reason), count in self.kinds.most_common()
        )


@dataclass(slots=True)
class Emitted:
    """Events of which the operations topic says more than the record knows."""

    decided: set[str] = field(default_factory=set)
    parked: set[str] = field(default_factory=set)


def read_letters(topic: TopicFile, end: int, progress: Progress) -> Letters:
    """Go through the dead letters."""
    letters = Letters()
    for incoming in _messages(topic, end, "dead letters", progress):
        try:
            letter = DeadLetter.model_validate_json(incoming.value)
        except ValidationError:
            letters.damaged += 1
            continue
        where = letter.coordinates
        letters.offsets.setdefault(where.topic, set()).add(where.offset)
        letters.kinds[where.topic, letter.failure.value, letter.reason.partition(":")[0][:_REASON]] += 1
    return letters


def read_operations(
    topic: TopicFile, end: int, applied: int, rows: Collection[int], progress: Progress
) -> tuple[OperationCounts, Emitted]:
    """Go through the operations: `rows` are the offsets Decision rows name, `applied` is where the record is."""
    emitted = Emitted()
    decisions = missing = unreadable = 0
    for incoming in _messages(topic, end, "operations", progress):
        is_applied = incoming.offset < applied
        if is_applied and incoming.offset in rows:
            decisions += 1
            continue
        read = read_operation(incoming)
        if not isinstance(read, Applied):
            unreadable += 1
        elif isinstance(read.message, Decision):
            decisions += is_applied
            missing += is_applied
            if not is_applied:
                emitted.decided.add(read.message.event.uid)
        elif isinstance(read.message, Parked) and not is_applied:
            emitted.parked.add(read.message.event.uid)
    counts = OperationCounts(
        messages=end,
        applied=min(applied, end),
        decisions=decisions,
        missing=missing,
        unreadable=unreadable,
    )
    return counts, emitted


def read_events(
    topic: TopicFile, end: int, known: KnownEvents, emitted: Emitted, letters: Letters, progress: Progress
) -> EventCounts:
    """Go through the events: each message is decided, parked, unreadable, a repeat, or waits."""
    lettered = letters.offsets.get(topic.name, set())
    counts: Counter[str] = Counter(strange=known.crowded)
    met: set[str] = set()
    every = max(1, end // _SAMPLE)
    for incoming in _messages(topic, end, "events", progress):
        uid = known.at.get(incoming.offset)
        if uid is not None:
            counts["strange"] += incoming.offset % every == 0 and uid != _uid(incoming)
            counts["decided" if uid in known.decided or uid in emitted.decided else "parked"] += 1
            continue
        uid = _uid(incoming)
        if uid is None:
            counts["unreadable" if incoming.offset in lettered else "waiting"] += 1
        elif uid in met or uid in known.decided or incoming.offset < known.parked.get(uid, -1):
            counts["repeats"] += 1
        else:
            met.add(uid)
            counts["decided" if uid in emitted.decided else "parked" if uid in emitted.parked else "waiting"] += 1
    return EventCounts(messages=end, **counts)


def _uid(incoming: Incoming) -> str | None:
    read = read_event(incoming)
    return read.event.uid if isinstance(read, Arrival) else None


def _messages(topic: TopicFile, end: int, what: str, progress: Progress) -> Iterator[Incoming]:
    for found in topic.batches(end=end, at_once=_AT_ONCE):
        progress(what, found[0].offset, end)
        yield from found
    progress(what, end, end)

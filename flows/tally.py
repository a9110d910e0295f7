"""What a run has done so far: counts for its progress, its end and its table."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

from flows.desk import Repeated, Settled
from store.commit import CommitReport
from store.schema import DeadLetter, Decision, Parked

_SHOWN = 5
"""Reasons kept for the page (count); all of them are on the dead-letter topic."""


@dataclass(slots=True)
class Tally:
    """Written by the flows, read by whoever shows it. Each field has one writer."""

    produced: int = 0
    """Events appended to the events topic."""
    read: int = 0
    """Messages handed to decide."""
    read_to: int = 0
    """Offset of the events topic that decide has read to."""
    decided: int = 0
    repeated: int = 0
    parked: int = 0
    unreadable_events: int = 0
    unkeyed: int = 0
    """Events whose message carried no key, or another one: their order is by arrival only."""
    operations: Counter[str] = field(default_factory=Counter)
    """Operations of the Decisions, by kind."""
    queries: int = 0
    """Queries that were planned for the Decisions."""
    text_queries: int = 0
    written: int = 0
    """Messages appended to the operations topic."""
    applied: int = 0
    """Messages that were applied."""
    dropped: int = 0
    applied_to: int = 0
    """Offset of the operations topic that the record has reached."""
    followed_to: int = 0
    """Offset of the operations topic that memory has reached."""
    memory_failure: str | None = None
    embedded: int = 0
    """Rows whose vector was made in this run."""
    unembedded: int = 0
    """Rows left without one when the run ended; the next run makes it."""
    embedder_failure: str | None = None
    reasons: list[str] = field(default_factory=list)
    """Why the first events went to the dead letters."""

    def settle(self, settled: Settled) -> None:
        """Count what became of an event."""
        match settled:
            case Decision():
                self.operations.update(operation.kind for operation in settled.operations)
                queries = [query for view in settled.views for query in view.queries]
                self.queries += len(queries)
                self.text_queries += sum(query.lane == "text" for query in queries)
                self.unkeyed += settled.arrival.unkeyed
                self.decided += 1
            case Parked():
                self._say(f"{settled.event.source} {settled.event.thread}/{settled.event.id}: {settled.reason}")
                self.parked += 1
            case Repeated():
                self.repeated += 1

    def unreadable(self, letter: DeadLetter) -> None:
        """Count a message that is no event."""
        where = letter.origin or f"{letter.coordinates.topic}:{letter.coordinates.offset}"
        self._say(f"{where}: {letter.reason}")
        self.unreadable_events += 1

    def applied_batch(self, report: CommitReport) -> None:
        """Count a commit."""
        self.dropped += report.dropped
        self.applied += report.messages

    @property
    def settled(self) -> int:
        """Messages of which decide knows what became."""
        return self.decided + self.repeated + self.parked + self.unreadable_events

    @property
    def emitted(self) -> int:
        """Messages for the operations topic."""
        return self.decided + self.parked

    def _say(self, reason: str) -> None:
        if len(self.reasons) < _SHOWN:
            self.reasons.append(reason)


class Watcher(Protocol):
    """Whoever shows the progress of a run."""

    def update(self, tally: Tally) -> None:
        """Called several times a second, and once at the end."""

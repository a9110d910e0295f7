"""Events that wait for their decision, and when they are tried again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from sys import getsizeof

from store.schema import (
    Arrival,
    ClassifiedFailure,
    Coordinates,
    FailureClass,
    JudgedOperation,
    Rejection,
    Settings,
    View,
)

_FIXED = 2_048
"""What an event takes beside its texts (bytes), roughly."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One piece of a long event that was judged; the Decision is made when all of them are."""

    view: View
    operations: tuple[JudgedOperation, ...]


@dataclass(frozen=True, slots=True)
class Pending:
    """One event that is not decided yet. Immutable: it is part of a recovery snapshot."""

    arrival: Arrival
    attempts: int = 0
    """Failures that count against the event."""
    tries: int = 0
    """All failures, for the delay between two of them."""
    failing_since: datetime | None = None
    not_before: datetime | None = None
    rejected: tuple[Rejection, ...] = ()
    judged: tuple[Judged, ...] = ()
    """Pieces of a long event that are done, in order."""

    @property
    def key(self) -> str:
        """The stream of its thread."""
        return self.arrival.event.key

    @property
    def size(self) -> int:
        """What it takes to keep (bytes), roughly."""
        event = self.arrival.event
        texts = (event.text, event.subject, *event.attrs.values())
        pieces = sum(len(piece.view.queries) * _FIXED for piece in self.judged)
        return _FIXED + pieces + sum(getsizeof(text) for text in texts if isinstance(text, str))

    def is_due(self, now: datetime) -> bool:
        """Whether it may be tried now."""
        return self.not_before is None or self.not_before <= now

    def after(self, failure: ClassifiedFailure, now: datetime, limits: Settings) -> Pending | None:
        """The event after a failure, to be tried again later; None when its tries are used up.

        Transient failures are nobody's fault and never use them up; a content failure does so at the cap, an
        unknown one after a time.
        """
        since = self.failing_since or now
        attempts = self.attempts + (failure.failure is FailureClass.CONTENT)
        match failure.failure:
            case FailureClass.TRANSIENT:
                given_up = False
            case FailureClass.CONTENT:
                given_up = attempts >= limits.retry_cap
            case FailureClass.UNKNOWN:
                given_up = (now - since).total_seconds() >= limits.unknown_for
        if given_up:
            return None
        return replace(
            self,
            attempts=attempts,
            tries=self.tries + 1,
            failing_since=since,
            not_before=now + backoff(self.tries, limits),
        )


@dataclass(frozen=True, slots=True)
class Held:
    """An event of which only the place is kept, because its thread has too many; it is read again in its turn."""

    key: str
    place: Coordinates


def backoff(tries: int, limits: Settings) -> timedelta:
    """The delay after so many failures: doubled each time, up to the longest."""
    # The exponent is bounded: a number that nobody waits for need not be computed.
    return timedelta(seconds=min(limits.retry_longest, limits.retry_first * 2 ** min(tries, 30)))

"""Events that wait for their decision, and when they are tried again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

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

_JUDGED = 16_384
"""What a judged piece takes (bytes), roughly: its View is bounded."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One piece of a long event that was judged; the Decision is made when all of them are."""

    span: tuple[int, int]
    """Begin and end of the piece in the text (characters)."""
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
    """Since when nobody knows why it fails."""
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
        kept = sum(_size(text) for text in texts if isinstance(text, str))
        return _FIXED + _JUDGED * len(self.judged) + kept

    def is_due(self, now: datetime) -> bool:
        """Whether it may be tried now."""
        return self.not_before is None or self.not_before <= now

    def after(self, failure: ClassifiedFailure, now: datetime, limits: Settings) -> Pending | None:
        """The event after a failure, to be tried again later; None when its tries are used up.

        Transient failures are nobody's fault and never use them up; a content failure does so at the cap, an
        unknown one after a time.
        """
        attempts = self.attempts + (failure.failure is FailureClass.CONTENT)
        since = self.failing_since
        match failure.failure:
            case FailureClass.TRANSIENT:
                # The time of an outage is not the event's.
                given_up, since = False, None
            case FailureClass.CONTENT:
                given_up = attempts >= limits.retry_cap
            case FailureClass.UNKNOWN:
                since = since or now
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


def _size(text: str) -> int:
    """What a text takes at most (bytes); always the same, while the interpreter's own figure grows with use."""
    return len(text) * (1 if text.isascii() else 4)


def backoff(tries: int, limits: Settings) -> timedelta:
    """The delay after so many failures: doubled each time, up to the longest."""
    # The exponent is bounded: a number that nobody waits for need not be computed.
    return timedelta(seconds=min(limits.retry_longest, limits.retry_first * 2 ** min(tries, 30)))

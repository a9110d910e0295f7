"""Events that wait for their decision, and when they are tried again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from store.schema import Arrival, ClassifiedFailure, FailureClass, Rejection, Settings


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
        # The exponent is bounded: a number that nobody waits for need not be computed.
        delay = min(limits.retry_longest, limits.retry_first * 2 ** min(self.tries, 30))
        return replace(
            self,
            attempts=attempts,
            tries=self.tries + 1,
            failing_since=since,
            not_before=now + timedelta(seconds=delay),
        )

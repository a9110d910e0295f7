"""Breakers: a provider that keeps failing is left alone for a while, and then asked by one event at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from flows.vitals import BreakerState, BreakerVitals
from store.schema import Settings


class Breaker:
    """Opens after transient failures in a row; each pause is twice the one before, up to the longest."""

    def __init__(self, provider: str, limits: Settings) -> None:
        self._provider = provider
        self._limits = limits
        self._failures = 0
        self._pauses = 0
        self._reason: str | None = None
        self._since: datetime | None = None
        self._retry_at: datetime | None = None

    def state(self, now: datetime) -> BreakerState:
        """Closed, open, or half open: the pause is over and one event finds out."""
        retry_at = self._retry_at
        if retry_at is None:
            return "closed"
        return "half_open" if now >= retry_at else "open"

    def room(self, wanted: int, under_way: int, now: datetime) -> int:
        """How many of the `wanted` events may ask the provider now (count)."""
        match self.state(now):
            case "closed":
                return wanted
            case "half_open":
                return min(wanted, max(0, 1 - under_way))
            case "open":
                return 0

    def failed(self, reason: str, now: datetime) -> None:
        """Count a transient failure."""
        self._failures += 1
        self._reason = reason
        state = self.state(now)
        if state == "half_open" or (state == "closed" and self._failures >= self._limits.breaker_after):
            pause = self._limits.breaker_first * 2 ** min(self._pauses, 30)
            self._retry_at = now + timedelta(seconds=min(pause, self._limits.breaker_longest))
            self._since = self._since or now
            self._pauses += 1

    def answered(self) -> bool:
        """The provider answered, whatever it said; returns whether that ends a pause."""
        paused = self._retry_at is not None
        self._failures = self._pauses = 0
        self._reason = self._since = self._retry_at = None
        return paused

    def vitals(self, now: datetime) -> BreakerVitals:
        """How the provider is."""
        return BreakerVitals(
            self._provider, self.state(now), self._failures, self._reason, self._since, self._retry_at
        )


class Breakers:
    """Those of the two providers a judgment needs: what is searched and read, and who judges."""

    def __init__(self, limits: Settings) -> None:
        self.memory = Breaker("memory", limits)
        self.judge = Breaker("judge", limits)

    def are_closed(self, now: datetime) -> bool:
        """Both are asked without restraint."""
        return self.memory.state(now) == self.judge.state(now) == "closed"

    def room(self, wanted: int, under_way: int, now: datetime) -> int:
        """How many of the `wanted` events may begin now (count)."""
        return self.judge.room(self.memory.room(wanted, under_way, now), under_way, now)

    def resumed(self, now: datetime) -> datetime | None:
        """When both may be asked again; None while they are asked."""
        times = (breaker.retry_at for breaker in self.vitals(now))
        return max((time for time in times if time), default=None)

    def vitals(self, now: datetime) -> tuple[BreakerVitals, ...]:
        """How the providers are."""
        return (self.judge.vitals(now), self.memory.vitals(now))

"""How a run is at this moment: what its health page and its metrics say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

BreakerState = Literal["closed", "open", "half_open"]


@dataclass(frozen=True, slots=True)
class BreakerVitals:
    """One provider the run depends on, and whether it is asked at present."""

    provider: str
    """`judge` or `memory`."""
    state: BreakerState = "closed"
    failures: int = 0
    """Transient failures in a row."""
    reason: str | None = None
    """The latest failure, while there is one."""
    since: datetime | None = None
    """When it was opened."""
    retry_at: datetime | None = None
    """When the provider is asked again."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """One moment of a run. Counts are of this process since its start, places are offsets."""

    started: datetime
    now: datetime
    stopping: bool = False
    recovering: bool = False
    """What an earlier run left is still being taken up."""
    pending: int = 0
    """Events taken and not settled, held ones not counted."""
    held: int = 0
    """Events of which only the place is kept, because their thread has too many."""
    pending_bytes: int = 0
    in_flight: int = 0
    """Judgments under way."""
    suspects: int = 0
    """Events that are judged alone, because they were under way at a crash."""
    full: bool = False
    """The bound of pending is reached: the topic is the buffer."""
    breakers: tuple[BreakerVitals, ...] = ()
    decided: int = 0
    repeated: int = 0
    parked: int = 0
    unreadable: int = 0
    dropped: int = 0
    """Second decisions of an identity."""
    places: dict[str, int] = field(default_factory=dict)
    """`events_end`, `events_read`, `operations_end`, `applied`, `followed`: each an offset."""
    memory_failure: str | None = None
    unembedded: int = 0
    """Rows whose vector is not made yet."""
    embedder_failure: str | None = None
    """Why rows, or the texts that are searched for, cannot be embedded."""

    behind: int = 0
    """Messages on brokers that this process has still to read (count); 0 without any."""
    brokers_failure: str | None = None
    """Why the brokers could not be asked when it was last tried."""

    def problems(self) -> Iterator[str]:
        """Why the run does not decide at its pace, a sentence each; none when it is ready."""
        if self.stopping:
            yield "The run is stopping."
        if self.recovering:
            yield "What an earlier run left is being taken up."
        for breaker in self.breakers:
            if breaker.state != "closed":
                again = f"; asked again at {breaker.retry_at:%H:%M:%S} UTC" if breaker.retry_at else ""
                yield f"The {breaker.provider} is unwell ({breaker.reason}): nothing more is read{again}."
        if self.brokers_failure:
            yield f"The brokers cannot be asked ({self.brokers_failure}): nothing is read or written."
        if self.full:
            yield f"{self.pending + self.held:,} events are pending, which is the bound: nothing more is read."
        if self.memory_failure:
            yield f"Memory lags behind the record ({self.memory_failure})."
        if self.embedder_failure:
            yield f"The embedder is unwell ({self.embedder_failure}): its lane lags, and events that need it wait."

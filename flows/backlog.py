"""The events that wait, thread by thread, in order and within bounds.

The topic is the buffer: what is taken here is bounded three times. A thread keeps a number of events, and of
those beyond only the place (they are *held*, and read again in their turn); a process keeps a number of events and
places, and so many bytes.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from flows.pending import Held, Pending, backoff
from store.schema import Arrival, Coordinates, Settings

_MEGABYTE = 1_000_000

Fetch = Callable[[Sequence[Coordinates]], list[Arrival]]
"""Reads events again from their topic, by place.

Raises OSError when it cannot now, TopicError when they are gone.
"""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Thread:
    """The undecided events of one thread, in order, and who collects what becomes of them."""

    owner: Hashable
    waiting: deque[Pending] = field(default_factory=deque)
    held: deque[Held] = field(default_factory=deque)
    fetches: int = 0
    """Failures in a row to read held events again (count)."""
    fetch_at: datetime | None = None

    @property
    def failing(self) -> bool:
        """The thread is stuck behind an event that fails."""
        return self.fetch_at is not None or bool(self.waiting and self.waiting[0].not_before)


class Backlog:
    """Undecided events by thread. An owner is whoever keeps the state of several threads."""

    def __init__(self, limits: Settings, fetch: Fetch) -> None:
        self._limits = limits
        self._fetch = fetch
        self._threads: dict[str, _Thread] = {}
        self._owned: defaultdict[Hashable, dict[str, _Thread]] = defaultdict(dict)
        self._short: dict[str, _Thread] = {}
        """Threads whose held events may be read again, because few others wait."""
        self.events = 0
        """Events that wait (count)."""
        self.held = 0
        """Events of which only the place is kept (count)."""
        self.size = 0
        """Text of the events that wait (bytes)."""

    def __len__(self) -> int:
        """Events that wait or are held (count)."""
        return self.events + self.held

    def take(self, owner: Hashable, found: Iterable[Pending | Held]) -> None:
        """Accept events in the order they arrived; all events of a thread have one owner."""
        for event in found:
            thread = self._threads.setdefault(event.key, _Thread(owner))
            self._owned[owner][event.key] = thread
            full = thread.held or len(thread.waiting) >= self._limits.thread_pending
            if isinstance(event, Held) or full:
                kept = event if isinstance(event, Held) else Held(event.key, event.arrival.coordinates)
                thread.held.append(kept)
                self.held += 1
                if not thread.waiting:
                    self._short[event.key] = thread
            else:
                self._append(thread, event)

    def kept(self, owner: Hashable) -> Iterator[Pending | Held]:
        """The owner's events, each thread's in order: what must survive a crash."""
        for thread in self._owned.get(owner, {}).values():
            yield from thread.waiting
            yield from thread.held

    def owner(self, key: str) -> Hashable:
        """Who collects what becomes of a thread's events."""
        return self._threads[key].owner

    def owns(self, owner: Hashable) -> bool:
        """Whether an owner has anything here."""
        return owner in self._owned

    def head(self, key: str) -> Pending:
        """The first event of a thread that has one."""
        return self._threads[key].waiting[0]

    def heads(self, now: datetime) -> Iterator[Pending]:
        """The first event of each thread that may be tried now, threads in the order they came."""
        for thread in self._threads.values():
            if thread.waiting and thread.waiting[0].is_due(now):
                yield thread.waiting[0]

    def second(self, key: str) -> Pending | None:
        """The event behind the first one of a thread."""
        thread = self._threads.get(key)
        return thread.waiting[1] if thread and len(thread.waiting) > 1 else None

    def next_at(self, owner: Hashable, now: datetime) -> datetime | None:
        """When the first of the owner's events is due; None when there is none."""
        times = (
            (thread.waiting[0].not_before if thread.waiting else thread.fetch_at) or now
            for thread in self._owned.get(owner, {}).values()
        )
        return min(times, default=None)

    def failing(self) -> int:
        """Events behind one that fails, or held behind it (count)."""
        return sum(len(t.waiting) + len(t.held) for t in self._threads.values() if t.failing)

    def wake(self) -> None:
        """Whoever waits for a provider may be tried at once; what fails for reasons nobody knows waits on."""
        for thread in self._threads.values():
            head = thread.waiting[0] if thread.waiting else None
            if head and head.not_before and head.failing_since is None:
                thread.waiting[0] = replace(head, not_before=None, tries=0)

    def replace(self, event: Pending) -> None:
        """Put an event in the place of the first one of its thread."""
        thread = self._threads[event.key]
        self.size += event.size - thread.waiting[0].size
        thread.waiting[0] = event

    def drop(self, event: Pending) -> None:
        """The first event of a thread is settled."""
        thread = self._threads[event.key]
        self.size -= thread.waiting.popleft().size
        self.events -= 1
        if thread.held and len(thread.waiting) <= self._limits.thread_pending // 2:
            self._short[event.key] = thread
        if not thread.waiting and not thread.held:
            del self._threads[event.key], self._owned[thread.owner][event.key]
            if not self._owned[thread.owner]:
                del self._owned[thread.owner]

    def refill(self, now: datetime) -> None:
        """Read held events again where a thread has room for them; what cannot be read is tried again later."""
        for key, thread in list(self._short.items()):
            if thread.fetch_at and thread.fetch_at > now:
                continue
            room = max(1, self._limits.thread_pending - len(thread.waiting))
            places = [held.place for held, _ in zip(thread.held, range(room), strict=False)]
            try:
                arrivals = self._fetch(places)
            except OSError as error:
                thread.fetch_at = now + backoff(thread.fetches, self._limits)
                thread.fetches += 1
                _log.warning("events of %s cannot be read again: %s", key, error)
                continue
            thread.fetch_at, thread.fetches = None, 0
            for arrival in arrivals:
                thread.held.popleft()
                self.held -= 1
                self._append(thread, Pending(arrival))
            del self._short[key]

    def room(self) -> tuple[int, int]:
        """How many more events, and bytes of them, the bounds of the process allow."""
        events = self._limits.pending - len(self)
        return max(0, events), max(0, int(self._limits.pending_megabytes * _MEGABYTE) - self.size)

    def _append(self, thread: _Thread, event: Pending) -> None:
        thread.waiting.append(event)
        self.events += 1
        self.size += event.size

"""What of a topic is asked for, and going through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from connectors.message import Incoming
from connectors.topic import AT_ONCE, Offsets, Topic
from flows.steps import Progress
from flows.stopping import Stop
from store.schema import UsageError

_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages are asked for; None is any."""

    since: datetime | None = None
    """Arrived in the topic that is gone through at this time or later."""
    thread: str | None = None
    offsets: Offsets | None = None
    """From where on, in the topic that is gone through; a partition that is not named is left out."""

    def covers(self, arrived: datetime, thread: str | None) -> bool:
        """Whether what arrived then and is of this thread is asked for; what no thread is known of is of none."""
        return (self.since is None or arrived >= self.since) and self.thread in (None, thread)


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a topic that has to be gone through, by partition."""

    begin: Mapping[int, int]
    end: Mapping[int, int]
    skipped: int
    """Messages before it, or in other partitions (offsets)."""
    gone: int
    """Messages that are asked for by offset and not kept any more (offsets)."""

    @classmethod
    def of(cls, topic: Topic, wanted: Wanted) -> Span:
        """What may be asked for; raises UsageError for a partition that the topic does not have."""
        starts, ends = topic.starts(), topic.ends()
        begin, gone = dict(starts), 0
        if wanted.offsets is not None:
            if strange := wanted.offsets.keys() - ends.keys():
                raise UsageError(
                    f"--offsets names partition {min(strange)}, and the {topic.where} has no other than "
                    f"{', '.join(map(str, sorted(ends)))}."
                )
            begin = {each: max(starts[each], wanted.offsets.get(each, end)) for each, end in ends.items()}
            if wanted.thread is None and wanted.since is None:
                gone = sum(max(0, starts[each] - offset) for each, offset in wanted.offsets.items())
        if wanted.since is not None:
            later = topic.since(max(wanted.since, _EPOCH))
            begin = {each: max(offset, later[each]) for each, offset in begin.items()}
        begin = {each: min(offset, ends[each]) for each, offset in begin.items()}
        return cls(begin, ends, sum(begin.values()) - sum(starts.values()), gone)


class Stopped(Exception):
    """A person wanted it to end, and it was not at its end."""


def chunks(
    topic: Topic, begin: Offsets, end: Offsets, progress: Progress, stop: Stop, at_once: int = AT_ONCE
) -> Iterator[list[Incoming]]:
    """The messages between two places of each partition; raises Stopped between two chunks once that is asked."""
    total = sum(max(0, end[each] - offset) for each, offset in begin.items())
    left = total
    at = dict(begin)
    for found in topic.walk(begin, end, at_once):
        for incoming in found:
            left -= incoming.offset + 1 - at[incoming.partition]
            at[incoming.partition] = incoming.offset + 1
        progress(topic.name, total - left, total)
        yield found
        if stop.is_stopping and left > 0:
            raise Stopped

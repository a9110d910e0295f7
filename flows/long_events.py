"""Long events under way: judged segment by segment, decided once."""

from __future__ import annotations

from collections.abc import Iterator

from flows.judge.combine import combine
from flows.pending import Pending
from flows.segments import Segments, split
from store.schema import Arrival, Decision, Segmentation, Settings


class LongEvents:
    """What is known of the segments of pending events. An event that is not long has one segment, itself."""

    def __init__(self, limits: Settings) -> None:
        self._limits = limits
        self._cut: dict[str, Segments] = {}
        """Of long events only, by uid: they are cut once."""

    def next_segment(self, event: Pending) -> Arrival:
        """The event as it is looked for and judged next: of a long one, with the text of its next segment."""
        return self._segment(event, len(event.judged))

    def next_span(self, event: Pending) -> tuple[int, int]:
        """Begin and end of its next segment in the text (characters)."""
        return self._segments(event).spans[len(event.judged)]

    def goes_on(self, event: Pending) -> bool:
        """Whether what is judged of it fits how it is cut now, and something is left to judge."""
        spans = self._segments(event).spans
        count = len(event.judged)
        return count < len(spans) and spans[:count] == tuple(judged.span for judged in event.judged)

    def segments_to_come(self, event: Pending) -> Iterator[Arrival]:
        """The segments behind the next one."""
        if event.arrival.event.uid in self._cut:
            for number in range(len(event.judged) + 1, len(self._segments(event).spans)):
                yield self._segment(event, number)

    def is_judged(self, event: Pending) -> bool:
        """Whether all segments are judged."""
        return len(event.judged) == len(self._segments(event).spans)

    def decision(self, event: Pending, judge: str) -> Decision:
        """The Decision that the segments judged so far come to."""
        cut = self._segments(event)
        views = tuple(judged.view for judged in event.judged)
        segmented = len(cut.spans) > 1
        return Decision(
            arrival=event.arrival,
            view=views[0],
            segments=Segmentation(spans=cut.spans, views=views[1:], unjudged=cut.unjudged) if segmented else None,
            operations=combine([operation for judged in event.judged for operation in judged.operations]),
            rejected=event.rejected,
            judge=judge,
        )

    def forget(self, event: Pending) -> None:
        """The event is settled."""
        self._cut.pop(event.arrival.event.uid, None)

    def _segment(self, event: Pending, number: int) -> Arrival:
        spans = self._segments(event).spans
        if len(spans) == 1:
            return event.arrival
        begin, end = spans[number]
        whole = event.arrival.event
        return event.arrival.model_copy(update={"event": whole.model_copy(update={"text": whole.text[begin:end]})})

    def _segments(self, event: Pending) -> Segments:
        uid, text = event.arrival.event.uid, event.arrival.event.text
        if len(text) <= self._limits.segment_characters:
            return Segments(((0, len(text)),), None)
        if uid not in self._cut:
            self._cut[uid] = split(text, self._limits)
        return self._cut[uid]

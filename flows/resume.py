"""What earlier runs have left: Decisions that are not applied yet, and suspects that may be settled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import chain

from connectors.markers import Markers
from connectors.topic import Offsets, Topic
from flows.overlay import Overlay
from flows.parse import read_event, read_operation
from store.derive import Applied
from store.record import Record
from store.schema import Arrival, Coordinates, Decision, Parked, TopicError

_log = logging.getLogger(__name__)


def resume(operations: Topic, reached: Offsets, record: Record, markers: Markers) -> Overlay:
    """Take up what is on the operations topic from where the record has reached.

    Its Decisions become the overlay, so that no event of theirs is asked for again. Suspects of which is known
    what became are cleared: they never come to the desk again.
    """
    overlay = Overlay()
    settled: set[Coordinates] = set()
    for incoming in chain.from_iterable(operations.walk(reached)):
        read = read_operation(incoming)
        if isinstance(read, Applied) and isinstance(read.message, Decision | Parked):
            settled.add(read.message.arrival.coordinates)
            if isinstance(read.message, Decision):
                overlay.add(read.message)
    _clear(markers, record, overlay, settled)
    return overlay


def fetch_events(events: Topic, places: Sequence[Coordinates]) -> list[Arrival]:
    """Held events, read again. They were events when they were read first."""
    read = [read_event(incoming) for incoming in events.fetch(places)]
    found = [each for each in read if isinstance(each, Arrival)]
    if len(found) < len(read):
        raise TopicError(f"The {events.where} was changed: what was an event there is none any more.")
    return found


def _clear(markers: Markers, record: Record, overlay: Overlay, settled: set[Coordinates]) -> None:
    rows = record.events(suspect.event for suspect in markers.suspects)
    for suspect in markers.suspects:
        row = rows.get(suspect.event)
        # A row that is only parked may be of an earlier arrival: this one was brought back, and is to be judged.
        parked = row is not None and row.seq == suspect.place.offset
        if suspect.place in settled or suspect.event in overlay or parked or (row and row.decision):
            markers.clear(suspect.place)
    markers.write()
    if markers.unclean:
        _log.warning(
            "the last run left no word when it ended; %d events that were under way are judged one at a time",
            len(markers),
        )

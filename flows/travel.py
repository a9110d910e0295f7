"""What travels on Kafka of a message that is too large for it: of a long text, head and tail.

The whole stays where it was read: the coordinates in the message say where, `TextCut` says how much it is and by
which hash it is known again. Identity, people and operations are never cut: what they mean would change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final, overload

from store.schema import Arrival, DeadLetter, Decision, Event, FailureClass, Frozen, Parked, TextCut

_WIDTHS: Final = (4_000, 2_000, 1_000, 500, 250, 100, 0)
"""What is kept of a text's head and tail, each, and of whatever else is long (characters): tried in this order."""
_ALL: Final = 4
"""What is kept of all attributes, or headers, together (widths)."""
_LINE: Final = 80
"""More than the line between head and tail takes (characters): so much is not worth leaving out."""
_MORE: Final = "…"


@overload
def travelling(message: Decision, event_bytes: int, message_bytes: int) -> Decision | Parked: ...
@overload
def travelling(message: Parked, event_bytes: int, message_bytes: int) -> Parked: ...
@overload
def travelling(message: DeadLetter, event_bytes: int, message_bytes: int) -> DeadLetter: ...
def travelling(
    message: Decision | Parked | DeadLetter, event_bytes: int, message_bytes: int
) -> Decision | Parked | DeadLetter:
    """The message itself, or what of it may travel.

    An event whose JSON has more than `event_bytes` (UTF-8) is cut, and so is a dead letter of as much. A Decision
    with more than `message_bytes` even so cannot travel, nor can a part of it: its event is parked. What was cut
    before is cut further if need be. Nothing is larger than `message_bytes` then, if these have room for the names
    that identify an event and for some hundred characters: 64 kB are enough for every event.
    """
    if isinstance(message, DeadLetter):
        return _letter(message, event_bytes, message_bytes)
    size = _size(message)
    # The event is a part of the message: mostly it need not be measured.
    if size <= message_bytes and (size <= event_bytes or _size(message.event) <= event_bytes):
        return message
    if isinstance(message, Parked):
        return _parked(message, event_bytes, message_bytes)
    beside = size - _size(message.arrival)
    arrival = _arrival(message.arrival, event_bytes, message_bytes - beside)
    if arrival is not None:
        return message.model_copy(update={"arrival": arrival})
    return travelling(_given_up(message, size, message_bytes), event_bytes, message_bytes)


def _given_up(decision: Decision, size: int, message_bytes: int) -> Parked:
    reason = (
        f"its decision is too large to travel: {size:,} bytes, and at most {message_bytes:,} may "
        "(LOOKFIRST_OPERATION_MEGABYTES)"
    )
    return Parked(arrival=decision.arrival, failure=FailureClass.CONTENT, reason=reason, attempts=1)


def _parked(parked: Parked, event_bytes: int, message_bytes: int) -> Parked:
    """Rather without what was seen and what was refused than without the event's words."""
    unseen = parked.model_copy(update={"view": None})
    least = unseen.model_copy(update={"rejected": (), "reason": _shortened(parked.reason, _WIDTHS[0])})
    sendable = _arrival(parked.arrival, event_bytes, message_bytes)
    for kept in (parked, unseen, least):
        beside = _size(kept) - _size(parked.arrival)
        if sendable is not None and _size(sendable) <= message_bytes - beside:
            return kept.model_copy(update={"arrival": sendable})
    arrival = _arrival(parked.arrival, event_bytes, message_bytes - beside)
    if arrival is not None:
        return least.model_copy(update={"arrival": arrival})
    # Its people alone are too many. From a parked event the record takes none: they can stay behind.
    for width in _WIDTHS:
        reason = _shortened(parked.reason, max(width, _LINE))
        arrival = _without_people(_cut(parked.arrival, width))
        alone = least.model_copy(update={"reason": reason, "arrival": arrival})
        if _size(alone) <= message_bytes:
            break
    return alone


def _letter(letter: DeadLetter, event_bytes: int, message_bytes: int) -> DeadLetter:
    if len(letter.raw.encode("utf-8")) <= event_bytes and _size(letter) <= message_bytes:
        return letter
    for width in _WIDTHS:
        raw, cut = _ends(letter.raw, letter.cut, width)
        headers = _first_of(letter.headers, width)
        fields = {
            "raw": raw,
            "cut": letter.cut if (raw, headers) == (letter.raw, letter.headers) else cut,
            "headers": headers,
            "reason": _shortened(letter.reason, max(width, _LINE)),
            "origin": letter.origin and _shortened(letter.origin, max(width, _LINE)),
        }
        kept = letter.model_copy(update=fields)
        if _size(kept) <= message_bytes:
            break
    return kept


def _arrival(arrival: Arrival, event_bytes: int, room: int) -> Arrival | None:
    """The arrival, cut if need be, so that its event has `event_bytes` and itself `room` at most.

    With more people than that, what fits into the room alone; None when nothing does.
    """
    if _size(arrival) <= room and _size(arrival.event) <= event_bytes:
        return arrival
    widest = None
    for width in _WIDTHS:
        kept = _cut(arrival, width)
        if _size(kept) <= room:
            if _size(kept.event) <= event_bytes:
                return kept
            widest = widest or kept
    return widest


def _cut(arrival: Arrival, width: int) -> Arrival:
    event = arrival.event
    text, cut = _ends(event.text, arrival.cut, width)
    fields = {
        "text": text,
        "subject": event.subject and _shortened(event.subject, width),
        "reply_to": event.reply_to and _shortened(event.reply_to, width),
        "attrs": _first_of(event.attrs, width),
    }
    kept = event.model_copy(update=fields)
    return arrival if kept == event else arrival.model_copy(update={"event": kept, "cut": cut})


def _without_people(arrival: Arrival) -> Arrival:
    event = arrival.event
    # Made anew: a copy would remember the people it no longer has.
    alone = Event(
        id=event.id,
        workspace=event.workspace,
        source=event.source,
        thread=event.thread,
        kind=event.kind,
        at=event.at,
        subject=event.subject,
        text=event.text,
    )
    _, whole = _ends(event.text, arrival.cut, len(event.text))
    return arrival.model_copy(update={"event": alone, "cut": arrival.cut or whole})


def _ends(text: str, before: TextCut | None, width: int) -> tuple[str, TextCut]:
    """Head and tail of a text, also of one that is head and tail already, and what is said of the whole."""
    if before is None:
        said = text.encode("utf-8")
        before = TextCut(
            characters=len(text), bytes=len(said), sha256=hashlib.sha256(said).hexdigest(), head=len(text), tail=0
        )
    if before.tail == 0 and before.head == before.characters:
        if len(text) <= 2 * width + _LINE:
            return text, before
        head, tail = text[:width], text[len(text) - width :]
    else:
        head, tail = text[: min(width, before.head)], text[len(text) - min(width, before.tail) :]
    left_out = before.characters - len(head) - len(tail)
    cut = before.model_copy(update={"head": len(head), "tail": len(tail)})
    return f"{head}\n[{_MORE} {left_out:,} characters left out {_MORE}]\n{tail}", cut


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[:width] + _MORE


def _first_of(named: Mapping[str, Any], width: int) -> dict[str, Any]:
    """The first of these values, the long ones shortened, and how many more there are."""
    kept: dict[str, Any] = {}
    room = _ALL * width
    for name, value in named.items():
        short = _shortened(value, width) if isinstance(value, str) else value
        room -= len(name) + len(str(short))
        if room < 0:
            kept[_MORE] = f"{len(named) - len(kept)} more left out"
            break
        kept[name] = short
    return kept


def _size(message: Frozen) -> int:
    """Of its JSON (bytes)."""
    return len(message.model_dump_json().encode("utf-8"))

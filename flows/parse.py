"""From raw messages to events, or to dead letters that say what is wrong."""

from __future__ import annotations

from connectors.message import ORIGIN, Incoming, Outgoing
from store.derive import Applied
from store.schema import (
    Arrival,
    ClassifiedFailure,
    Coordinates,
    DeadLetter,
    Decision,
    FailureClass,
    Message,
    Parked,
    parse_event,
    parse_message,
)
from store.schema.identity import stream_key


def read_event(incoming: Incoming) -> Arrival | DeadLetter:
    """One message of the events topic. Bad input is never lost: it becomes a dead letter."""
    if incoming.flaw is not None:
        return dead_letter(incoming, incoming.flaw)
    try:
        event = parse_event(incoming.value, incoming.headers)
    except ClassifiedFailure as failure:
        return dead_letter(incoming, failure.reason)
    return Arrival(
        event=event,
        arrived=incoming.arrived,
        coordinates=_coordinates(incoming),
        unkeyed=incoming.key != event.key,
    )


def read_operation(incoming: Incoming) -> Applied | DeadLetter:
    """One message of the operations topic."""
    if incoming.flaw is not None:
        return dead_letter(incoming, incoming.flaw)
    try:
        message = parse_message(incoming.value)
    except ClassifiedFailure as failure:
        return dead_letter(incoming, failure.reason)
    return Applied(message, _coordinates(incoming), incoming.arrived, incoming.value)


def dead_letter(incoming: Incoming, reason: str) -> DeadLetter:
    """A message that cannot be read, whole, with where it stands and where it came from."""
    # Half a surrogate, or a header that is no text, may stand in a topic file and in no message.
    headers = {_text(name): _text(said) for name, said in incoming.headers.items() if isinstance(said, str)}
    origin = headers.pop(ORIGIN, None)
    return DeadLetter(
        reason=_text(reason),
        failure=FailureClass.CONTENT,
        coordinates=_coordinates(incoming),
        origin=origin,
        raw=_text(incoming.value),
        headers=headers,
    )


def parked_letter(parked: Parked) -> DeadLetter:
    """The dead letter of an event that could not be decided: the whole event and the reason."""
    return DeadLetter(
        reason=parked.reason,
        failure=parked.failure,
        coordinates=parked.arrival.coordinates,
        raw=parked.event.model_dump_json(),
        cut=parked.arrival.cut,
    )


def outgoing(message: Message) -> Outgoing:
    """A message of the operations topic, in the stream of its thread."""
    if isinstance(message, Decision | Parked):
        return Outgoing(message.key, message.model_dump_json())
    return Outgoing(stream_key(message.workspace, message.thread), message.model_dump_json())


def outgoing_letter(letter: DeadLetter) -> Outgoing:
    """A message of the dead-letter topic."""
    return Outgoing(None, letter.model_dump_json())


def _coordinates(incoming: Incoming) -> Coordinates:
    return Coordinates(topic=incoming.topic, partition=incoming.partition, offset=incoming.offset)


def _text(said: str) -> str:
    """What UTF-8 can carry, the rest escaped."""
    return said.encode("utf-8", "backslashreplace").decode("utf-8")

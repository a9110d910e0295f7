"""Events as they are produced, and how they arrived."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import cached_property
from math import isinf
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal

from pydantic import Field, ValidationError, field_validator

from store.schema.base import FORMAT, FormatVersion, Frozen, UtcTime, clean, to_utc
from store.schema.cloud_event import refuse_unread_formats, unwrap
from store.schema.failure import ClassifiedFailure, FailureClass
from store.schema.identity import event_uid, person_id, stream_key

Scalar = str | int | float | bool | None
EventKind = Literal["message", "mail", "comment", "meeting"]
_Name = Annotated[str, Field(min_length=1, max_length=2_000)]

_WRITTEN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]")

_DEFAULT_WORKSPACE = "default"
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})
_TOLD = {"timezone_aware": "has no timezone; write it like 2024-05-01T09:30:00+02:00, or import it with --zone"}
"""Problems in our words, where the library's leave the remedy to guess."""

POSTDATED_AFTER = timedelta(minutes=5)
"""An event time this much later than its arrival is marked, not only cut (clocks differ a little)."""


class Participant(Frozen):
    """Somebody as the source names them; any part may be missing."""

    id: str | None = None
    name: str | None = None
    address: str | None = None

    @property
    def label(self) -> str | None:
        """What to call them on a page."""
        return self.name or self.address or self.id


NOBODY = Participant()


class Event(Frozen):
    """One thing that happened, as produced: immutable. JSON, one per message of the events topic.

    `parse_event` reads it: fields it does not know are kept in `attrs`, and text is stored as written, less NUL
    and lone surrogates.
    """

    format: FormatVersion = FORMAT
    id: _Name
    workspace: _Name = _DEFAULT_WORKSPACE
    source: _Name
    thread: _Name
    kind: EventKind = "message"
    at: UtcTime
    author: Participant = NOBODY
    mentions: tuple[Participant, ...] = ()
    subject: str | None = None
    text: str = ""
    reply_to: str | None = None
    attrs: dict[str, Scalar] = Field(default_factory=dict)

    @field_validator("at", mode="before")
    @classmethod
    def _written_time(cls, value: Any) -> Any:
        # A number, quoted or not, would be read as seconds or milliseconds by its size: refuse to guess.
        if not (isinstance(value, datetime) or (isinstance(value, str) and _WRITTEN_DATE.match(value))):
            raise ValueError("must be an RFC 3339 time with a zone, like 2024-05-01T09:30:00+02:00")
        return value

    @field_validator("at")
    @classmethod
    def _in_utc(cls, value: datetime) -> datetime:
        return to_utc(value)

    @cached_property
    def uid(self) -> str:
        """The id of the event's identity `(workspace, source, thread, id)`."""
        return event_uid(self.workspace, self.source, self.thread, self.id)

    @cached_property
    def key(self) -> str:
        """The key of the stream: `workspace/thread`."""
        return stream_key(self.workspace, self.thread)

    @property
    def is_blank(self) -> bool:
        """Nothing was said (N3)."""
        return not (self.text.strip() or (self.subject or "").strip())

    def person(self, participant: Participant) -> str | None:
        """The person row of a participant of this event, or None for one known by name only."""
        return person_id(self.workspace, self.source, participant.id, participant.address)

    @cached_property
    def author_row(self) -> str | None:
        """Id of the person row of the author, or None for one known by name only."""
        return self.person(self.author)

    @cached_property
    def people(self) -> tuple[str, ...]:
        """Ids of the person rows of author and mentions, author first, each once."""
        found = (self.person(participant) for participant in (self.author, *self.mentions))
        return tuple(dict.fromkeys(person for person in found if person))


class Coordinates(Frozen):
    """Where a message stands in its topic."""

    topic: str
    partition: int = 0
    offset: int = Field(ge=0)


class TextCut(Frozen):
    """What was left out of a text that was too long to travel; the whole stands where it was read."""

    characters: int
    """Of the whole text, as are `bytes` (UTF-8) and `sha256` (hexadecimal, of those bytes)."""
    bytes: int
    sha256: str
    head: int
    """Characters kept of its beginning; all of them when only what stands beside the text was cut."""
    tail: int
    """Characters kept of its end. Between the two a line says how many are left out."""


class Arrival(Frozen):
    """An event with when and where it arrived: all that later steps may know of its order."""

    event: Event
    arrived: UtcTime
    coordinates: Coordinates
    unkeyed: bool = False
    """The message carried no key, or another one: its order is by arrival only."""
    cut: TextCut | None = None
    """The event is not all here, and what is left out of its text; never part of its identity."""

    def __setstate__(self, state: dict[Any, Any]) -> None:
        # Recovery state is pickled, and what was written before there was a cut is read as it was.
        super().__setstate__({**state, "__dict__": {"cut": None, **state["__dict__"]}})

    @property
    def seq(self) -> int:
        """The event's position in its thread as read; recorded once, never recomputed."""
        return self.coordinates.offset

    @property
    def happened(self) -> datetime:
        """The event's time, never later than its arrival."""
        return min(self.event.at, self.arrived)

    @property
    def postdated(self) -> bool:
        """The event claims to be from well after it arrived."""
        return self.event.at - self.arrived > POSTDATED_AFTER


def parse_event(raw: str | bytes, headers: Mapping[str, str] = _NO_HEADERS) -> Event:
    """Read one event from JSON, plain or in a CloudEvent (`store.schema.cloud_event`).

    `headers` are those of its message. Raises ClassifiedFailure (content) with one sentence that says what is
    wrong with it.
    """
    value, is_wrapped = _object_of(raw, headers)
    try:
        return Event.model_validate(_shaped(value))
    except ValidationError as error:
        what = "no event in the CloudEvent" if is_wrapped else "not an event"
        raise _content(f"{what}: {problems(error)}") from error


def key_of(raw: str, headers: Mapping[str, str] = _NO_HEADERS) -> str | None:
    """The stream an event belongs to, without reading all of it; None when it names no thread."""
    try:
        value, _ = _object_of(raw, headers)
    except ClassifiedFailure:
        return None
    workspace, thread = value.get("workspace", _DEFAULT_WORKSPACE), value.get("thread")
    return stream_key(workspace, thread) if isinstance(workspace, str) and isinstance(thread, str) else None


def _object_of(raw: str | bytes, headers: Mapping[str, str]) -> tuple[dict[str, Any], bool]:
    """The JSON object an event is made of, and whether it came in a CloudEvent."""
    refuse_unread_formats(headers)
    value = _read_object(raw)
    unwrapped = unwrap(value, headers, _read_object)
    return (value, False) if unwrapped is None else (unwrapped, True)


def _read_object(raw: str | bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        value = clean(json.loads(text, parse_constant=_refuse_constant, parse_float=_finite))
    except (ValueError, RecursionError) as error:
        raise _content(f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise _content(f"not a JSON object but {type(value).__name__}")
    return value


def _shaped(value: dict[str, Any]) -> dict[str, Any]:
    """What producers may write in more than one way, in one: once, as the event is read."""
    fields = Event.model_fields
    shaped = {key: item for key, item in value.items() if key in fields}
    attrs = value.get("attrs")
    if attrs is None or isinstance(attrs, dict):
        unknown = {key: item for key, item in value.items() if key not in fields}
        shaped["attrs"] = {key: _flat(item) for key, item in {**unknown, **(attrs or {})}.items()}
    if "author" in value:
        shaped["author"] = _participant(value["author"])
    if isinstance(value.get("mentions"), list):
        shaped["mentions"] = [_participant(mention) for mention in value["mentions"]]
    return shaped


def _participant(value: Any) -> Any:
    """A bare string is a source's user id and a name; a blank part is an absent one; null is nobody."""
    if value is None:
        return {}
    if isinstance(value, str):
        value = {"id": value, "name": value}
    if not isinstance(value, dict):
        return value
    return {key: None if isinstance(item, str) and not item.strip() else item for key, item in value.items()}


def problems(error: ValidationError) -> str:
    """A validation error as one line: each field with what is wrong with it, no input echoed."""
    told = []
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"])
        what = _TOLD.get(item["type"], item["msg"].removeprefix("Value error, "))
        told.append(f"{where}: {what}" if where else what)
    return "; ".join(told)


def _content(reason: str) -> ClassifiedFailure:
    return ClassifiedFailure(FailureClass.CONTENT, reason)


def _finite(written: str) -> float:
    # "1e999" is JSON, and infinity once it is read: it could not be written again.
    value = float(written)
    if isinf(value):
        raise ValueError(f"the number {written[:20]} is too large to keep")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _flat(value: Any) -> Scalar:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

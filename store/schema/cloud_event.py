"""CloudEvents 1.0 as producers send them: the event inside one, as an ordinary JSON object.

Two of the three content modes. *Structured*: the value is a JSON object of attributes and `data`, known by the
header `content-type: application/cloudevents+json`, or without it by its `specversion`, `type`, `id` and `source`.
*Binary*: the value is the data, and the attributes are headers, `ce_` before each name; known by `ce_specversion`.
*Batch* is refused: a message is one event.

The data is the event. What it does not say its attributes say:

| event | attribute | |
|---|---|---|
| `id`, `source` | the same | |
| `at` | `time` | |
| `thread` | `subject` | what, within the source, the event is about: an issue, a channel, a document |
| `workspace` | `workspace` | an extension |

An event's own `subject` is words for people and never an attribute's. Everything else that attributes say, also an
`id` beside the data's own, goes to `attrs`, `ce_` before its name, as the string that a header would carry.
`partitionkey` is no exception: the key of an event is `workspace/thread`, whatever it says.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from store.schema.base import clean_text
from store.schema.failure import ClassifiedFailure, FailureClass

ReadObject = Callable[[bytes], dict[str, Any]]
"""Reads one JSON object; raises ClassifiedFailure."""

_PREFIX: Final = "ce_"
_MEDIA: Final = "application/cloudevents"
_VERSION: Final = re.compile(r"1(\.\d+)?")
_NAMED_BY: Final = ("specversion", "type", "id", "source")
_SAYS: Final = {"id": "id", "source": "source", "at": "time", "thread": "subject", "workspace": "workspace"}
"""Fields of an event that attributes may say, by the attribute that does."""
_ABOUT_ITSELF: Final = frozenset({"specversion", "datacontenttype"})
"""How it is written, which nobody needs to know once it is read."""


def unwrap(value: dict[str, Any], headers: Mapping[str, str], read: ReadObject) -> dict[str, Any] | None:
    """The event in a message that is a CloudEvent, as a JSON object; None when it is none.

    `value` is the message, parsed; `read` reads data that is encoded. Raises ClassifiedFailure (content).
    """
    named = _attributes_of(headers)
    if _media_type(headers) or ("specversion" not in named and _looks_structured(value)):
        return _event(*_structured(value, read))
    return _event(named, value) if "specversion" in named else None


def refuse_unread_formats(headers: Mapping[str, str]) -> None:
    """Raises ClassifiedFailure (content) for CloudEvents in batches, or not in JSON, by what the headers say."""
    media = _media_type(headers)
    if media.startswith(f"{_MEDIA}-batch"):
        raise _content("it is a batch of CloudEvents; send each in a message of its own")
    if media not in ("", _MEDIA, f"{_MEDIA}+json"):
        raise _content(f"it is a CloudEvent of the type {media[:100]!r}; send it as {_MEDIA}+json")


def _media_type(headers: Mapping[str, str]) -> str:
    """The media type of CloudEvents that the headers name, or nothing."""
    for name, said in headers.items():
        if name.lower() == "content-type" and isinstance(said, str):
            media = said.partition(";")[0].strip().lower()
            return media if media.startswith(_MEDIA) else ""
    return ""


def _attributes_of(headers: Mapping[str, str]) -> dict[str, Any]:
    # A topic file that somebody edited may hold anything for a header.
    return {
        clean_text(name[len(_PREFIX) :].lower()): clean_text(said)
        for name, said in headers.items()
        if name.lower().startswith(_PREFIX) and isinstance(said, str)
    }


def _looks_structured(value: dict[str, Any]) -> bool:
    return all(isinstance(value.get(name), str) for name in _NAMED_BY)


def _structured(value: dict[str, Any], read: ReadObject) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes and data of a CloudEvent that is one JSON object. One without data has nothing to add."""
    attributes = {name: said for name, said in value.items() if name not in ("data", "data_base64")}
    encoded = value.get("data_base64")
    if encoded is None:
        data = value.get("data", {})
    elif "data" in value:
        raise _content("it is a CloudEvent with both data and data_base64")
    else:
        data = _decoded(encoded, read)
    if not isinstance(data, dict):
        raise _content(f"it is a CloudEvent whose data is not a JSON object but {type(data).__name__}")
    return attributes, data


def _decoded(encoded: object, read: ReadObject) -> dict[str, Any]:
    try:
        if not isinstance(encoded, str):
            raise ValueError(f"not text but {type(encoded).__name__}")
        decoded = base64.b64decode(encoded, validate=True)
    except ValueError as error:
        raise _content(f"it is a CloudEvent whose data_base64 is not base64: {error}") from error
    try:
        return read(decoded)
    except ClassifiedFailure as failure:
        raise _content(f"it is a CloudEvent whose data_base64 is {failure.reason}") from failure


def _event(attributes: dict[str, Any], data: dict[str, Any]) -> dict[str, Any]:
    said = {name: value for name, value in attributes.items() if value is not None}
    version = said.get("specversion")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        written = _as_header(version)[:20] if version is not None else "no specversion"
        raise _content(f"it is a CloudEvent of {written}; specversion 1.0 is read")
    fields = {field: said[name] for field, name in _SAYS.items() if name in said and data.get(field) is None}
    used = {name for field, name in _SAYS.items() if field in fields or data.get(field) == said.get(name)}
    rest = {
        f"{_PREFIX}{name}": _as_header(value) for name, value in said.items() if name not in used | _ABOUT_ITSELF
    }
    return {**rest, **data, **fields}


def _as_header(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _content(reason: str) -> ClassifiedFailure:
    return ClassifiedFailure(FailureClass.CONTENT, reason)

"""Lines of JSON objects -> events, with the producer's field names mapped to ours."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Final
from zoneinfo import ZoneInfo

from connectors.imported import Imported, as_line
from store.schema import Event, UsageError

EVENT_FIELDS: Final = tuple(name for name in Event.model_fields if name != "format")
"""The fields a mapping may fill."""

UNMAPPED: Final[Mapping[str, str]] = MappingProxyType({})
"""The input fields are the event fields themselves."""

# What other systems number and we name.
_NAMES = ("id", "workspace", "source", "thread", "author", "reply_to")


def parse_mapping(text: str) -> dict[str, str]:
    """Read `id=i,at=ts,author=user`: event field = input field.

    Raises UsageError for a pair that is malformed, names an unknown event field, or names one again.
    """
    mapping: dict[str, str] = {}
    for pair in text.split(","):
        field, _, name = (part.strip() for part in pair.partition("="))
        if not (field and name):
            raise UsageError(f"The mapping {pair!r} is not of the form event_field=input_field.")
        if field not in EVENT_FIELDS:
            known = ", ".join(EVENT_FIELDS)
            raise UsageError(f"The mapping {pair!r} names no event field; the event fields are {known}.")
        if field in mapping:
            raise UsageError(f"The mapping {pair!r} fills {field} a second time; keep one of the two.")
        mapping[field] = name
    return mapping


def read_jsonl(
    path: Path,
    *,
    mapping: Mapping[str, str] = UNMAPPED,
    zone: ZoneInfo | None = None,
    workspace: str = "default",
    source: str = "jsonl",
) -> Iterator[Imported]:
    """Yield one line for each line of the file that is not blank, in order.

    `mapping` is event field -> input field. An input field it does not name keeps its meaning if it is an
    event field that nothing else fills, and becomes an attribute otherwise; nulls are dropped. `zone` is
    where a time without a zone was written; without it such a line is passed on with its problem.
    `workspace` and `source` are for lines that name none. Lines that are no JSON object are passed on raw.

    Raises UsageError, at the first step, for a path that is no readable file, and at the end for a file
    without any lines.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file of JSON lines in it.")
    defaults = {"workspace": workspace, "source": source}
    number = count = 0
    try:
        with path.open("rb") as file:
            for number, raw in enumerate(file, start=1):
                # A byte order mark is how some editors begin a file, not part of its first line.
                data = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
                text = data.decode("utf-8", errors="backslashreplace").rstrip("\r\n")
                if text.strip():
                    count += 1
                    line = _mapped(text, mapping, zone, defaults) or text
                    yield Imported.of(line, f"{path.name}:{number}")
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist; check the path.") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}); check its permissions.") from error
    if not count:
        raise UsageError(f"{path} has no lines; name a file with one JSON object a line.")


def _mapped(
    text: str, mapping: Mapping[str, str], zone: ZoneInfo | None, defaults: Mapping[str, str]
) -> str | None:
    """The line of the event, or None for what is no JSON object."""
    try:
        value: object = json.loads(text)
        return as_line({**defaults, **_event(value, mapping, zone)}) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def _event(value: Mapping[str, object], mapping: Mapping[str, str], zone: ZoneInfo | None) -> dict[str, object]:
    given = {name: item for name, item in value.items() if item is not None}
    event = {field: given[name] for field, name in mapping.items() if name in given}
    extra: dict[str, object] = {}
    # Under a mapping the input is foreign, and a `format` in it is not the version of our events.
    own = EVENT_FIELDS if mapping else Event.model_fields
    for name, item in given.items():
        if name not in mapping.values():
            (event if name in own and name not in event else extra)[name] = item
    for field in _NAMES:
        item = event.get(field)
        if isinstance(item, int | float) and not isinstance(item, bool):
            event[field] = str(item)
    if zone and isinstance(at := event.get("at"), str):
        event["at"] = _localised(at, zone)
    if extra:
        attrs = event.get("attrs", {})
        event["attrs"] = extra | (attrs if isinstance(attrs, dict) else {"attrs": attrs})
    return event


def _localised(at: str, zone: ZoneInfo) -> str:
    """The moment in UTC, for a time written without a zone; anything else as it was."""
    try:
        moment = datetime.fromisoformat(at)
        # UTC, because offsets of old local times have seconds, which RFC 3339 cannot write.
        return at if moment.tzinfo else moment.replace(tzinfo=zone).astimezone(UTC).isoformat()
    except (ValueError, OverflowError):
        return at

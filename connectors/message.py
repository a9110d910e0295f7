"""Messages as they cross the border, whatever carries them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

ORIGIN = "origin"
"""Header that names where a producer read the message, such as `export.jsonl:12`."""

TOMBSTONE: Final = "it is a tombstone: it has no value"
NOT_UTF8: Final = "its value is not UTF-8"
BAD_CHECKSUM: Final = "its batch fails the checksum: it was damaged where it is kept"
"""Why what was read on Kafka may be no message: flaws of an `Incoming`."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to append: the key decides its stream, the value is JSON."""

    key: str | None
    value: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message as it was read: raw, with where it stands and when it was appended."""

    topic: str
    partition: int
    offset: int
    arrived: datetime
    key: str | None
    value: str
    headers: Mapping[str, str] = field(default_factory=dict)
    flaw: str | None = None
    """Why the bytes are no message, in words; then the value is what is left of them, escaped."""

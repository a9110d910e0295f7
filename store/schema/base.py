"""What every persisted or exchanged value has in common."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, GetPydanticSchema
from pydantic_core import core_schema

FORMAT: Final = 1
"""Version of what topics hold: events, operations, dead letters."""

STORE_FORMAT: Final = 2
"""Version of the tables of a store and of the state of the dataflows; both can be made anew from the topics."""

FormatVersion = Literal[1]

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def to_utc(value: datetime) -> datetime:
    """The same moment in UTC; raises ValueError when it has none."""
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the time is outside years 1 to 9999 once it is in UTC") from error


UtcTime = Annotated[
    datetime, GetPydanticSchema(lambda _type, _handler: core_schema.datetime_schema(tz_constraint="aware"))
]
"""A moment with a zone, microseconds kept. Events are normalised to UTC as they are read."""


class Frozen(BaseModel):
    """A value that crosses a border: immutable, and no field beyond the declared ones."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def clean_text(text: str) -> str:
    """Replace what no store can keep (NUL, lone surrogates) and keep the rest as it was written."""
    if "\0" in text:
        text = text.replace("\0", _REPLACEMENT)
    if any("\ud800" <= char <= "\udfff" for char in text):
        # Two halves that were escaped apart are one character; a half on its own is nothing.
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def clean(value: object) -> object:
    """`clean_text` over a parsed JSON value, keys included."""
    match value:
        case str():
            return clean_text(value)
        case list():
            return [clean(item) for item in value]
        case Mapping():
            return {clean_text(str(key)): clean(item) for key, item in value.items()}
        case _:
            return value

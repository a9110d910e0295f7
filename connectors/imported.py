"""What every importer yields: one line for the events topic, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from store.schema import ClassifiedFailure, clean, parse_event


@dataclass(frozen=True)
class Imported:
    """One line for the events topic. An importer drops nothing: a line that is no event is a line too."""

    line: str
    """JSON when it could be mapped, else the input as it was read; never a newline in it."""
    origin: str
    """Where it was read: `export.zip/general/2015-06-05.json[3]`, `events.jsonl:12`."""
    problem: str | None
    """Why the pipeline will put the line into the dead letters; None for a line that is an event."""

    @classmethod
    def of(cls, line: str, origin: str) -> Imported:
        """The line as the pipeline will judge it: the same parser, so the same verdict."""
        line = line.replace("\r", "\\r").replace("\n", "\\n")
        try:
            parse_event(line)
        except ClassifiedFailure as failure:
            return cls(line, origin, failure.reason)
        return cls(line, origin, None)


def as_line(event: Mapping[str, object]) -> str:
    """One line of JSON, less what UTF-8 cannot carry; raises RecursionError for absurdly deep values."""
    return json.dumps(clean(event), ensure_ascii=False)

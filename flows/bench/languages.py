"""`bench languages`: whether a row written in English is found by what people say of it in other languages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from flows.bench.labelled import labelled_store, read_labelled, share
from store.schema import Event, Settings

_FILE = Path("xsid_ops") / "half.jsonl"
_NAMES: Final = {"de": "German", "ja": "Japanese", "zh": "Chinese", "ar": "Arabic"}
_START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Language:
    """How often the English row of a sentence in one language was among the 12 slices."""

    language: str
    sentences: int
    in_view: float
    without_vector: float
    embedder: str


def languages(folder: Path, settings: Settings, progress: Callable[[str, int, int], None]) -> list[Language]:
    """Write the English sentences as rows, and look for each by its twins.

    Raises UsageError when `folder` does not hold the sentences.
    """
    lines = read_labelled(folder / _FILE)
    wordy = settings.model_copy(update={"embedder": "none"})
    hits: defaultdict[str, list[bool]] = defaultdict(list)
    wordy_hits: defaultdict[str, list[bool]] = defaultdict(list)
    with labelled_store(settings) as labelled:
        for number, line in enumerate(lines):
            if line["lang"] == "en" and _key(line["text"]) not in labelled.rows:
                labelled.create(_event(number, line["text"]), _key(line["text"]))
        labelled.flush()
        asked = [line for line in lines if line["lang"] in _NAMES and _key(line["text_en"] or "") in labelled.rows]
        for number, line in enumerate(asked):
            progress("sentences", number, len(asked))
            event, row = _event(len(lines) + number, line["text"]), labelled.rows[_key(line["text_en"])]
            view = labelled.look(event)
            hits[line["lang"]].append(any(found.row_id == row for found in view.slices))
            if settings.embedding:
                view = labelled.look(event, wordy)
            wordy_hits[line["lang"]].append(any(found.row_id == row for found in view.slices))
    return [
        Language(name, len(hits[code]), share(hits[code]), share(wordy_hits[code]), settings.embedder)
        for code, name in _NAMES.items()
    ]


def _key(text: str) -> str:
    """The sentence without what its copies differ in: case and punctuation."""
    return "".join(char for char in text.casefold() if char.isalnum())


def _event(number: int, text: str) -> Event:
    """Each in a thread of its own, by nobody, so that only what is said can lead to the row."""
    at = _START + timedelta(minutes=number)
    return Event(id=str(number), source="sentences", thread=str(number), at=at, text=text)

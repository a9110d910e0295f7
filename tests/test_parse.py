"""What is no message becomes a dead letter that says why, where it stood, and how it came."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from connectors.message import Incoming
from flows.parse import outgoing_letter, parked_letter, read_event, read_operation
from store.derive import Applied
from store.schema import (
    Arrival,
    Coordinates,
    DeadLetter,
    FailureClass,
    Parked,
    TextCut,
    parse_event,
)
from tests.test_event import LEAST
from tests.workplace import START, event

Reader = Callable[[Incoming], Arrival | Applied | DeadLetter]

_BYTES = {
    "tombstone": ("", "it is a tombstone: it has no value"),
    "not UTF-8": ("caf\\xe9", "its value is not UTF-8"),
    "checksum": (json.dumps(LEAST), "its batch fails the checksum"),
}
_TEXTS = {
    "deep": "[" * 100_000,
    "broken": '{"id": ',
    "no object": '["a"]',
    "wrong schema": '{"id": "1", "kind": "fax"}',
    "null bytes": "\0\0\0",
    "empty": "",
    "half a character": '"\ud800',
}


def came(value: str, flaw: str | None = None, **headers: str) -> Incoming:
    """A message of the seventh partition."""
    moment = datetime(2024, 5, 1, tzinfo=UTC)
    return Incoming("lookfirst.events", 7, 42, moment, "default/t", value, headers, flaw)


def letter_of(read: Reader, incoming: Incoming) -> DeadLetter:
    """The dead letter of a message, as whoever reads that topic finds it."""
    letter = read(incoming)
    assert isinstance(letter, DeadLetter)
    assert letter == DeadLetter.model_validate_json(outgoing_letter(letter).value)
    assert Coordinates(topic="lookfirst.events", partition=7, offset=42) == letter.coordinates
    assert FailureClass.CONTENT == letter.failure
    return letter


@pytest.mark.promise("T8")
@pytest.mark.parametrize("read", [read_event, read_operation])
@pytest.mark.parametrize(("value", "flaw"), _BYTES.values(), ids=_BYTES)
def test_bytes_that_are_no_message(read: Reader, value: str, flaw: str) -> None:
    """What the connector found wrong is the reason; what is left of the bytes is not read, like what it may."""
    letter = letter_of(read, came(value, flaw))
    assert (flaw, value, None) == (letter.reason, letter.raw, letter.cut)


@pytest.mark.promise("T8")
@pytest.mark.parametrize("read", [read_event, read_operation])
@pytest.mark.parametrize("value", _TEXTS.values(), ids=_TEXTS)
def test_text_that_is_no_message(read: Reader, value: str) -> None:
    """Deep, broken, of another schema: a dead letter with all of it, and a reason in one line."""
    letter = letter_of(read, came(value))
    assert value.encode("utf-8", "backslashreplace").decode() == letter.raw
    assert letter.reason
    assert "\n" not in letter.reason


def test_headers_are_kept_for_a_replay() -> None:
    """Of a binary CloudEvent the headers are half the event: with them, the letter is read as the message was."""
    attributes = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "s", "ce_type": "t", "ce_subject": "garden"}
    headers = {**attributes, "ce_time": "yesterday", "origin": "export.jsonl:3"}
    letter = letter_of(read_event, came('{"text": "x"}', **headers))
    assert "export.jsonl:3" == letter.origin
    assert {**attributes, "ce_time": "yesterday"} == letter.headers
    assert "garden" == parse_event(letter.raw, {**letter.headers, "ce_time": LEAST["at"]}).thread


def test_header_that_is_no_text_is_no_fault() -> None:
    """A topic file that somebody edited: the event is read, and a letter is written all the same."""
    headers = {"origin": 7, "ce_id": None, "content-type": [], "a\ud800": "\ud800"}
    edited = Incoming("lookfirst.events", 7, 42, START, None, json.dumps(LEAST), headers)  # type: ignore[arg-type]
    assert isinstance(read_event(edited), Arrival)
    letter = letter_of(read_operation, edited)
    assert (None, {"a\\ud800": "\\ud800"}) == (letter.origin, letter.headers)


def test_cloud_event_is_keyed_by_its_thread() -> None:
    """The key is compared with the event's own, however it was wrapped."""
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "s", "ce_type": "t", "ce_time": LEAST["at"]}
    read = [read_event(came("{}", **headers, ce_subject=subject)) for subject in ("t", "u")]
    assert [False, True] == [each.unkeyed for each in read if isinstance(each, Arrival)]


def test_letter_without_a_field_that_is_new_is_read() -> None:
    """What an older release wrote has neither headers nor a cut."""
    letter = letter_of(read_event, came("x"))
    older = {
        name: value for name, value in letter.model_dump(mode="json").items() if name not in ("headers", "cut")
    }
    assert letter == DeadLetter.model_validate(older)


def test_letter_of_a_cut_event_says_so() -> None:
    """Nobody takes head and tail of a parked event for the event."""
    cut = TextCut(characters=9, bytes=9, sha256="", head=1, tail=1)
    arrival = Arrival(event=event("x"), arrived=START, coordinates=Coordinates(topic="e", offset=0), cut=cut)
    parked = Parked(arrival=arrival, failure=FailureClass.CONTENT, reason="r", attempts=1)
    assert cut == parked_letter(parked).cut

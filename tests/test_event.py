"""Events as they are read: what is accepted, what is cleaned, and what is told of the rest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from store.schema import ClassifiedFailure, Event, FailureClass, Participant, parse_event
from store.schema.event import key_of

LEAST = {"id": "1", "source": "chat", "thread": "t", "at": "2024-05-01T09:30:00+02:00"}


def read(**fields: Any) -> Event:
    """An event of the least fields and these, read from JSON."""
    return parse_event(json.dumps({**LEAST, **fields}))


def refusal(raw: str) -> str:
    """Why a line is no event."""
    with pytest.raises(ClassifiedFailure) as refused:
        parse_event(raw)
    assert FailureClass.CONTENT == refused.value.failure
    return refused.value.reason


def test_the_least_event() -> None:
    """Four fields make an event; the rest has defaults, and its time is kept in UTC."""
    event = read()
    assert ("default", "message", "", ()) == (event.workspace, event.kind, event.text, event.mentions)
    assert datetime(2024, 5, 1, 7, 30, tzinfo=UTC) == event.at
    assert "default/t" == event.key


def test_what_is_written_in_more_than_one_way() -> None:
    """A bare name is an id and a name, a blank part is absent, and unknown fields become flat attributes."""
    event = read(author="ada", mentions=[{"id": " ", "name": "Bo"}], colour="red", tags=["a"], attrs={"n": 1})
    assert Participant(id="ada", name="ada") == event.author
    assert (Participant(name="Bo"),) == event.mentions
    assert {"colour": "red", "tags": '["a"]', "n": 1} == event.attrs
    assert event == Event.model_validate_json(event.model_dump_json())


@pytest.mark.parametrize(
    "marked", ["<|endoftext|>", "a\u202eb\u2066c", "```", "{{x}}", "😀", "佐藤 健", "ß", "\u200b"]
)
@pytest.mark.promise("N7")
def test_marks_are_text(marked: str) -> None:
    """Special tokens, bidi marks, braces and emoji are kept as they were written."""
    assert f"before {marked} after" == read(text=f"before {marked} after").text


@pytest.mark.promise("N7")
@pytest.mark.parametrize("broken", ["\\u0000", "\\ud800", "\\udc00"])
def test_what_no_store_can_keep_is_replaced(broken: str) -> None:
    """NUL and half a surrogate become a replacement mark; the rest of the text is kept, pairs are joined."""
    raw = json.dumps({**LEAST, "text": "TEXT", "subject": "\U0001f600"}).replace("TEXT", f"before {broken} after")
    event = parse_event(raw)
    assert ("before \ufffd after", "\U0001f600") == (event.text, event.subject)
    assert event == Event.model_validate_json(event.model_dump_json())


@pytest.mark.promise("N4")
def test_names_are_kept_as_written() -> None:
    """A Japanese, Chinese or Arabic name is not folded, split or reordered."""
    for name in ("佐藤 健", "李小龍", "محمد", "Müller-Lüdenscheidt", "Ångström"):
        assert name == read(author={"id": "u", "name": name}).author.name


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("", "not JSON"),
        ("{broken", "not JSON"),
        ("[1]", "not a JSON object but list"),
        ('{"id": NaN}', "NaN is not a JSON value"),
        ("[" * 100_000, "not JSON"),
        ("{}", "id: Field required; source: Field required; thread: Field required; at: Field required"),
        (json.dumps({**LEAST, "thread": ""}), "thread: "),
        (json.dumps({**LEAST, "kind": "fax"}), "kind: "),
        (json.dumps({**LEAST, "at": "2024-05-01T09:30:00"}), "has no timezone; write it like"),
        (json.dumps({**LEAST, "at": 1_714_548_600}), "at: must be an RFC 3339 time"),
        (json.dumps({**LEAST, "at": "1714548600"}), "at: must be an RFC 3339 time"),
        (json.dumps({**LEAST, "at": "0001-01-01T00:00:00+14:00"}), "outside years 1 to 9999"),
        (json.dumps({**LEAST, "attrs": "x"}), "attrs: "),
        (json.dumps(LEAST)[:-1] + ', "much": 1e999}', "the number 1e999 is too large to keep"),
        (json.dumps({**LEAST, "format": 2}), "format: "),
    ],
)
def test_what_is_no_event_is_told_in_a_sentence(raw: str, told: str) -> None:
    """Each fault names the field and what is wrong with it, and echoes none of the input."""
    assert told in refusal(raw)


def test_identity_is_four_fields_and_cannot_be_spelled_alike() -> None:
    """Nothing but workspace, source, thread and id makes an event another one, and no two quadruples collide."""
    assert read().uid == read(text="x", at="2030-01-01T00:00:00Z", author="ada").uid
    others = [read(**{name: "other"}).uid for name in ("workspace", "source", "thread", "id")]
    assert 5 == len({read().uid, *others})
    assert read(workspace="a", thread="b/c").uid != read(workspace="a/b", thread="c").uid


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(print_blob=True, deadline=None)
@given(anything, st.sampled_from(["author", "mentions", "attrs", "text", "at", "thread", "colour"]))
def test_any_json_is_an_event_or_a_reason(value: Any, name: str) -> None:
    """Whatever stands in a field, reading ends in an event that survives a round trip, or in a reason."""
    raw = json.dumps({**LEAST, name: value})
    try:
        event = parse_event(raw)
    except ClassifiedFailure:
        assert refusal(raw)
        return
    assert event == Event.model_validate_json(event.model_dump_json())
    assert event.key == key_of(raw)

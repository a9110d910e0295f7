"""CloudEvents 1.0: the same event, plain or wrapped in either way, is the same event."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.schema import ClassifiedFailure, Event, FailureClass, parse_event
from store.schema.event import key_of
from tests.test_event import LEAST

STRUCTURED = {"content-type": "application/cloudevents+json; charset=UTF-8"}
ATTRIBUTES = {"specversion": "1.0", "type": "org.example.said", "id": "ce-1", "source": "/gateway"}
"""The least a CloudEvent has."""
SAID = {"text": "Please water the plants", "author": "ada"}
ALL = {**ATTRIBUTES, "time": "2024-05-01T09:30:00+02:00", "subject": "garden"}

Message = tuple[str, dict[str, str]]


def structured(data: object = None, **attributes: Any) -> str:
    """A CloudEvent as one JSON object."""
    return json.dumps({**ALL, **attributes, **({} if data is None else {"data": data})})


def binary(data: object, **attributes: str) -> Message:
    """A CloudEvent as data, and headers."""
    headers = {f"ce_{name}": value for name, value in {**ALL, **attributes}.items()}
    return json.dumps(data), {**headers, "content-type": "application/json"}


def wrapped(data: Mapping[str, object], attributes: Mapping[str, str]) -> dict[str, Message]:
    """One event in all the ways a CloudEvent may come."""
    encoded = base64.b64encode(json.dumps(data).encode()).decode()
    return {
        "structured": (json.dumps({**attributes, "data": data}), STRUCTURED),
        "without headers": (json.dumps({**attributes, "data": data}), {"origin": "x.jsonl:1"}),
        "encoded": (json.dumps({**attributes, "data_base64": encoded}), STRUCTURED),
        "binary": (json.dumps(data), {f"ce_{name}": value for name, value in attributes.items()}),
        "binary, other case": (
            json.dumps(data),
            {f"CE_{name.upper()}": value for name, value in attributes.items()},
        ),
    }


def refusal(raw: str, headers: Mapping[str, str]) -> str:
    """Why a message is no event."""
    with pytest.raises(ClassifiedFailure) as refused:
        parse_event(raw, headers)
    assert FailureClass.CONTENT == refused.value.failure
    return refused.value.reason


@pytest.mark.parametrize("way", wrapped({}, {}))
def test_what_the_data_does_not_say_the_attributes_say(way: str) -> None:
    """Id, source, time and thread are the attributes'; the rest is kept, and words are the data's alone."""
    raw, headers = wrapped(SAID, {**ALL, "dataschema": "https://example.org/s", "partitionkey": "7"})[way]
    event = parse_event(raw, headers)
    plain = {"id": "ce-1", "source": "/gateway", "thread": "garden", "at": ALL["time"]}
    attrs = {"ce_type": "org.example.said", "ce_dataschema": "https://example.org/s", "ce_partitionkey": "7"}
    assert parse_event(json.dumps({**plain, **SAID, "attrs": attrs})) == event
    assert ("default/garden", None) == (event.key, event.subject)
    assert event.key == key_of(raw, headers)


@pytest.mark.parametrize("way", wrapped({}, {}))
def test_data_wins_over_attributes(way: str) -> None:
    """An event that names itself keeps its identity; what a gateway calls it is kept beside."""
    attributes = {**ALL, "workspace": "theirs", "time": LEAST["at"]}
    raw, headers = wrapped({**LEAST, "workspace": "ours", "attrs": {"ce_type": "own"}}, attributes)[way]
    event = parse_event(raw, headers)
    assert ("1", "chat", "ours/t") == (event.id, event.source, event.key)
    assert {
        "ce_type": "own",
        "ce_id": "ce-1",
        "ce_source": "/gateway",
        "ce_subject": "garden",
        "ce_workspace": "theirs",
    } == event.attrs


def test_workspace_is_an_extension() -> None:
    """Of all the extensions only this one says something of an event."""
    raw = structured(SAID, workspace="acme", kind="fax", author="eve")
    event = parse_event(raw)
    assert ("acme/garden", "message", "ada") == (event.key, event.kind, event.author.id)
    assert {"ce_type": "org.example.said", "ce_kind": "fax", "ce_author": "eve"} == event.attrs
    assert "acme/garden" == key_of(raw)


def test_no_data_is_an_event_without_words() -> None:
    """Data is optional: then the attributes are all there is. A null attribute is none, and so is a null field."""
    event = parse_event(structured(dataschema=None))
    assert (True, {"ce_type": "org.example.said"}) == (event.is_blank, event.attrs)
    assert "garden" == parse_event(structured({"thread": None})).thread


def test_attributes_are_kept_as_headers_carry_them() -> None:
    """A number or a truth is the same text, whichever way it came."""
    event = parse_event(structured(SAID, sequence=5, urgent=True, nested={"a": [1]}))
    assert {"ce_sequence": "5", "ce_urgent": "true", "ce_nested": '{"a":[1]}'}.items() <= event.attrs.items()
    assert event == parse_event(*binary(SAID, sequence="5", urgent="true", nested='{"a":[1]}'))


def test_headers_of_others_change_nothing() -> None:
    """A plain event stays plain beside any other header; the value decides where the headers say nothing."""
    plain = json.dumps({**LEAST, "type": "x", "specversion": 1})
    assert parse_event(plain) == parse_event(plain, {"content-type": "application/json", "ce_id": "7"})
    assert "garden" == parse_event(structured(SAID), {"content-type": "application/json"}).thread
    # In binary mode the value is the event, also one that looks like a CloudEvent itself.
    assert "org.example.said" == parse_event(*binary(json.loads(structured(text="x")))).attrs["type"]


@pytest.mark.parametrize(
    ("raw", "headers", "told"),
    [
        (structured(SAID, specversion="0.3"), {}, "it is a CloudEvent of 0.3; specversion 1.0 is read"),
        (structured(SAID, specversion="1.x"), {}, "it is a CloudEvent of 1.x; specversion 1.0 is read"),
        (structured(SAID, specversion=1), STRUCTURED, "it is a CloudEvent of 1; specversion 1.0 is read"),
        (json.dumps(SAID), STRUCTURED, "it is a CloudEvent of no specversion; specversion 1.0 is read"),
        (json.dumps(SAID), {"ce_specversion": "2.0"}, "it is a CloudEvent of 2.0; specversion 1.0 is read"),
        (structured("words"), {}, "it is a CloudEvent whose data is not a JSON object but str"),
        (structured([1]), {}, "it is a CloudEvent whose data is not a JSON object but list"),
        (json.dumps({**ALL, "data": None}), {}, "it is a CloudEvent whose data is not a JSON object but NoneType"),
        (structured(SAID, data_base64="e30="), {}, "it is a CloudEvent with both data and data_base64"),
        (
            structured(data_base64="e30"),
            {},
            "it is a CloudEvent whose data_base64 is not base64: Incorrect padding",
        ),
        (structured(data_base64="日本"), {}, "it is a CloudEvent whose data_base64 is not base64: "),
        (structured(data_base64=7), {}, "it is a CloudEvent whose data_base64 is not base64: not text but int"),
        (structured(data_base64="W10="), {}, "it is a CloudEvent whose data_base64 is not a JSON object but list"),
        (structured(data_base64="/w=="), {}, "it is a CloudEvent whose data_base64 is not JSON: 'utf-8' codec"),
        ("[]", {"content-type": "application/cloudevents-batch+json"}, "it is a batch of CloudEvents; send each"),
        ("Obj", {"Content-Type": "Application/CloudEvents+Avro"}, "of the type 'application/cloudevents+avro'"),
        ("[1]", {"ce_specversion": "1.0"}, "not a JSON object but list"),
        ("<a/>", {"ce_specversion": "1.0", "content-type": "application/xml"}, "not JSON"),
        (
            json.dumps({**ATTRIBUTES, "data": {}}),
            {},
            "no event in the CloudEvent: thread: Field required; at: Field",
        ),
        (structured(SAID, time="yesterday"), {}, "no event in the CloudEvent: at: must be an RFC 3339 time"),
    ],
)
def test_what_is_no_event_is_told_in_a_sentence(raw: str, headers: dict[str, str], told: str) -> None:
    """Each fault of a CloudEvent is named, and costs nothing but this message."""
    assert told in refusal(raw, headers)
    assert key_of(raw, headers) in (None, "default/garden")


texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
people = st.none() | names | st.fixed_dictionaries({}, optional={"id": texts, "name": texts, "address": texts})
extensions = st.dictionaries(st.from_regex(r"x[a-z0-9]{0,8}", fullmatch=True), texts, max_size=3)
plain_events = st.fixed_dictionaries(
    {"id": names, "source": names, "thread": names, "at": st.sampled_from([LEAST["at"], "2024-05-01T07:30:00Z"])},
    optional={
        "workspace": names,
        "author": people,
        "mentions": st.lists(people, max_size=2),
        "subject": st.none() | texts,
        "text": texts,
        "attrs": st.dictionaries(
            texts.filter(lambda name: not name.startswith("ce_")),
            texts | st.integers() | st.booleans() | st.none(),
            max_size=2,
        ),
        "colour": st.none() | texts | st.lists(st.integers(), max_size=2),
    },
)


@given(plain_events, extensions, st.sets(st.sampled_from(["id", "source", "at", "thread", "workspace"])), texts)
def test_an_event_is_the_same_in_every_mode(
    plain: dict[str, Any], extension: dict[str, str], moved: set[str], other: str
) -> None:
    """Plain, structured, encoded or binary, and whichever attributes say what: one event, one key."""
    names = {"id": "id", "source": "source", "at": "time", "thread": "subject", "workspace": "workspace"}
    attributes = {**ATTRIBUTES, "id": other, **extension}
    attributes |= {names[field]: plain[field] for field in moved & plain.keys()}
    data = {name: value for name, value in plain.items() if name not in moved}
    expected = parse_event(json.dumps(plain))
    found = {way: parse_event(*message) for way, message in wrapped(data, attributes).items()}
    assert dict.fromkeys(found, found["structured"]) == found
    assert expected == _without_additions(found["binary"])
    assert {f"ce_{name}": value.replace("\0", "\ufffd") for name, value in extension.items()}.items() <= (
        found["binary"].attrs.items()
    )
    assert {expected.key} == {key_of(*message) for message in wrapped(data, attributes).values()}


def _without_additions(event: Event) -> Event:
    """The event without the attributes that only the CloudEvent has."""
    kept = {name: value for name, value in event.attrs.items() if not name.startswith("ce_")}
    return event.model_copy(update={"attrs": kept})

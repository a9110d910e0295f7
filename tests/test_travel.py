"""What travels of a message that is too large: head and tail, and enough to know the whole by."""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.parse import outgoing, parked_letter
from flows.travel import travelling
from store.derive import derive
from store.schema import (
    Arrival,
    Coordinates,
    Create,
    DeadLetter,
    Decision,
    Event,
    FailureClass,
    Parked,
    Participant,
    Rejection,
    Segmentation,
    Settings,
    SummarySlice,
    TextCut,
    parse_message,
)
from store.schema.identity import operation_id, task_id
from tests.strategies import applied, decision, seen
from tests.workplace import START, event

EVENT, MESSAGE = 900_000, 8_000_000
LEAST_EVENT = 64_000
"""The least limit that has room for every event (bytes)."""
PLACE = Coordinates(topic="lookfirst.events", partition=3, offset=77)


def came(text: str, **fields: Any) -> Arrival:
    """An event as it arrived."""
    return Arrival(event=event(text, **fields), arrived=START, coordinates=PLACE)


def decided(arrival: Arrival, quote: str = "quoted") -> Decision:
    """Its Decision: one create."""
    operation = operation_id(arrival.event.uid, 0, 0)
    create = Create(
        id=operation, number=0, task=task_id(operation), title="t", quote=quote, reason="r", not_nothing="n"
    )
    return decision(arrival, [create])


def parked(arrival: Arrival, **fields: Any) -> Parked:
    """The event given up."""
    given = {
        "failure": FailureClass.CONTENT,
        "reason": "the judge's answers were refused",
        "attempts": 3,
        **fields,
    }
    return Parked(arrival=arrival, **given)


def letter(raw: str, **fields: Any) -> DeadLetter:
    """A message that is no event."""
    given = {"reason": "not JSON", "failure": FailureClass.CONTENT, "coordinates": PLACE, "raw": raw, **fields}
    return DeadLetter(**given)


def size(message: Decision | Parked | DeadLetter | Event) -> int:
    """Bytes on the wire."""
    return len(message.model_dump_json().encode())


def whole(text: str, head: int, tail: int) -> TextCut:
    """What is said of a text of which so much is kept."""
    said = text.encode()
    return TextCut(
        characters=len(text), bytes=len(said), sha256=hashlib.sha256(said).hexdigest(), head=head, tail=tail
    )


def cut_of(message: Decision | Parked | DeadLetter) -> tuple[str, TextCut | None]:
    """The text that travels, and what is said of it."""
    if isinstance(message, DeadLetter):
        return message.raw, message.cut
    return message.event.text, message.arrival.cut


MAKERS: dict[str, Callable[[str], Decision | Parked | DeadLetter]] = {
    "decision": lambda text: decided(came(text)),
    "parked": lambda text: parked(came(text)),
    "letter": letter,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_small_travels_as_it_is(make: Callable[[str], Decision | Parked | DeadLetter]) -> None:
    """Up to the limit nothing is touched, to the byte."""
    message = make("好" * 200_000)
    assert message is travelling(message, EVENT, MESSAGE)
    exact = len(message.raw.encode()) if isinstance(message, DeadLetter) else size(message.event)
    assert message is travelling(message, exact, size(message))
    for limits in ((exact - 1, MESSAGE), (EVENT, size(message) - 1)):
        text, cut = cut_of(travelling(message, *limits))
        assert (whole("好" * 200_000, 4_000, 4_000), True) == (cut, len(text) < 8_100)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_of_a_long_text_head_and_tail_travel(make: Callable[[str], Decision | Parked | DeadLetter]) -> None:
    """Between them a line says how much is left out; length and hash are those of the whole."""
    text = "".join(f"line {number} of the minutes, 議事録 😀\n" for number in range(40_000))
    message = travelling(make(text), EVENT, MESSAGE)
    kept, cut = cut_of(message)
    assert f"{text[:4_000]}\n[… {len(text) - 8_000:,} characters left out …]\n{text[-4_000:]}" == kept
    assert whole(text, 4_000, 4_000) == cut
    assert PLACE == (message.coordinates if isinstance(message, DeadLetter) else message.arrival.coordinates)
    assert message == type(message).model_validate_json(message.model_dump_json())
    assert message == travelling(message, EVENT, MESSAGE)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize(
    "unit", ["x", "\x01", '"', "\\", "é", "好", "😀", "👩‍👩‍👧", "\u2028", "\x7f", "\U0010ffff"]
)
@pytest.mark.parametrize("limits", [(100_000, 1_000_000), (LEAST_EVENT, LEAST_EVENT), (6_000, 6_000)])
def test_no_text_is_too_large(
    make: Callable[[str], Decision | Parked | DeadLetter], unit: str, limits: tuple[int, int]
) -> None:
    """What JSON escapes takes six bytes a character: it fits all the same, and no character is torn."""
    text = unit * (1_000_000 // len(unit))
    message = travelling(make(text), *limits)
    assert size(message) <= limits[1]
    assert isinstance(message, DeadLetter) or size(message.event) <= limits[0]
    kept, cut = cut_of(message)
    assert cut is not None
    assert (len(text), len(text.encode())) == (cut.characters, cut.bytes)
    assert (text[: cut.head], text[len(text) - cut.tail :]) == (kept[: cut.head], kept[len(kept) - cut.tail :])
    assert min(cut.head, cut.tail) >= 100
    assert message.model_dump_json().encode().decode()


texts = st.builds(
    lambda part, times, end: part * times + end, st.text(max_size=30), st.integers(0, 400), st.text()
)
scalars = texts | st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False)
people = st.builds(Participant, id=st.none() | texts, name=st.none() | texts, address=st.none() | texts)
names = st.builds(
    lambda part, times: (part * times)[:2_000], st.text(min_size=1, max_size=30), st.integers(1, 100)
)
events = st.builds(
    event,
    texts,
    id=names,
    workspace=names,
    thread=names,
    subject=st.none() | texts,
    reply_to=st.none() | texts,
    attrs=st.dictionaries(texts, scalars, max_size=5),
    author=people,
    mentions=st.lists(people, max_size=3).map(tuple),
)


@settings(deadline=None)
@given(events, st.integers(0, 20_000), st.integers(LEAST_EVENT, 200_000), texts)
def test_laws_of_a_decision(said: Event, event_bytes: int, message_bytes: int, quote: str) -> None:
    """Whatever stands in the event: it fits, it is the same event of the same people, and means the same rows."""
    before = decided(Arrival(event=said, arrived=START, coordinates=PLACE), quote)
    after = travelling(before, event_bytes, message_bytes)
    assert size(after) <= message_bytes
    assert (said.uid, said.key) == (after.event.uid, after.event.key)
    assert after == parse_message(outgoing(after).value)
    if isinstance(after, Decision):
        assert (before.operations, said.people) == (after.operations, after.event.people)
        mine, theirs = derive(applied(before, 0)), derive(applied(after, 0))
        is_named = [change for change in mine.changes if change.field != "identifiers"]
        assert is_named == [change for change in theirs.changes if change.field != "identifiers"]
    again = travelling(after, event_bytes, message_bytes)
    assert cut_of(again)[1] == cut_of(after)[1]


@settings(deadline=None)
@given(events, st.integers(0, 20_000), st.integers(LEAST_EVENT, 200_000), texts)
def test_laws_of_what_is_parked(said: Event, event_bytes: int, message_bytes: int, reason: str) -> None:
    """Whatever was parked and why: it fits, it is the same event, and so does its letter."""
    before = parked(Arrival(event=said, arrived=START, coordinates=PLACE), reason=reason)
    after = travelling(before, event_bytes, message_bytes)
    assert size(after) <= message_bytes
    assert said.uid == after.event.uid
    assert after == parse_message(outgoing(after).value)
    assert (after.arrival.cut is None) == (after.event == said)
    sent = travelling(parked_letter(before), event_bytes, message_bytes)
    assert size(sent) <= message_bytes
    assert (sent.cut is None) == (sent.raw == said.model_dump_json())


@pytest.mark.parametrize("width", [4_000, 100])
def test_what_was_cut_is_cut_further(width: int) -> None:
    """Length and hash stay those of the whole, and what is kept is still its head and tail."""
    text = "".join(str(number) for number in range(1_000_000))
    first = travelling(parked(came(text)), EVENT, MESSAGE)
    again = travelling(first, size(first.event) - (1 if width < 4_000 else 0), MESSAGE)
    kept, cut = cut_of(again)
    assert cut is not None
    assert whole(text, cut.head, cut.tail) == cut
    assert (text[: cut.head], text[-cut.tail :]) == (kept[: cut.head], kept[-cut.tail :])
    assert (width == 4_000) == (cut.head == 4_000)
    assert f"[… {len(text) - cut.head - cut.tail:,} characters left out …]" == kept.split("\n")[1]


def test_what_is_long_beside_the_text_is_cut_too() -> None:
    """A long subject or attribute ends in an ellipsis, of many attributes the first are kept."""
    attrs = {"first": "a" * 1_000_000, "flag": True, **{f"n{number}": number for number in range(100_000)}}
    before = came("short", subject="s" * 5_000, reply_to="r", attrs=attrs)
    after = travelling(decided(before), EVENT, MESSAGE)
    assert ("s" * 4_000 + "…", "r", "short") == (after.event.subject, after.event.reply_to, after.event.text)
    assert {"first": "a" * 4_000 + "…", "flag": True, "n0": 0}.items() <= after.event.attrs.items()
    left_out = len(attrs) - len(after.event.attrs) + 1
    assert f"{left_out} more left out" == after.event.attrs["…"]
    assert whole("short", 5, 0) == after.arrival.cut


def test_decision_that_saw_too_much_is_parked() -> None:
    """Views cannot be cut, for a Decision is all that was seen: the event is parked, whole, with both sizes."""
    arrival = came("a long text")
    view = seen(event=arrival.event.uid)
    views = (view.model_copy(update={"summary": SummarySlice(text="好" * 100_000)}),) * 39
    segments = Segmentation(spans=((0, 1),) * 40, views=views)
    large = decided(arrival).model_copy(update={"segments": segments})
    after = travelling(large, EVENT, MESSAGE)
    assert isinstance(after, Parked)
    assert (arrival, FailureClass.CONTENT) == (after.arrival, after.failure)
    assert f"{size(large):,} bytes, and at most 8,000,000 may" in after.reason


def test_text_goes_before_the_decision_does() -> None:
    """A Decision that is too large by the text alone stands, without the middle of it."""
    after = travelling(decided(came("x" * 800_000), quote="x" * 300_000), EVENT, 1_000_000)
    assert isinstance(after, Decision)
    assert (4_000, 300_000) == (after.arrival.cut and after.arrival.cut.head, len(after.operations[0].quote))  # type: ignore[union-attr]


def test_more_people_than_may_travel() -> None:
    """Of a Decision people are never left out, even above the event's limit; of a parked event they may be."""
    crowd = tuple(Participant(id=f"user-{number}", name="n" * 50) for number in range(20_000))
    arrival = came("x" * 100_000, mentions=crowd)
    stands = travelling(decided(arrival), EVENT, MESSAGE)
    assert isinstance(stands, Decision)
    assert (crowd, 4_000) == (stands.event.mentions, stands.arrival.cut and stands.arrival.cut.head)
    given_up = travelling(decided(arrival), EVENT, 1_000_000)
    assert isinstance(given_up, Parked)
    assert ((), arrival.event.uid) == (given_up.event.people, given_up.event.uid)
    assert given_up == parse_message(given_up.model_dump_json())


def test_what_was_seen_and_refused_goes_before_the_words_of_a_parked_event() -> None:
    """Its View first, then the refusals: the event is what is brought back."""
    arrival = came("x" * 500_000)
    refused = tuple(Rejection(attempt=n, rule="R41", reason="r", proposal="p" * 400_000) for n in range(2))
    large = parked(arrival, view=seen(event=arrival.event.uid), rejected=refused)
    unseen = travelling(large, EVENT, size(large) - 1)
    assert (arrival, None, refused) == (unseen.arrival, unseen.view, unseen.rejected)
    bare = travelling(large, EVENT, 600_000)
    assert (arrival, None, ()) == (bare.arrival, bare.view, bare.rejected)


def test_headers_of_a_letter_have_a_bound() -> None:
    """Headers of megabytes do not keep a letter from travelling; without them all it is not whole."""
    headers = {"ce_id": "1", **{f"h{number}": "v" * 100 for number in range(100_000)}}
    after = travelling(letter("{}", headers=headers), EVENT, MESSAGE)
    assert ("{}", "1", whole("{}", 2, 0)) == (after.raw, after.headers["ce_id"], after.cut)
    assert size(after) < 100_000
    talkative = travelling(letter("{}", reason="r" * 9_000_000), EVENT, MESSAGE)
    assert ({}, None) == (talkative.headers, talkative.cut)


def test_limits_of_the_settings_have_room_for_every_event() -> None:
    """The longest names there may be, all of them escaped: it fits the least limit that can be set."""
    long = "\x01" * 2_000
    said = Event(id=long, workspace=long, source=long, thread=long, at=START, text="\x01" * 1_000_000)
    after = travelling(parked(Arrival(event=said, arrived=START, coordinates=PLACE)), LEAST_EVENT, LEAST_EVENT)
    assert size(after) <= LEAST_EVENT
    fields = {name: Settings.model_fields[name] for name in ("message_kilobytes", "operation_megabytes")}
    least = {name: next(each.ge for each in field.metadata) for name, field in fields.items()}
    assert {"message_kilobytes": 100, "operation_megabytes": 1} == least


def test_arrival_without_the_field_that_is_new_is_read() -> None:
    """A Decision that an older release wrote has no cut, nor has an event that was pending when it ended."""
    older = json.loads(decided(came("x")).model_dump_json())
    del older["arrival"]["cut"]
    assert decided(came("x")) == Decision.model_validate(older)
    pickled = came("x")
    del pickled.__dict__["cut"]
    resumed = pickle.loads(pickle.dumps(pickled))  # noqa: S301
    assert (came("x"), None) == (resumed, parked_letter(parked(resumed)).cut)

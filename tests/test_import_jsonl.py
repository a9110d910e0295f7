"""Lines of JSON objects become events, whatever their fields are called."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from connectors.imported import Imported
from connectors.jsonl import EVENT_FIELDS, UNMAPPED, parse_mapping, read_jsonl
from store.schema import Event, Participant, UsageError, parse_event

MAPPING = parse_mapping("id=i,at=ts,author=user,text=text,thread=file")
BERLIN = ZoneInfo("Europe/Berlin")
MINIMAL = {"id": "1", "thread": "t", "at": "2024-05-01T10:00:00Z"}


def read(
    folder: Path, content: object, mapping: dict[str, str] | None = None, zone: ZoneInfo | None = None
) -> list[Imported]:
    """Import one file: bytes and text as they are, all else as one line of JSON."""
    path = folder / "events.jsonl"
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return list(read_jsonl(path, mapping=mapping or UNMAPPED, zone=zone))


def only_event(
    folder: Path, content: object, mapping: dict[str, str] | None = None, zone: ZoneInfo | None = None
) -> Event:
    [line] = read(folder, content, mapping, zone)
    return parse_event(line.line)


def test_mapped_line_becomes_event(tmp_path: Path) -> None:
    """Mapped fields fill the event, numbers become names, the rest are attributes, nulls are dropped."""
    line = {"file": 0, "i": 7, "ts": "2024-05-01T12:00", "user": "ada", "text": "hi", "item": None, "n": 3}
    expected = Event(
        id="7",
        source="jsonl",
        thread="0",
        at=datetime(2024, 5, 1, 10, tzinfo=UTC),
        author=Participant(id="ada", name="ada"),
        text="hi",
        attrs={"n": 3},
    )
    assert expected == only_event(tmp_path, line, MAPPING, BERLIN)


def test_unmapped_line_is_an_event_already(tmp_path: Path) -> None:
    """Without a mapping an event that was written by us is read back equal."""
    event = Event.model_validate(MINIMAL | {"source": "mail", "workspace": "acme", "attrs": {"a": 1}})
    assert event == only_event(tmp_path, event.model_dump_json())


def test_defaults_are_for_lines_that_name_none(tmp_path: Path) -> None:
    """The workspace and source of the call never overrule those of a line."""
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps(MINIMAL) + "\n" + json.dumps(MINIMAL | {"workspace": "own", "source": "mail"}))
    events = [parse_event(line.line) for line in read_jsonl(path, workspace="acme", source="irc")]
    assert [("acme", "irc"), ("own", "mail")] == [(event.workspace, event.source) for event in events]


def test_input_field_in_the_way_of_a_mapping_is_an_attribute(tmp_path: Path) -> None:
    """An input field whose name a mapping gave away is kept, as an attribute."""
    line = MINIMAL | {"text": "short", "body": "long", "format": "html"}
    event = only_event(tmp_path, line, {"text": "body"})
    assert ("long", {"text": "short", "format": "html"}) == (event.text, event.attrs)


def test_attributes_that_are_no_object_are_kept(tmp_path: Path) -> None:
    """An `attrs` that is no object becomes an attribute of that name beside the others."""
    assert {"attrs": "x", "n": 3} == only_event(tmp_path, MINIMAL | {"attrs": "x", "n": 3}).attrs


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("2024-05-01T12:00", datetime(2024, 5, 1, 10, tzinfo=UTC)),
        ("2024-05-01T12:00:30", datetime(2024, 5, 1, 10, 0, 30, tzinfo=UTC)),
        ("2024-05-01 12:00:30.000001", datetime(2024, 5, 1, 10, 0, 30, 1, tzinfo=UTC)),
        ("2024-12-01T12:00", datetime(2024, 12, 1, 11, tzinfo=UTC)),
        ("2024-05-01T12:00:00Z", datetime(2024, 5, 1, 12, tzinfo=UTC)),
        ("2024-05-01T12:00:00-03:00", datetime(2024, 5, 1, 15, tzinfo=UTC)),
        ("1850-01-01T00:53:28", datetime(1850, 1, 1, tzinfo=UTC)),
    ],
)
def test_time_without_zone_is_local_to_the_zone_given(tmp_path: Path, at: str, expected: datetime) -> None:
    """The zone given is that of times that have none; a time's own zone stands."""
    assert expected == only_event(tmp_path, MINIMAL | {"at": at}, zone=BERLIN).at


@pytest.mark.parametrize(
    ("at", "zone"),
    [
        ("2024-05-01T12:00", None),
        ("yesterday", BERLIN),
        ("0001-01-01T00:00", BERLIN),
        (1_714_557_600, BERLIN),
        (None, BERLIN),
    ],
)
def test_time_that_is_no_moment_is_a_problem(tmp_path: Path, at: object, zone: ZoneInfo | None) -> None:
    """A time that cannot be told is never guessed: the line is passed on as it was, with its problem."""
    [line] = read(tmp_path, MINIMAL | {"at": at}, zone=zone)
    assert at == json.loads(line.line).get("at")
    assert line.problem is not None
    assert "at: " in line.problem


@pytest.mark.parametrize("line", ["{", "[1]", '"text"', '{"a": ' * 5_000, "\x00"])
def test_line_that_is_no_object_is_passed_on_raw(tmp_path: Path, line: str) -> None:
    """A broken line goes on as it was read, for the dead letters, and the next one is read."""
    broken, sound = read(tmp_path, line + "\n" + json.dumps(MINIMAL))
    assert line == broken.line
    assert broken.problem is not None
    assert sound.problem is None


def test_carriage_return_stays_in_its_line(tmp_path: Path) -> None:
    """A stray carriage return in a broken line cannot become a second line."""
    [line] = read(tmp_path, '{"id":\r"1"')
    assert '{"id":\\r"1"' == line.line


def test_bytes_that_are_no_text_are_escaped(tmp_path: Path) -> None:
    """A line that is not UTF-8 is passed on with its bytes escaped."""
    [line] = read(tmp_path, b'{"text": "caf\xe9"}')
    assert '{"text": "caf\\xe9"}' == line.line
    assert line.problem is not None


def test_blank_lines_and_byte_order_mark_are_no_input(tmp_path: Path) -> None:
    """Blank lines are skipped and still counted in the origin; a byte order mark is ignored."""
    text = json.dumps(MINIMAL)
    lines = read(tmp_path, f"\ufeff{text}\r\n\n   \n{text}\n")
    assert [("events.jsonl:1", None), ("events.jsonl:4", None)] == [(x.origin, x.problem) for x in lines]


def test_lone_surrogate_does_not_break_the_line(tmp_path: Path) -> None:
    """Half an emoji, which UTF-8 cannot carry, is replaced."""
    [line] = read(tmp_path, MINIMAL | {"text": "half \ud83d"})
    assert "half \N{REPLACEMENT CHARACTER}" == json.loads(line.line.encode())["text"]


@pytest.mark.parametrize("content", [None, "folder", "", "\n \n"])
def test_unusable_file_is_one_sentence(tmp_path: Path, content: str | None) -> None:
    """A missing file, a folder and a file without lines are refused in one sentence that names them."""
    path = tmp_path / "events.jsonl"
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_text(content)
    with pytest.raises(UsageError) as refused:
        list(read_jsonl(path))
    assert str(refused.value).startswith(str(path))
    assert str(refused.value).endswith(".")


def test_mapping_is_event_field_to_input_field() -> None:
    """Pairs may have spaces around them, and an input field may fill two event fields."""
    assert {"id": "i", "thread": "i"} == parse_mapping(" id = i, thread=i")


@pytest.mark.parametrize(
    ("text", "named"),
    [("id=i,when=ts", "'when=ts'"), ("id", "'id'"), ("id=", "'id='"), ("", "''"), ("id=a,id=b", "'id=b'")],
)
def test_wrong_mapping_names_the_pair(text: str, named: str) -> None:
    """A pair that cannot be meant is named in the error."""
    with pytest.raises(UsageError, match=named):
        parse_mapping(text)


def test_unknown_event_field_lists_the_known_ones() -> None:
    """Whoever mistypes an event field is shown the event fields."""
    with pytest.raises(UsageError) as refused:
        parse_mapping("when=ts")
    assert [] == [field for field in EVENT_FIELDS if field not in str(refused.value)]


def test_real_log_is_whole(shared_data: Path) -> None:
    """A real log of 3,266 lines gives as many events, each with an identity of its own."""
    path = shared_data / "ubuntu_meeting" / "events.jsonl"
    lines = list(read_jsonl(path, mapping=MAPPING, zone=ZoneInfo("UTC")))
    assert 3_266 == len(lines)
    assert [] == [line for line in lines if line.problem]
    assert 3_266 == len({parse_event(line.line).uid for line in lines})

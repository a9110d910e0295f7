"""A Slack export becomes events, and nothing of it is lost on the way."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors.imported import Imported
from connectors.slack import read_slack
from store.schema import Event, Participant, UsageError, parse_event

USERS = [
    {"id": "U1", "name": "ada", "real_name": "Ada &amp; Co", "profile": {"email": "ada@example.org"}},
    {"id": "U2", "name": "bo", "profile": {"display_name": "Bo", "real_name": "Bo Long"}},
]
CHANNELS = [{"id": "C1", "name": "general"}]


def message(ts: str = "1433543210.000123", text: str = "hello", **fields: object) -> dict[str, object]:
    return {"type": "message", "user": "U1", "ts": ts, "text": text} | fields


def export(folder: Path, days: Mapping[str, object]) -> Path:
    """Write an export: day files by `channel/day`, text as it is and all else as JSON."""
    files = {"users": USERS, "channels": CHANNELS} | dict(days)
    for name, value in files.items():
        file = folder / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(value if isinstance(value, str) else json.dumps(value), encoding="utf-8")
    return folder


def zipped(folder: Path, prefix: str = "") -> Path:
    path = folder.parent / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.json")):
            archive.write(file, prefix + file.relative_to(folder).as_posix())
    return path


def read(folder: Path, *messages: object) -> list[Imported]:
    return list(read_slack(export(folder / "export", {"general/2015-06-05": list(messages)})))


def only_event(folder: Path, *messages: object) -> Event:
    [line] = read(folder, *messages)
    return parse_event(line.line)


def test_message_becomes_event(tmp_path: Path) -> None:
    """A message keeps its author, its words and its time to the microsecond."""
    expected = Event(
        id="1433543210.000123",
        source="slack",
        thread="general",
        at=datetime(2015, 6, 5, 22, 26, 50, 123, tzinfo=UTC),
        author=Participant(id="U1", name="Ada & Co", address="ada@example.org"),
        text="hello",
        attrs={"channel": "general"},
    )
    assert expected == only_event(tmp_path, message())


@pytest.mark.parametrize("prefix", ["", "acme/"])
def test_zip_reads_as_its_folder(tmp_path: Path, prefix: str) -> None:
    """A zip file, with or without a folder around everything, gives the lines of the unpacked export."""
    folder = export(tmp_path / "export", {"general/2015-06-05": [message()], "ops/2015-06-04": [message()]})
    expected = [line.line for line in read_slack(folder)]
    actual = list(read_slack(zipped(folder, prefix)))
    assert expected == [line.line for line in actual]
    assert f"export.zip/{prefix}general/2015-06-05.json[0]" == actual[0].origin


def test_days_are_in_order_and_other_files_left_alone(tmp_path: Path) -> None:
    """Day files are read by channel and date; a file that is no day of a channel is not a message."""
    folder = export(
        tmp_path,
        {
            "ops/2015-06-06": [message("3.0")],
            "ops/2015-06-05": [message("2.0")],
            "general/2015-06-07": [message("1.0")],
            "general/canvas": [message("9.0")],
            "integration_logs": [message("9.0")],
        },
    )
    assert ["1.0", "2.0", "3.0"] == [parse_event(line.line).id for line in read_slack(folder)]


def test_names_in_archive_are_never_paths(tmp_path: Path) -> None:
    """A zip entry that points outside its archive is neither written anywhere nor read as a channel."""
    path = tmp_path / "sub" / "export.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("../2015-06-05.json", json.dumps([message()]))
        archive.writestr("/etc/2015-06-05.json", json.dumps([message()]))
        archive.writestr("general/2015-06-05.json", json.dumps([message(text="kept")]))
    assert ["kept"] == [parse_event(line.line).text for line in read_slack(path, workspace="acme")]
    assert [path] == list(path.parent.iterdir())


def test_thread_of_parent_and_replies(tmp_path: Path) -> None:
    """A reply and its parent are one thread; what is outside Slack's threads is the channel's own."""
    lines = read(tmp_path, message("1.0"), message("2.0", thread_ts="2.0"), message("3.0", thread_ts="2.0"))
    events = [parse_event(line.line) for line in lines]
    expected = [("general", None), ("general/2.0", None), ("general/2.0", "2.0")]
    assert expected == [(event.thread, event.reply_to) for event in events]


def test_same_ts_twice_is_two_events(tmp_path: Path) -> None:
    """Two messages with one `ts` have distinct identities, the same at every import."""
    first = read(tmp_path, message("1.0"), message("1.0", text="other"))
    assert ["1.0", "1.0#2"] == [parse_event(line.line).id for line in first]
    assert first == read(tmp_path, message("1.0"), message("1.0", text="other"))


def test_subtype_is_kept(tmp_path: Path) -> None:
    """A message of any subtype is an event, and says which."""
    event = only_event(tmp_path, message(subtype="channel_join"))
    assert {"channel": "general", "subtype": "channel_join"} == event.attrs


@pytest.mark.parametrize(
    ("marked", "expected"),
    [
        ("<@U2> and <@U2|bo>", "@Bo and @Bo"),
        ("<@U9|guest> <@U8>", "@guest @U8"),
        ("<#C1> <#C1|> <#C7|ops> <#C8>", "#general #general #ops #C8"),
        ("<!channel> <!here|here> <!subteam^S1|@infra>", "@channel @here @infra"),
        ("<!date^1433543210^{date}|June 5>", "June 5"),
        ("<https://example.org/a?b=1&amp;c=2>", "https://example.org/a?b=1&c=2"),
        ("<https://example.org|the plan>", "the plan (https://example.org)"),
        ("<http://example.org|example.org>", "http://example.org"),
        ("<mailto:a@example.org|a@example.org> <tel:+49|+49>", "a@example.org +49"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("&lt;@U2&gt; &amp;lt;", "<@U2> &lt;"),
        ("a <b> c <@> <", "a <b> c <@> <"),
    ],
)
def test_markup_becomes_plain_text(tmp_path: Path, marked: str, expected: str) -> None:
    """Markup reads as a person would read it, and escaped text never becomes markup."""
    assert expected == only_event(tmp_path, message(text=marked)).text


def test_mentions_are_participants(tmp_path: Path) -> None:
    """Who is mentioned is listed once, with all that the export knows of them."""
    event = only_event(tmp_path, message(text="<@U1> <@U9|guest> <@U1|ada>"))
    expected = (
        Participant(id="U1", name="Ada & Co", address="ada@example.org"),
        Participant(id="U9", name="guest"),
    )
    assert expected == event.mentions


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"user": None, "comment": {"user": "U2"}}, Participant(id="U2", name="Bo")),
        ({"user": None, "bot_id": "B1", "username": "build"}, Participant(id="B1", name="build")),
        ({"user": None, "username": "build"}, Participant(id="build", name="build")),
        ({"user": "U9", "user_profile": {"real_name": "Guest"}}, Participant(id="U9", name="Guest")),
        ({"user": "U9"}, Participant(id="U9")),
        ({"user": None}, Participant()),
    ],
)
def test_author_is_whoever_is_named(tmp_path: Path, fields: dict[str, object], expected: Participant) -> None:
    """The author is the user, the commenter, the bot, or nobody, in that order."""
    assert expected == only_event(tmp_path, message() | fields).author


def test_attachments_stand_in_for_missing_text(tmp_path: Path) -> None:
    """What a bot said only in attachments is the text of its message."""
    attachments = [{"text": "build <https://example.org|7> failed"}, {"fallback": "see log"}, {"id": 3}]
    event = only_event(tmp_path, message(text="", attachments=attachments))
    assert "build 7 (https://example.org) failed\nsee log" == event.text


@pytest.mark.parametrize("ts", [None, "", "yesterday", "1e999999999", "9" * 30, ["1.0"]])
def test_message_without_time_is_passed_on(tmp_path: Path, ts: object) -> None:
    """A message whose `ts` is missing or no time keeps its words and says what is wrong."""
    [line] = read(tmp_path, message() | {"ts": ts})
    assert "hello" == json.loads(line.line)["text"]
    assert line.problem is not None
    assert "at: Field required" in line.problem


def test_ts_written_as_number_loses_no_digit(tmp_path: Path) -> None:
    """A `ts` without quotes is read digit by digit, not as a float."""
    day = '[{"ts": 1433543210.100000, "text": "x"}]'
    [line] = read_slack(export(tmp_path, {"general/2015-06-05": day}))
    assert "1433543210.100000" == parse_event(line.line).id


@pytest.mark.parametrize("day", ['[{"ts":\r\n"1.0"', '{"messages": []}', "null", "", "[" * 100_000])
def test_broken_day_file_is_one_line_with_problem(tmp_path: Path, day: str) -> None:
    """A day file that is no list of messages is passed on as one line, and the next one is read."""
    folder = export(tmp_path, {"general/2015-06-05": day, "general/2015-06-06": [message()]})
    broken, sound = read_slack(folder)
    assert broken.problem is not None
    assert not {"\n", "\r"} & set(broken.line)
    assert f"{tmp_path.name}/general/2015-06-05.json" == broken.origin
    assert sound.problem is None


def test_day_file_that_is_not_utf8_is_passed_on(tmp_path: Path) -> None:
    """Bytes that are no text are escaped, never an end of the import."""
    folder = export(tmp_path, {"general/2015-06-05": []})
    (folder / "general" / "2015-06-05.json").write_bytes(b'[{"text": "caf\xe9"}]')
    [line] = read_slack(folder)
    assert '[{"text": "caf\\xe9"}]' == line.line
    assert line.problem is not None


def test_item_that_is_no_message_is_passed_on(tmp_path: Path) -> None:
    """A list item that is no object is a line with a problem, in its place."""
    lines = read(tmp_path, "stray", message())
    assert ["not a JSON object but str", None] == [line.problem for line in lines]


def test_lone_surrogate_does_not_break_the_line(tmp_path: Path) -> None:
    """Half an emoji, which UTF-8 cannot carry, is replaced."""
    [line] = read(tmp_path, message(text="half \ud83d"))
    assert "half \N{REPLACEMENT CHARACTER}" == json.loads(line.line.encode())["text"]


def test_export_without_users_and_channels(tmp_path: Path) -> None:
    """The lists of users and channels are optional: ids and labels stand in for names."""
    folder = export(tmp_path, {"general/2015-06-05": [message(text="<@U2> <#C1|general>")]})
    (folder / "users.json").unlink()
    (folder / "channels.json").unlink()
    [line] = read_slack(folder)
    assert "@U2 #general" == parse_event(line.line).text


@pytest.mark.parametrize("content", [None, "text", "folder", "users", "damaged"])
def test_unusable_export_is_one_sentence(tmp_path: Path, content: str | None) -> None:
    """A path that is no usable Slack export is refused in one sentence that names it."""
    path = tmp_path / "export"
    match content:
        case "text":
            path.write_text("no zip")
        case "folder":
            path.mkdir()
        case "users":
            export(path, {"users": "{", "general/2015-06-05": [message()]})
        case "damaged":
            path = zipped(export(path, {"general/2015-06-05": [message(text="intact")]}))
            path.write_bytes(path.read_bytes().replace(b"intact", b"broken"))
    with pytest.raises(UsageError) as refused:
        list(read_slack(path))
    assert str(refused.value).startswith(str(path))
    assert str(refused.value).endswith(".")


def test_real_export_is_whole(shared_data: Path) -> None:
    """A real export of 1,382 messages gives as many events, each with an identity of its own."""
    lines = list(read_slack(shared_data / "slack_houstondatavis.zip"))
    assert 1_382 == len(lines)
    assert [] == [line for line in lines if line.problem]
    assert 1_382 == len({parse_event(line.line).uid for line in lines})

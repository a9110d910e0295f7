"""A topic file keeps order, loses nothing to a crash, and says what is wrong with it in one sentence."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.lock import exclusive
from connectors.message import Incoming, Outgoing
from connectors.topic_file import Place, TopicFile
from flows.parse import read_event
from store.schema import Coordinates, DeadLetter, LookfirstError, StoreError, TopicError
from tests.workplace import START

NAME = "lookfirst.events"
REPOSITORY = Path(__file__).resolve().parent.parent


class Clock:
    """Times that are told in the given order; the last one again and again."""

    def __init__(self, *seconds: int) -> None:
        self._left = list(seconds)

    def __call__(self) -> datetime:
        second = self._left.pop(0) if len(self._left) > 1 else self._left[0]
        return START + timedelta(seconds=second)


def said(*values: str) -> list[Outgoing]:
    """Messages of one thread."""
    return [Outgoing("default/t", value) for value in values]


def everything(topic: TopicFile) -> list[Incoming]:
    """All messages of a topic."""
    return topic.read(topic.start, 1_000_000)[0]


def values(topic: TopicFile) -> list[str]:
    """The values of all messages."""
    return [message.value for message in everything(topic)]


def test_offsets_are_the_order_of_appending(tmp_path: Path) -> None:
    """Each append returns the offset of its first message; a reader sees all, in order, as they were sent."""
    topic = TopicFile(tmp_path, NAME, Clock(1))
    last = [topic.append(said("a", "b")), topic.append(said("c")), topic.append(said("d"))]
    assert [Coordinates(topic=NAME, offset=offset) for offset in (1, 2, 3)] == last
    expected = [
        Incoming(NAME, 0, offset, START + timedelta(seconds=1), "default/t", value)
        for offset, value in enumerate("abcd")
    ]
    assert expected == everything(topic) == everything(TopicFile(tmp_path, NAME))
    assert 4 == topic.end().offset == TopicFile(tmp_path, NAME).end().offset


def test_key_and_headers_come_back(tmp_path: Path) -> None:
    """A message without a key has none, and headers are kept."""
    topic = TopicFile(tmp_path, NAME)
    topic.append([Outgoing(None, "a", {"origin": "file:1"}), Outgoing("", "b")])
    assert [(None, {"origin": "file:1"}), ("", {})] == [(m.key, m.headers) for m in everything(topic)]


def test_reading_goes_on_from_a_place(tmp_path: Path) -> None:
    """Reading in pieces of any size gives the same messages, and a place is found again by its offset."""
    topic = TopicFile(tmp_path, NAME)
    topic.append(said(*"abcdefg"))
    for limit in (1, 2, 3, 7, 99):
        place, found = topic.start, []
        while True:
            some, place = topic.read(place, limit)
            if not some:
                break
            assert topic.place_of(some[0].offset) == Place(some[0].offset, topic.place_of(some[0].offset).byte)
            found += some
        assert everything(topic) == found
        assert topic.end() == place == topic.place_of(7)


def test_reader_sees_what_is_appended_later(tmp_path: Path) -> None:
    """Also by another writer of the same file, whose end was somewhere else."""
    one, other = TopicFile(tmp_path, NAME), TopicFile(tmp_path, NAME)
    last = [one.append(said("a")), other.append(said("b")), one.append(said("c"))]
    assert [0, 1, 2] == [place.offset for place in last]
    assert ["a", "b", "c"] == values(one) == values(other)
    assert one.end() == other.end()


def test_place_past_the_end_is_refused(tmp_path: Path) -> None:
    """A store that is ahead of its topic is told which file ends where."""
    topic = TopicFile(tmp_path, NAME)
    topic.append(said("a", "b"))
    assert 2 == topic.place_of(2).offset
    with pytest.raises(TopicError, match=r"Offset 3 is past the end \(2\) of .*lookfirst\.events\.jsonl"):
        topic.place_of(3)


def test_arrival_never_goes_back(tmp_path: Path) -> None:
    """A clock that is set back does not reorder the past: within one writer, and for the next one."""
    topic = TopicFile(tmp_path, NAME, Clock(100, 50, 120))
    for value in "abc":
        topic.append(said(value))
    TopicFile(tmp_path, NAME, Clock(7)).append(said("d"))
    topic.append(said("e"))
    arrived = [int((message.arrived - START).total_seconds()) for message in everything(topic)]
    assert [100, 100, 120, 120, 120] == arrived


def test_arrival_never_goes_back_over_a_damaged_last_line(tmp_path: Path) -> None:
    """The last line has no time that can be read: the one before it counts."""
    topic = TopicFile(tmp_path, NAME, Clock(100))
    topic.append(said("a"))
    with topic.path.open("ab") as file:
        file.write(b"damaged\n")
    TopicFile(tmp_path, NAME, Clock(7)).append(said("b"))
    assert START + timedelta(seconds=100) == everything(topic)[-1].arrived


def test_torn_last_line_is_never_read_and_dropped_by_the_next_writer(tmp_path: Path) -> None:
    """A crash at any byte of the last two lines leaves every whole line, and the next append is readable."""
    topic = TopicFile(tmp_path, NAME, Clock(1))
    topic.append(said("first"))
    topic.append(said("zweite \u00fc\U0001f600\n"))
    topic.append(said("third"))
    whole = topic.path.read_bytes()
    lines = whole.splitlines(keepends=True)
    before_last_two = len(lines[0]) + len(lines[1])
    for size in range(before_last_two, len(whole) + 1):
        folder = tmp_path / str(size)
        reader = TopicFile(folder, NAME)
        reader.path.write_bytes(whole[:size])
        kept = ["first", "zweite \u00fc\U0001f600\n", "third"][: whole[:size].count(b"\n") - 1]
        place = Place(0, len(lines[0]))
        assert kept == [message.value for message in reader.read(place, 9)[0]]
        writer = TopicFile(folder, NAME, Clock(1))
        assert (kept, len(kept)) == (values(writer), writer.end().offset)
        assert len(kept) == writer.append(said("next")).offset
        assert [*kept, "next"] == values(writer)


def test_long_torn_line_is_dropped_whole(tmp_path: Path) -> None:
    """Also one that is longer than what is looked at in one piece."""
    topic = TopicFile(tmp_path, NAME)
    topic.append(said("a"))
    with topic.path.open("ab") as file:
        file.write(b'{"at": "' + b"x" * 200_000)
    assert 1 == topic.append(said("b")).offset
    assert ["a", "b"] == values(topic)


def test_torn_header_is_written_again(tmp_path: Path) -> None:
    """A crash while the file was made, at any byte, leaves a file that the next one makes."""
    header = TopicFile(tmp_path, NAME).path.read_bytes()
    for size in range(len(header)):
        folder = tmp_path / str(size)
        folder.mkdir()
        (folder / f"{NAME}.jsonl").write_bytes(header[:size])
        topic = TopicFile(folder, NAME)
        assert 0 == topic.append(said("a")).offset
        assert ["a"] == values(TopicFile(folder, NAME))


_APPENDING = """
import sys
from pathlib import Path
from connectors.message import Outgoing
from connectors.topic_file import TopicFile
topic = TopicFile(Path(sys.argv[1]), sys.argv[2])
print("ready", flush=True)
sys.stdin.readline()
for number in range(0, 300, 3):
    topic.append([Outgoing(sys.argv[3], f"{sys.argv[3]} {n}" * (n % 40 + 1)) for n in range(number, number + 3)])
"""


def test_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    """Every message of each is there once, those of one process in order, those of one append together."""
    command = [sys.executable, "-c", _APPENDING, str(tmp_path), NAME]
    with ExitStack() as ends:
        running = [
            ends.enter_context(
                subprocess.Popen(
                    [*command, who], cwd=REPOSITORY, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            )
            for who in "abc"
        ]
        for process in running:
            assert process.stdout is not None
            assert "ready\n" == process.stdout.readline()
        for process in running:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [0, 0, 0] == [process.wait(60) for process in running]
    found = everything(TopicFile(tmp_path, NAME))
    assert list(range(900)) == [message.offset for message in found]
    assert sorted(message.arrived for message in found) == [message.arrived for message in found]
    for who in "abc":
        mine = [message.value for message in found if message.key == who]
        assert [f"{who} {n}" * (n % 40 + 1) for n in range(300)] == mine
    for first in range(0, 900, 3):
        assert 1 == len({message.key for message in found[first : first + 3]})


_DAMAGED = {
    "empty": b"",
    "no JSON": b"what is this",
    "half of it": b'{"at": "2024-05-01T09:00:00+00:00", "key"',
    "no object": b"[1, 2]",
    "null": b"null",
    "no value": b'{"at": "2024-05-01T09:00:00+00:00", "key": null}',
    "no time": b'{"key": null, "value": "x"}',
    "a number for a time": b'{"at": 17, "key": null, "value": "x"}',
    "a time without a zone": b'{"at": "2024-05-01T09:00:00", "key": null, "value": "x"}',
    "an object for a value": b'{"at": "2024-05-01T09:00:00+00:00", "key": null, "value": {"id": "1"}}',
    "null for a value": b'{"at": "2024-05-01T09:00:00+00:00", "key": null, "value": null}',
    "a list for headers": b'{"at": "2024-05-01T09:00:00+00:00", "key": null, "value": "x", "headers": []}',
    "bytes that are not UTF-8": b'{"at": "2024-05-01T09:00:00+00:00", "key": null, "value": "\xff"}',
    "far too deep": b"[" * 100_000,
}


@pytest.mark.parametrize("line", _DAMAGED.values(), ids=_DAMAGED)
def test_damaged_line_keeps_its_place_and_is_read_as_it_is(tmp_path: Path, line: bytes) -> None:
    """Somebody edited the file: the others are read, and the flow can put this one among the dead letters."""
    topic = TopicFile(tmp_path, NAME, Clock(100))
    topic.append(said("before"))
    with topic.path.open("ab") as file:
        file.write(line + b"\n")
    assert 2 == topic.append(said("after")).offset
    assert 3 == TopicFile(tmp_path, NAME, Clock(100)).append(said("and after")).offset
    before, damaged, *after = everything(topic)
    raw = line.decode("utf-8", "backslashreplace")
    assert ("before", raw, ["after", "and after"]) == (before.value, damaged.value, [m.value for m in after])
    assert (1, timedelta(0)) == (damaged.offset, damaged.arrived.utcoffset())
    letter = read_event(damaged)
    assert isinstance(letter, DeadLetter)
    assert raw == letter.raw


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (
            b'{"format": 1, "topic": "lookfirst.operations", "id": "x"}',
            "holds the topic lookfirst.operations, not",
        ),
        (b'{"format": 2, "topic": "lookfirst.events", "id": "x"}', "has format 2, this release reads 1"),
        (b'{"topic": "lookfirst.events", "id": "x"}', "is not a topic file: its first line is no header"),
        (b"once upon a time", "is not a topic file: its first line is no header"),
        (b"[]", "is not a topic file: its first line is no header"),
        (b"\xff\xfe", "is not a topic file: its first line is no header"),
    ],
)
def test_foreign_file_is_refused_and_left_as_it_is(tmp_path: Path, header: bytes, sentence: str) -> None:
    """Another topic, a newer format, or no topic file at all: one sentence that names the file."""
    path = tmp_path / f"{NAME}.jsonl"
    content = header + b"\nmore\n"
    path.write_bytes(content)
    with pytest.raises(TopicError) as refused:
        TopicFile(tmp_path, NAME)
    assert str(path) in str(refused.value)
    assert sentence in str(refused.value)
    assert content == path.read_bytes()


@settings(deadline=None, print_blob=True, max_examples=40)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=30), min_size=1, max_size=5))
def test_any_text_comes_back_as_it_was(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Line ends of every kind, NUL, quotes and all scripts."""
    topic = TopicFile(tmp_path_factory.mktemp("topic"), NAME)
    topic.append([Outgoing(text, text, {text: text}) for text in texts])
    assert [(text, text, {text: text}) for text in texts] == [
        (message.key, message.value, message.headers) for message in everything(topic)
    ]


@pytest.mark.parametrize(
    "text",
    [
        "a\nb\r\nc\rd",
        "a\u2028b\u2029c\x85d\x0b\x0c",
        "a\0b",
        "\U0001f600",
        "\ud800",
        "a\udfffb",
        '\\\ud800"',
        "\\n",
    ],
    ids=ascii,
)
def test_text_that_breaks_lines_or_encodings_comes_back_as_it_was(tmp_path: Path, text: str) -> None:
    """Also half a character: what cannot be kept is cleaned where events are parsed, not here."""
    topic = TopicFile(tmp_path, NAME)
    topic.append(said(text, "after"))
    assert [text, "after"] == values(topic)
    assert 2 == TopicFile(tmp_path, NAME).end().offset


def test_folder_that_is_a_file_is_told_in_one_sentence(tmp_path: Path) -> None:
    """The folder, or what it is in, cannot be made."""
    (tmp_path / "file").write_text("not a folder")
    for folder in (tmp_path / "file", tmp_path / "file" / "topics"):
        with pytest.raises(TopicError, match="file"):
            TopicFile(folder, NAME)


def test_file_that_is_a_folder_is_told_in_one_sentence(tmp_path: Path) -> None:
    """The file cannot be opened."""
    (tmp_path / f"{NAME}.jsonl").mkdir()
    with pytest.raises(TopicError, match="Cannot open the topic file"):
        TopicFile(tmp_path, NAME)


_FULL = """
import resource, sys
from pathlib import Path
from connectors.message import Outgoing
from connectors.topic_file import TopicFile
from store.schema import TopicError
topic = TopicFile(Path(sys.argv[1]), sys.argv[2])
topic.append([Outgoing(None, "before")])
limit = topic.path.stat().st_size + int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
try:
    topic.append([Outgoing(None, f"{n} " * 50) for n in range(int(sys.argv[4]))])
except TopicError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
topic.append([Outgoing(None, "after")])
"""


@pytest.mark.parametrize(("room", "messages"), [(0, 3), (300, 3), (300, 5_000), (400_000, 5_000)])
def test_full_disk_leaves_none_of_the_messages(tmp_path: Path, room: int, messages: int) -> None:
    """An append is all or none: what was written of it is taken back, and the sentence says what to do."""
    command = [sys.executable, "-c", _FULL, str(tmp_path), NAME, str(room), str(messages)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False)
    assert (0, "") == (ended.returncode, ended.stderr)
    assert f"Cannot append to {tmp_path / NAME}.jsonl" in ended.stdout
    assert ["before", "after"] == values(TopicFile(tmp_path, NAME))


def test_header_names_format_topic_and_an_id_of_its_own(tmp_path: Path) -> None:
    """Two topics of one name are told apart, and opening one again does not change it."""
    one, other = TopicFile(tmp_path / "1", NAME), TopicFile(tmp_path / "2", NAME)
    header = json.loads(one.path.read_text(encoding="utf-8"))
    assert {"format": 1, "topic": NAME, "id": one.id} == header
    assert one.id != other.id
    assert one.id == TopicFile(tmp_path / "1", NAME).id


def test_second_run_on_a_folder_fails_at_once(tmp_path: Path) -> None:
    """The sentence names the folder; once the first has ended the next one may."""
    folder = tmp_path / "recovery"
    with exclusive(folder):
        with pytest.raises(StoreError, match=f"Another run is using {folder}; stop it"), exclusive(folder):
            pytest.fail("two runs hold one folder")
        with exclusive(tmp_path / "other"):
            pass
    with exclusive(folder):
        pass


def test_lock_is_let_go_when_the_run_fails(tmp_path: Path) -> None:
    """An exception inside ends the hold."""
    with pytest.raises(ZeroDivisionError), exclusive(tmp_path):
        raise ZeroDivisionError
    with exclusive(tmp_path):
        pass


def test_folder_that_cannot_be_locked_is_told_in_one_sentence(tmp_path: Path) -> None:
    """A file where the folder should be."""
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(LookfirstError, match="cannot be used"), exclusive(tmp_path / "file"):
        pytest.fail("a file was locked as a folder")


_HOLDING = """
import sys, time
from pathlib import Path
from connectors.lock import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_lock_is_let_go_when_the_process_is_killed(tmp_path: Path, number: signal.Signals) -> None:
    """Nothing has to be cleaned up by hand after a crash."""
    command: Sequence[str] = [sys.executable, "-c", _HOLDING, str(tmp_path)]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert "held\n" == holder.stdout.readline()
        with pytest.raises(StoreError, match="Another run is using"), exclusive(tmp_path):
            pytest.fail("two processes hold one folder")
        holder.send_signal(number)
        holder.wait(10)
    with exclusive(tmp_path):
        pass


def test_utc_is_what_is_written(tmp_path: Path) -> None:
    """The time of appending carries its zone."""
    topic = TopicFile(tmp_path, NAME)
    earliest = datetime.now(UTC)
    topic.append(said("a"))
    (message,) = everything(topic)
    assert earliest <= message.arrived <= datetime.now(UTC)
    assert timedelta(0) == message.arrived.utcoffset()


def test_nobody_sees_what_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full in the middle of an append, while somebody reads: none of its lines is ever read."""
    topic, reader = TopicFile(tmp_path, NAME), TopicFile(tmp_path, NAME)
    topic.append(said("before"))
    seen: list[object] = []
    reading = threading.Thread(
        target=lambda: seen.extend([reader.end().offset, *values(reader), reader.end().offset])
    )
    write = os.pwrite

    def half(descriptor: int, data: memoryview, byte: int) -> int:
        if len(data) < 200:
            reading.start()
            # It waits for the lock, or has read by then what it must not.
            reading.join(0.3)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data[: len(data) - 100], byte)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(TopicError, match="free some space"):
        topic.append(said(*(f"taken back {number}" for number in range(20))))
    reading.join(10)
    assert [1, "before", 1] == seen

"""Machines that will not do what they are told: full disks, folders that cannot be written, newer releases' data.

A disk that fills up is played by a limit on the size of a file, which every writer of the process comes up
against: Python, the database and the engine's own store.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import lancedb
import pytest

from connectors.lock import exclusive
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line
from store import open_store
from store.arrow import FORMAT_KEY, arrow_schema
from store.schema import FORMAT, STORE_FORMAT, LookfirstError, StoreError, TopicError, load_settings
from store.schema.change import ChangeRow
from tests.conftest import REPOSITORY
from tests.sample import EVENTS, SAMPLE, opened
from tests.workplace import START, Script, rows_of

_LIBC = ctypes.CDLL(None)
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2

SAME_ANSWER = {"LOOKFIRST_JUDGE": "tests.judges:event_only"}
"""A judge whose answers do not depend on how far another flow happens to be."""

Before = Callable[[], None]


def lookfirst(
    *arguments: str, before: Before | None = None, settings: Mapping[str, str] = SAME_ANSWER
) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own; `before` is done in it first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOOKFIRST_", "RUST_"))}
    return subprocess.run(
        [sys.executable, "-m", "flows.cli.main", *arguments],
        cwd=REPOSITORY,
        env={**kept, **settings},
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=before,
    )


def full_at(size: int) -> Before:
    """No file may grow beyond so many bytes."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def told(ended: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a run that failed."""
    assert 1 == ended.returncode, ended.stderr
    assert "" == ended.stdout
    (sentence,) = ended.stderr.splitlines()
    return sentence


def event(number: int, text: str) -> str:
    """One line of input."""
    fields = {"id": str(number), "source": "chat", "thread": f"t{number % 5}", "at": START.isoformat()}
    return json.dumps({**fields, "author": {"id": "anna", "name": "Anna"}, "text": text})


def written(path: Path, *lines: str) -> str:
    """A file of these lines, by name."""
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def run_through(data: Path, *options: str) -> dict[str, int]:
    """A run with nothing in its way."""
    ended = lookfirst("run", "--data", str(data), "--json", *options)
    assert (0, "") == (ended.returncode, ended.stderr)
    counts: dict[str, int] = json.loads(ended.stdout)
    return counts


def assert_whole(data: Path, scratch: Path) -> None:
    """The store holds what an uninterrupted run makes of the same events, and no decision was made twice."""
    (scratch / "topics").mkdir(parents=True)
    shutil.copy(data / "topics" / "lookfirst.events.jsonl", scratch / "topics")
    run_through(scratch)
    assert rows_of(opened(scratch)) == rows_of(opened(data))
    decisions = opened(data).record.arrow("decisions")["decision"].to_pylist()
    assert len(decisions) == len(set(decisions))


def grown(path: Path) -> int:
    """The size of a file now (bytes)."""
    return path.stat().st_size


@pytest.mark.slow
def test_a_disk_that_is_full_before_there_is_a_store(tmp_path: Path) -> None:
    """The store cannot be made: one sentence names it, and with space again the next run makes it."""
    data = tmp_path / "data"
    arguments = ("--from", str(SAMPLE / "events.jsonl"))
    for size in (60, 400):
        sentence = told(lookfirst("run", "--data", str(data), *arguments, before=full_at(size)))
        assert sentence.startswith(f"The store in {data / 'store'} cannot be opened: ")
        assert "File too large" in sentence
        assert "free some space" in sentence
    assert EVENTS == run_through(data, *arguments)["decided"]


@pytest.mark.slow
def test_a_disk_that_is_full_when_an_event_is_appended(tmp_path: Path) -> None:
    """Events that find no space are not taken, none of them; given again, each is decided once."""
    data, topic = tmp_path / "data", tmp_path / "data" / "topics" / "lookfirst.events.jsonl"
    run_through(data, "--from", written(tmp_path / "first", event(0, "please do this. " * 10_000)))
    more = written(tmp_path / "more", *(event(number, "please do that") for number in range(1, 30)))
    size = grown(topic)
    sentence = told(lookfirst("run", "--data", str(data), "--from", more, before=full_at(size + 1_000)))
    assert f"Cannot append to {topic}: File too large; free some space." == sentence
    assert size == grown(topic)
    assert 29 == run_through(data, "--from", more)["decided"]
    assert_whole(data, tmp_path / "again")


@pytest.mark.slow
def test_a_disk_that_is_full_when_a_decision_is_appended(tmp_path: Path) -> None:
    """Decisions that find no space were not made: their events are decided by the next run."""
    data = tmp_path / "data"
    given = ("--from", str(SAMPLE / "events.jsonl"))
    sentence = told(lookfirst("run", "--data", str(data), *given, before=full_at(200_000)))
    operations = data / "topics" / "lookfirst.operations.jsonl"
    assert f"Cannot append to {operations}: File too large; free some space." == sentence
    run_through(data)
    assert EVENTS == opened(data).record.count("events")
    assert_whole(data, tmp_path / "again")


@pytest.mark.slow
def test_a_disk_that_is_full_when_the_store_is_written(tmp_path: Path) -> None:
    """A commit that finds no space ends the run; the topics have everything, and the next run commits it."""
    data = tmp_path / "data"
    run_through(data, "--from", str(SAMPLE / "events.jsonl"))
    shutil.rmtree(data / "store")
    shutil.rmtree(data / "recovery")
    open_store(data / "store", create=True)
    sentence = told(lookfirst("run", "--data", str(data), before=full_at(40_000)))
    assert sentence.startswith(f"The store in {data / 'store'} cannot be written: ")
    assert "free some space" in sentence
    assert 0 == run_through(data)["decided"]
    assert_whole(data, tmp_path / "again")


@pytest.mark.slow
def test_a_disk_that_is_full_when_a_dead_letter_is_appended(tmp_path: Path) -> None:
    """A dead letter that finds no space is written by the next run, once."""
    data = tmp_path / "data"
    # A letter quotes what was a quotation already: it is nearly twice as long as the event was.
    unreadable = '"' * 300_000
    given = written(tmp_path / "given", event(0, "please do this"), unreadable)
    sentence = told(lookfirst("run", "--data", str(data), "--from", given, before=full_at(800_000)))
    letters = data / "topics" / "lookfirst.dead-letters.jsonl"
    assert f"Cannot append to {letters}: File too large; free some space." == sentence
    run_through(data)
    topic = DataFolder.at(data, load_settings()).topic("dead-letters")
    found, _ = topic.read(topic.start, 10)
    assert [unreadable] == [json.loads(message.value)["raw"] for message in found]
    assert_whole(data, tmp_path / "again")


@pytest.mark.slow
@pytest.mark.parametrize("size", [20_000, 60_000])
def test_a_disk_that_is_full_when_the_state_is_kept(tmp_path: Path, size: int) -> None:
    """The engine's own store finds no space, when made or later: one sentence, and nothing is lost."""
    data = tmp_path / "data"
    given = written(tmp_path / "given", *(event(number, " ") for number in range(12)))
    sentence = told(lookfirst("run", "--data", str(data), "--paced", "--from", given, before=full_at(size)))
    assert f"The state in {data / 'recovery'}" in sentence
    assert "disk I/O error; free some space" in sentence
    run_through(data)
    assert 12 == opened(data).record.count("events")
    assert_whole(data, tmp_path / "again")


def bound_by_permissions() -> None:
    """Take from root, for the program that is started, the right to pass over permissions; others have none."""
    if os.geteuid() == 0:
        for right in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if _LIBC.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0):
                raise PermissionError("root cannot be bound by permissions here")


@pytest.mark.slow
def test_a_folder_that_may_only_be_read(tmp_path: Path) -> None:
    """Whoever may only read a data folder is told so by `run`, and is shown its tasks all the same."""
    data = tmp_path / "data"
    run_through(data, "--from", str(SAMPLE / "events.jsonl"))
    for path in (data, *data.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        sentence = told(lookfirst("run", "--data", str(data), before=bound_by_permissions))
        tasks = lookfirst("tasks", "--data", str(data), "--json", "--limit", "1000", before=bound_by_permissions)
    finally:
        for path in (data, *data.rglob("*")):
            path.chmod(0o755)
    assert f"The data folder {data / 'recovery'} cannot be used: Permission denied." == sentence
    assert (0, "") == (tasks.returncode, tasks.stderr)
    assert opened(data).record.count("tasks") == len(tasks.stdout.splitlines())


@pytest.mark.parametrize("command", [["run"], ["tasks"], ["why", "t-1"], ["search", "review"]])
@pytest.mark.parametrize(
    "place", ["file", "below a file", "/proc/lookfirst", "n" * 300], ids=["file", "below a file", "proc", "long"]
)
def test_a_folder_that_cannot_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str, command: list[str]
) -> None:
    """A file, a path below one, and what the system will not have as a folder: one sentence, no traceback."""
    (tmp_path / "file").write_text("not a folder")
    data = tmp_path / ("file/data" if place == "below a file" else place)
    code = main([*command, "--data", str(data)])
    (sentence,) = capsys.readouterr().err.splitlines()
    assert code in (1, 2)
    assert "unforeseen" not in sentence
    assert "not a folder" == (tmp_path / "file").read_text()


def scripted(data: Path) -> None:
    """A run over a data folder, with the judge of the tests."""
    settings = load_settings()
    EmbeddedRun(DataFolder.at(data, settings), settings, Script()).run(
        [Line(event(1, "please do this"), "made:1")]
    )


def refused(data: Path) -> str:
    """The sentence with which a run is refused."""
    with pytest.raises(LookfirstError) as refusal:
        scripted(data)
    return str(refusal.value)


def test_a_topic_of_a_newer_release(tmp_path: Path) -> None:
    """A topic whose header has another format is left alone; the sentence names both formats."""
    topic = tmp_path / "topics" / "lookfirst.operations.jsonl"
    topic.parent.mkdir()
    header = json.dumps({"format": FORMAT + 1, "topic": "lookfirst.operations", "id": "i"}) + "\n"
    topic.write_text(header)
    assert (
        f"{topic} has format {FORMAT + 1}, this release reads {FORMAT}; use the release that wrote it."
        == refused(tmp_path)
    )
    assert header == topic.read_text()


def test_a_store_of_a_newer_release(tmp_path: Path) -> None:
    """A table with another format is left alone; the sentence names both formats, the table and the remedy."""
    store = tmp_path / "store"
    schema = arrow_schema(ChangeRow).with_metadata({FORMAT_KEY: str(STORE_FORMAT + 1).encode()})
    lancedb.connect(store).create_table("changes", schema=schema)
    sentence = refused(tmp_path)
    assert (
        f"Table changes of the store in {store} has format {STORE_FORMAT + 1}, this release reads {STORE_FORMAT}"
        in sentence
    )
    assert "use the release that wrote it" in sentence


def test_state_of_a_newer_release(tmp_path: Path) -> None:
    """State of another format is neither read nor written; the sentence names both formats and the remedy."""
    scripted(tmp_path)
    (tmp_path / "recovery" / "format").write_text(f"{STORE_FORMAT + 1}\n")
    before = {path: path.read_bytes() for path in (tmp_path / "topics").iterdir()}
    sentence = refused(tmp_path)
    state = tmp_path / "recovery"
    assert f"The state in {state} has format {STORE_FORMAT + 1}, this release reads {STORE_FORMAT}" in sentence
    assert "use the release that wrote it, or delete the folder" in sentence
    assert before == {path: path.read_bytes() for path in (tmp_path / "topics").iterdir()}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EACCES, errno.EOPNOTSUPP])
def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Where a lock cannot be had, neither a run nor an append goes on without it."""
    topic = DataFolder.at(tmp_path, load_settings()).topic("events")

    def refuses(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuses)
    with pytest.raises(StoreError, match=f"lock cannot be locked .{os.strerror(number)}"), exclusive(tmp_path):
        pytest.fail("it went on without a lock")
    with pytest.raises(TopicError, match=f"{topic.path}: {os.strerror(number)}"):
        topic.append([])

"""The embedded run: everything together, on files."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from connectors.lock import exclusive
from connectors.topic_file import TopicFile
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.judge.rules import RulesJudge
from store.commit import StoreWriter
from store.memory import Memory
from store.schema import DeadLetter, EventRow, Settings, StoreError, load_settings
from tests.sample import EVENTS, opened, run_embedded, sample_lines
from tests.workplace import Script, create_or_match, rows_of


def lines_of(count: int, threads: int = 7) -> list[Line]:
    """Small events over a few threads."""
    return [
        Line(
            json.dumps(
                {
                    "id": str(number),
                    "source": "chat",
                    "thread": f"t{number % threads}",
                    "at": "2024-05-01T09:00:00Z",
                    "author": {"id": f"u{number % 3}", "name": f"Person {number % 3}"},
                    "text": f"please do number {number} of ABC-{number}",
                }
            ),
            f"made:{number}",
        )
        for number in range(count)
    ]


def scripted(path: Path, lines: list[Line], settings: Settings | None = None) -> EmbeddedRun:
    """A finished run with a judge that creates one task a thread."""
    effective = settings or load_settings()
    run = EmbeddedRun(DataFolder.at(path, effective), effective, Script(rule=create_or_match))
    run.run(lines)
    return run


def dead_letters(path: Path) -> list[DeadLetter]:
    """All dead letters of a data folder."""
    topic = DataFolder.at(path, load_settings()).topic("dead-letters")
    found, _ = topic.read(topic.start, 10_000)
    return [DeadLetter.model_validate_json(message.value) for message in found]


def test_free_run_decides_every_event_once(tmp_path: Path) -> None:
    """Without pacing every event is decided once, and one thread has one task."""
    run = scripted(tmp_path, lines_of(100))
    assert (100, 100, 0) == (run.tally.read, run.tally.decided, run.tally.dropped)
    assert (7, 100) == (opened(tmp_path).record.count("tasks"), opened(tmp_path).record.count("events"))


def test_store_is_a_function_of_the_operations_topic(tmp_path: Path) -> None:
    """Deleting the store and running again replays the topic: all row tables are equal."""
    run_embedded(tmp_path, sample_lines(), paced=False)
    tables = ("changes", "tasks", "people", "sessions", "decisions", "events", "positions")
    before = rows_of(opened(tmp_path), tables)
    shutil.rmtree(tmp_path / "store")
    again = run_embedded(tmp_path, [], paced=False)
    assert (0, EVENTS) == (again.decided, again.applied)
    assert before == rows_of(opened(tmp_path), tables)


def test_shuffled_and_doubled_topic_gives_the_same_rows(tmp_path: Path) -> None:
    """Every message of the topic twice and in any order: the row tables are equal, the second copies dropped."""
    run_embedded(tmp_path / "first", sample_lines(), paced=False)
    topic = tmp_path / "first" / "topics" / "lookfirst.operations.jsonl"
    header, *messages = topic.read_bytes().splitlines(keepends=True)
    doubled = messages * 2
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    random.Random(seed).shuffle(doubled)
    other = tmp_path / "second" / "topics" / "lookfirst.operations.jsonl"
    other.parent.mkdir(parents=True)
    other.write_bytes(header + b"".join(doubled))
    tally = run_embedded(tmp_path / "second", [], paced=False)
    assert (2 * len(messages), len(messages)) == (tally.applied, tally.dropped)
    assert rows_of(opened(tmp_path / "first")) == rows_of(opened(tmp_path / "second"))


def test_lost_recovery_state_decides_nothing_again(tmp_path: Path) -> None:
    """Without its recovery folder a run reads everything again, and everything was decided before."""
    scripted(tmp_path, lines_of(60))
    shutil.rmtree(tmp_path / "recovery")
    run = scripted(tmp_path, [])
    assert (60, 0, 60) == (run.tally.read, run.tally.decided, run.tally.repeated)


def test_decisions_that_were_not_applied_are_not_asked_for_again(tmp_path: Path) -> None:
    """Emitted and not applied when everything else is lost: the topic is read first, no judge is asked."""
    scripted(tmp_path, lines_of(40))
    shutil.rmtree(tmp_path / "recovery")
    shutil.rmtree(tmp_path / "store")
    run = scripted(tmp_path, [])
    assert (40, 0, 40) == (run.tally.read, run.tally.decided, run.tally.applied)


def test_broken_lines_become_dead_letters(tmp_path: Path) -> None:
    """A line that is no event goes to the dead letters whole, with its reason and where it came from."""
    broken = ["{broken", "[]", '{"id": "1"}', '{"id":"1","source":"s","thread":"t","at":"2024-05-01T09:00:00"}']
    run = scripted(tmp_path, [*(Line(text, f"in:{n}") for n, text in enumerate(broken)), *lines_of(3)])
    assert (7, 3, 4) == (run.tally.read, run.tally.decided, run.tally.unreadable_events)
    letters = dead_letters(tmp_path)
    assert broken == [letter.raw for letter in letters]
    assert ["in:0", "in:1", "in:2", "in:3"] == [letter.origin for letter in letters]
    assert "not JSON" in letters[0].reason
    assert "source: Field required" in letters[2].reason
    assert "timezone" in letters[3].reason


def test_refused_answers_park_the_event(tmp_path: Path) -> None:
    """An event whose answers are refused goes to the dead letters whole, and the run ends."""
    settings = load_settings()
    judge = Script(rule=lambda event, view: create_or_match(event, view).model_copy(update={"proposals": ()}))
    run = EmbeddedRun(DataFolder.at(tmp_path, settings), settings, judge)
    run.run(lines_of(3))
    assert (3, 0, 3) == (run.tally.read, run.tally.decided, run.tally.parked)
    assert ["R40"] * 3 == [letter.reason.split(": ")[1] for letter in dead_letters(tmp_path)]
    outcomes = opened(tmp_path).record.arrow("events")["outcome"].to_pylist()
    assert ["parked"] * 3 == outcomes


def test_unreadable_operation_is_skipped_and_kept(tmp_path: Path) -> None:
    """A line on the operations topic that is none goes to the dead letters; the rest is applied."""
    settings = load_settings()
    topic = DataFolder.at(tmp_path, settings).topic("operations")
    with topic.path.open("a", encoding="utf-8") as file:
        file.write('{"at": "2024-05-01T09:00:00+00:00", "key": null, "value": "{}"}\n')
    run = scripted(tmp_path, lines_of(10))
    assert (10, 10) == (run.tally.decided, run.tally.applied)
    assert ["lookfirst.operations"] == [letter.coordinates.topic for letter in dead_letters(tmp_path)]
    assert 11 == opened(tmp_path).record.positions()[0].next_offset


def test_second_run_on_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """Two runs never share a folder: the second one says so at once."""
    with exclusive(tmp_path / "recovery"), pytest.raises(StoreError, match="Another run is using"):
        scripted(tmp_path, lines_of(1))


def test_store_ahead_of_its_topic_is_refused(tmp_path: Path) -> None:
    """A topic file that was cut, or another one, is an error that names both, not a silent difference."""
    scripted(tmp_path, lines_of(10))
    topic = tmp_path / "topics" / "lookfirst.operations.jsonl"
    whole = topic.read_bytes()
    topic.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]))
    with pytest.raises(StoreError, match=r"to offset 10, but .* ends at 3"):
        scripted(tmp_path, [])
    topic.unlink()
    TopicFile(tmp_path / "topics", "lookfirst.operations")
    with pytest.raises(StoreError, match="put the right topic back"):
        scripted(tmp_path, [])


def test_stop_leaves_the_rest_for_the_next_run(tmp_path: Path) -> None:
    """A stop in the middle ends in order; the next run reads on where it stopped, nothing twice."""
    settings = load_settings(wave=2, source_batch=4)
    stopped = EmbeddedRun(DataFolder.at(tmp_path, settings), settings, Script())

    def rule(event: object, view: object) -> object:
        if len(judge.views) == 10:
            stopped.stop()
        return create_or_match(event, view)  # type: ignore[arg-type]

    judge = Script(rule=rule)  # type: ignore[arg-type]
    stopped.judge = judge
    stopped.run(lines_of(200))
    rest = scripted(tmp_path, lines_of(200))
    first, second = stopped.tally, rest.tally
    assert 10 <= first.decided < 200
    assert 200 == first.decided + second.decided
    assert first.produced + 200 == first.read + second.read


def test_memory_that_fails_lags_and_catches_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is a copy: while it fails the record goes on, the run says so, and the next run catches up."""

    def fails(*_: object) -> int:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(Memory, "project", fails)
        run = scripted(tmp_path, lines_of(20))
    assert "no space left" in str(run.tally.memory_failure)
    assert 7 == opened(tmp_path).record.count("tasks")
    assert 0 == opened(tmp_path).tables["memory"].count_rows()
    scripted(tmp_path, lines_of(21))
    assert 7 == opened(tmp_path).tables["memory"].count_rows()


def test_failing_store_ends_the_run_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the store ends the run with that fault, and a later run completes the work."""

    def fails(*_: object) -> None:
        raise StoreError("The disk is full.")

    with monkeypatch.context() as patched:
        patched.setattr(StoreWriter, "commit", fails)
        with pytest.raises(StoreError, match="The disk is full"):
            scripted(tmp_path, lines_of(20))
    run = scripted(tmp_path, lines_of(20))
    assert 20 == opened(tmp_path).record.count("events") == run.tally.applied


def test_every_naughty_string_runs_to_the_end(tmp_path: Path, shared_data: Path) -> None:
    """Hostile strings as text, author, thread and subject: all decided or dead letters, and found by thread."""
    strings = json.loads((shared_data / "naughty_strings.json").read_text(encoding="utf-8"))
    lines = [
        Line(
            json.dumps(
                {
                    "id": f"{number}",
                    "source": "chat",
                    "thread": text,
                    "at": "2024-05-01T09:00:00Z",
                    "author": {"id": text, "name": text},
                    "subject": text,
                    "text": text,
                }
            ),
            f"naughty:{number}",
        )
        for number, text in enumerate(strings)
    ]
    settings = load_settings()
    run = EmbeddedRun(DataFolder.at(tmp_path, settings), settings, RulesJudge())
    tally = run.run(lines)
    assert len(strings) == tally.read == tally.decided + tally.unreadable_events
    assert sum(not text for text in strings) == tally.unreadable_events
    record = opened(tmp_path).record
    found = record.listed("events", EventRow, newest="at", limit=10_000)
    assert {text.replace("\0", "\ufffd") for text in strings if text} == {row.thread for row in found}

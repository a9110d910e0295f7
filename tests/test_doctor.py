"""The doctor: counts that add up, every fault found with its remedy, and nothing changed by looking."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from connectors.lock import exclusive
from connectors.message import Outgoing
from connectors.topic_file import TopicFile
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.diagnosis import Check, EventCounts, Report
from flows.doctor import examine
from flows.embedded import EmbeddedRun, Line
from flows.rebuild import rebuild_memory, rebuild_store
from store.schema import StoreError, load_settings
from tests.process import finish, start
from tests.sample import EVENTS, LINES, REPEATS, opened, run_embedded, sample_lines
from tests.test_embedded import lines_of, scripted
from tests.workplace import Script, create_or_match

Captured = pytest.CaptureFixture[str]


def look(path: Path) -> Report:
    """What the doctor finds."""
    settings = load_settings()
    return examine(DataFolder.at(path, settings), settings)


def checks(report: Report, state: str) -> dict[str, Check]:
    """The checks of one state by name."""
    return {check.name: check for check in report.checks if check.state == state}


def on_disk(path: Path) -> dict[str, str]:
    """Every file under a folder with a hash of its bytes."""
    return {
        str(found.relative_to(path)): hashlib.sha256(found.read_bytes()).hexdigest()
        for found in sorted(path.rglob("*"))
        if found.is_file()
    }


def append(path: Path, topic: str, *values: str) -> None:
    """Append raw values to a topic of a folder."""
    DataFolder.at(path, load_settings()).topic(topic).append([Outgoing(None, value) for value in values])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished folder: the sample, run once."""
    path = tmp_path_factory.mktemp("sound")
    run_embedded(path, sample_lines(), paced=False)
    return path


@pytest.fixture
def copied(sound: Path, tmp_path: Path) -> Path:
    """A copy of it to spoil."""
    shutil.copytree(sound, tmp_path / "data")
    return tmp_path / "data"


def test_a_sound_folder_is_well_and_stays_as_it_is(sound: Path) -> None:
    """The sample after a run: the counts add up, nothing is wrong, and no byte of the folder has changed."""
    before = on_disk(sound)
    report = look(sound)
    assert before == on_disk(sound)
    assert {} == checks(report, "wrong")
    assert report.is_well
    assert EventCounts(messages=LINES, decided=EVENTS, unreadable=0, repeats=REPEATS) == report.events
    assert report.operations
    assert (EVENTS, EVENTS, EVENTS, 0) == (
        report.operations.messages,
        report.operations.applied,
        report.operations.decisions,
        report.operations.missing,
    )
    assert [("record", 0), ("memory", 0)] == [(place.part, place.lag) for place in report.places]
    assert EVENTS == {table.name: table.rows for table in report.tables}["events"]
    assert all(topic.id and topic.bytes for topic in report.topics)


def test_every_message_is_accounted_for(tmp_path: Path) -> None:
    """Decided, repeated, parked, unreadable and waiting messages, each counted once, add up to the topic."""
    settings = load_settings()
    refusing = Script(rule=lambda event, view: create_or_match(event, view).model_copy(update={"proposals": ()}))
    EmbeddedRun(DataFolder.at(tmp_path, settings), settings, refusing).run(lines_of(4))
    scripted(tmp_path, [*lines_of(10)[4:], *lines_of(6)[4:], Line("{broken", "in:1"), Line("[]", "in:2")])
    append(tmp_path, "events", *(line.text for line in lines_of(13)[10:]), lines_of(12)[11].text, "{broken too")
    report = look(tmp_path)
    assert EventCounts(messages=19, decided=6, parked=4, unreadable=2, repeats=3, waiting=4) == report.events
    assert report.events
    assert report.events.adds_up
    assert ["dead letters", "events"] == sorted(checks(report, "note"))
    assert "`lookfirst run` decides what waits" == checks(report, "note")["events"].remedy
    kinds = {kind.reason: kind.count for kind in report.letters}
    assert 4 == sum(count for reason, count in kinds.items() if "refused" in reason)
    assert 6 == sum(kinds.values())
    scripted(tmp_path, [])
    again = look(tmp_path).events
    assert EventCounts(messages=19, decided=9, parked=4, unreadable=3, repeats=3) == again


def test_decisions_that_are_not_applied_yet_count_as_decided(copied: Path) -> None:
    """Without a store the topic still tells what was decided; that the store is missing is wrong."""
    shutil.rmtree(copied / "store")
    report = look(copied)
    assert EventCounts(messages=LINES, decided=EVENTS, repeats=REPEATS) == report.events
    assert ["store"] == list(checks(report, "wrong"))
    assert "`lookfirst rebuild store`" == checks(report, "wrong")["store"].remedy
    assert not (copied / "store").exists()


def test_second_decisions_are_counted(copied: Path) -> None:
    """A Decision that was dropped has its row, and is told."""
    topic = DataFolder.at(copied, load_settings()).topic("operations")
    found, _ = topic.read(topic.start, 1)
    topic.append([Outgoing(found[0].key, found[0].value)])
    behind = checks(look(copied), "note")
    assert "Of the operations topic the memory has still to follow: 1." == behind["positions"].said
    run_embedded(copied, [], paced=False)
    report = look(copied)
    assert report.operations
    assert (EVENTS + 1, 1, 0) == (
        report.operations.decisions,
        report.operations.dropped,
        report.operations.missing,
    )
    assert report.is_well


def first_id(path: Path, table: str, column: str = "id") -> str:
    """One id of a table."""
    found: str = sorted(opened(path).tables[table].to_arrow()[column].to_pylist())[0]
    return found


def deleted(table: str, column: str = "id") -> Callable[[Path], None]:
    """Deletes a row by hand."""

    def spoil(path: Path) -> None:
        opened(path).tables[table].delete(f"{column} = '{first_id(path, table, column)}'")

    return spoil


def changed(table: str, column: str, value: Any, key: str = "id") -> Callable[[Path], None]:
    """Changes a row by hand."""

    def spoil(path: Path) -> None:
        where = f"{key} = '{first_id(path, table, key)}'"
        opened(path).tables[table].update(where=where, values={column: value})

    return spoil


def doubled(table: str) -> Callable[[Path], None]:
    """Adds a row a second time."""

    def spoil(path: Path) -> None:
        rows = opened(path).tables[table]
        rows.add(rows.to_arrow().slice(0, 1))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (deleted("tasks"), {"tasks listed", "memory"}),
        (changed("tasks", "title", "nobody said this"), {"tasks folded", "memory"}),
        (doubled("tasks"), {"unique rows"}),
        (deleted("decisions"), {"operations", "events and decisions"}),
        (doubled("decisions"), {"unique rows", "one decision"}),
        (deleted("events"), {"events and decisions"}),
        (changed("events", "decision", "d-other"), {"events and decisions"}),
        (doubled("changes"), {"unique rows"}),
    ],
)
def test_a_spoilt_record_is_found_and_rebuilt(
    copied: Path, spoil: Callable[[Path], None], found: set[str]
) -> None:
    """A row of the record deleted, changed or doubled by hand is wrong; after the remedy nothing is."""
    spoil(copied)
    wrong = checks(look(copied), "wrong")
    assert found == set(wrong)
    assert "`lookfirst rebuild store`" in {check.remedy for check in wrong.values()}
    rebuild_store(DataFolder.at(copied, load_settings()), load_settings())
    assert {} == checks(look(copied), "wrong")


@pytest.mark.parametrize(
    ("spoil", "found"),
    [
        (deleted("memory", "row_id"), {"memory"}),
        (changed("memory", "text", "something else", "row_id"), {"memory"}),
        (changed("memory", "identifiers", ["ticket:X-1"], "row_id"), {"memory"}),
        (doubled("memory"), {"unique rows"}),
    ],
)
def test_a_spoilt_memory_is_found_and_rebuilt(
    copied: Path, spoil: Callable[[Path], None], found: set[str]
) -> None:
    """A row of memory deleted, changed or doubled by hand is wrong; after the remedy nothing is."""
    spoil(copied)
    wrong = checks(look(copied), "wrong")
    assert found == set(wrong)
    assert {"`lookfirst rebuild memory`"} == {check.remedy for check in wrong.values()}
    rebuild_memory(DataFolder.at(copied, load_settings()), load_settings())
    assert {} == checks(look(copied), "wrong")


def test_topics_that_do_not_fit_are_told(copied: Path) -> None:
    """An operations topic of another id or cut short, an events topic cut short, and a file that is no topic."""
    topics = copied / "topics"
    operations, events = topics / "lookfirst.operations.jsonl", topics / "lookfirst.events.jsonl"
    whole = {path: path.read_bytes() for path in (operations, events)}

    operations.write_bytes(b"".join(whole[operations].splitlines(keepends=True)[:40]))
    assert "the file was cut" in checks(look(copied), "wrong")["positions"].said
    operations.unlink()
    assert "is not here" in checks(look(copied), "wrong")["positions"].said
    assert not operations.exists()
    TopicFile(topics, "lookfirst.operations")
    assert "their ids differ" in checks(look(copied), "wrong")["positions"].said
    operations.write_bytes(whole[operations])

    events.write_bytes(b"".join(whole[events].splitlines(keepends=True)[:40]))
    assert "of messages the topic does not hold" in checks(look(copied), "wrong")["events"].said
    header, first, second, *rest = whole[events].splitlines(keepends=True)
    events.write_bytes(b"".join([header, second, first, *rest]))
    assert "2 event rows are of messages" in checks(look(copied), "wrong")["events"].said
    events.write_bytes(b"no topic\n")
    assert "is not a topic file" in checks(look(copied), "wrong")["events topic"].said


def test_an_events_topic_that_is_gone_is_wrong(copied: Path) -> None:
    """The store knows events whose topic is not there: that is not nothing."""
    (copied / "topics" / "lookfirst.events.jsonl").unlink()
    told = checks(look(copied), "wrong")["events"]
    assert "topic they came from is not here" in told.said
    assert "put the topic file back" == told.remedy


def test_a_damaged_table_is_told(copied: Path) -> None:
    """A table that cannot be opened, and one whose data is gone, are wrong and lead to the same remedy."""
    for data in (copied / "store" / "tasks.lance" / "data").iterdir():
        data.unlink()
    assert "`lookfirst rebuild store`" == checks(look(copied), "wrong")["tables"].remedy
    for manifest in (copied / "store" / "tasks.lance" / "_versions").iterdir():
        manifest.write_bytes(b"nothing")
    assert "`lookfirst rebuild store`" == checks(look(copied), "wrong")["store"].remedy


def test_what_an_interrupted_command_left_is_told(copied: Path) -> None:
    """Folders of an interrupted rebuild or upkeep are noted with the command that removes them."""
    (copied / "store.rebuilding").mkdir()
    (copied / "recovery.backup").mkdir()
    notes = [check.remedy for check in look(copied).checks if check.name == "leftovers"]
    assert ["`lookfirst rebuild store` removes it", "`lookfirst maintain` removes it"] == notes


def test_unindexed_rows_and_versions_are_noted(tmp_path: Path) -> None:
    """Tables that nobody has optimised for long are noted, with the command that does it."""
    scripted(tmp_path, lines_of(60))
    settings = load_settings(unindexed_rows=1, fragments=2, versions_for=0.0)
    report = examine(DataFolder.at(tmp_path, settings), settings)
    assert {"indexes", "versions"} <= set(checks(report, "note"))
    assert report.is_well


def test_nothing_is_made_where_nothing_is(tmp_path: Path, capsys: Captured) -> None:
    """A folder that is missing or empty is one sentence and exit code 1, and stays missing or empty."""
    (tmp_path / "empty").mkdir()
    for name in ("empty", "missing"):
        with pytest.raises(StoreError, match="There is nothing in"):
            look(tmp_path / name)
        assert 1 == main(["doctor", "--data", str(tmp_path / name)])
        out, err = capsys.readouterr()
        assert ("", 1) == (out, err.count("\n"))
    assert ["empty"] == [path.name for path in tmp_path.iterdir()]
    assert [] == list((tmp_path / "empty").iterdir())


def test_the_command_tells_people_and_programs(
    copied: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 0 when nothing is wrong, 1 when something is; settings with their source, mistyped ones noted."""
    monkeypatch.setenv("LOOKFIRST_WAVE", "32")
    monkeypatch.setenv("LOOKFIRST_WAVES", "32")
    with exclusive(copied / "recovery"):
        assert 0 == main(["doctor", "--data", str(copied)])
    out, _ = capsys.readouterr()
    assert "LOOKFIRST_WAVE=32 (environment; default 64)" in out
    assert "LOOKFIRST_WAVES begins like a setting and is none" in out
    counts = f"{LINES} messages = {EVENTS} decided + 0 parked + 0 unreadable + {REPEATS} repeats + 0 waiting"
    assert counts in out
    assert "A run is using" in out
    assert "Nothing is wrong." in out
    deleted("memory", "row_id")(copied)
    assert 1 == main(["doctor", "--data", str(copied), "--json"])
    found = json.loads(capsys.readouterr()[0])
    assert ["memory"] == [check["name"] for check in found["checks"] if check["state"] == "wrong"]
    assert [("wave", 32, "environment")] == [
        (each["name"], each["value"], each["source"]) for each in found["settings"] if each["name"] == "wave"
    ]
    assert {"python", "lookfirst", "bytewax", "lancedb", "pyarrow", "pydantic"} == set(found["versions"])
    assert not found["running"]


@pytest.mark.slow
def test_a_moving_folder_is_never_wrong(tmp_path: Path) -> None:
    """Looked at again and again while a run decides: it is seen to be running, and nothing is ever wrong."""
    source = tmp_path / "events.jsonl"
    source.write_text("".join(f"{line.text}\n" for line in lines_of(600, threads=200)), encoding="utf-8")
    process = start(tmp_path / "data", "--from", str(source), LOOKFIRST_EPOCH="0.1", LOOKFIRST_FRAGMENTS="4")
    seen: list[Report] = []
    while process.poll() is None:
        try:
            seen.append(look(tmp_path / "data"))
        except StoreError as error:
            assert "There is nothing in" in str(error)  # noqa: PT017  the run has not begun
        assert {} == {name: check.said for each in seen[-1:] for name, check in checks(each, "wrong").items()}
    assert 600 == finish(process)["decided"]
    assert any(each.running and each.events and 0 < each.events.decided < 600 for each in seen)
    last = look(tmp_path / "data")
    assert EventCounts(messages=600, decided=600) == last.events
    assert last.is_well

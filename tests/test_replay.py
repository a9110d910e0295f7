"""Bringing back what was given up, and nothing else, however often."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from connectors.lock import exclusive
from connectors.message import Incoming, Outgoing
from connectors.topic_file import TopicFile
from flows.apply import record_positions
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.doctor import examine
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.judge.contract import Answer
from flows.maintain import writer_of
from flows.parse import outgoing_letter, read_operation
from flows.reapply import Outcome, Reapplied, RowsChanged, reapply
from flows.replay import Fate, Replay
from flows.span import Wanted
from flows.stopping import Stop
from flows.tally import Tally
from flows.travel import travelling
from store.derive import Applied
from store.schema import (
    Coordinates,
    DeadLetter,
    Delete,
    Event,
    EventRow,
    FailureClass,
    StoreError,
    View,
    load_settings,
)
from store.schema.identity import decision_id
from store.tables import RECORD
from tests.sample import opened
from tests.strategies import cuts, histories
from tests.workplace import START, Script, answer, create_or_match, event, rows_of

Captured = pytest.CaptureFixture[str]


def unwell(event: Event, view: View) -> Answer:
    """A judge whose every answer is refused."""
    return answer()


def folder(path: Path) -> DataFolder:
    """The data folder in a folder."""
    return DataFolder.at(path, load_settings())


def run(path: Path, *lines: Line, well: bool = True) -> Tally:
    """A run that ends, with a judge that is well or not."""
    settings = load_settings()
    judge = Script(rule=create_or_match if well else unwell)
    return EmbeddedRun(folder(path), settings, judge).run(lines)


def said(number: int, text: str = "order a printer", thread: str = "t") -> Line:
    """One message."""
    made = event(f"{text} {number}", id=str(number), thread=thread)
    return Line(made.model_dump_json(exclude_defaults=True), f"feed:{number}")


def replayed(path: Path, way: str = "letters", **wanted: object) -> dict[str, int]:
    """The counts of a replay that are not 0."""
    replay = Replay.over(folder(path), opened(path), Wanted(**wanted), lambda *_: None)  # type: ignore[arg-type]
    fates = replay.from_letters() if way == "letters" else replay.from_events()
    return {str(fate): count for fate, count in fates.items() if count}


def all_of(topic: TopicFile) -> list[Incoming]:
    """Every message of a topic."""
    return topic.read(topic.start, 1_000)[0]


def outcomes(path: Path) -> Counter[str]:
    """Outcomes of the events in the record."""
    return Counter(opened(path).record.arrow("events")["outcome"].to_pylist())


def letter(raw: str, offset: int = 0, topic: str = "lookfirst.events") -> Outgoing:
    """A message of the dead-letter topic."""
    place = Coordinates(topic=topic, offset=offset)
    return outgoing_letter(
        DeadLetter(reason="said so", failure=FailureClass.CONTENT, coordinates=place, origin="in:1", raw=raw)
    )


@pytest.mark.promise("L5", "Q3")
def test_a_parked_event_is_decided_once_the_judge_is_well(tmp_path: Path, capsys: Captured) -> None:
    """Parked is its state until it is replayed; then it is decided, one row, and the event is parked no more."""
    assert 1 == run(tmp_path, said(1), well=False).parked
    (parked,) = opened(tmp_path).record.listed("events", EventRow, newest="at", limit=9)
    assert ("parked", None, 0) == (parked.outcome, parked.decision, opened(tmp_path).record.count("tasks"))
    assert (0, 0) == (run(tmp_path).read, run(tmp_path).parked)

    assert 0 == main(["replay", "dead-letters", "--data", str(tmp_path)])
    assert "1 gone through = 1 brought back\n" in capsys.readouterr().out
    assert 1 == run(tmp_path).decided
    (decided,) = opened(tmp_path).record.listed("events", EventRow, newest="at", limit=9)
    assert ("created", decision_id(parked.id)) == (decided.outcome, decided.decision)
    assert 1 == opened(tmp_path).record.count("tasks")

    assert 0 == main(["replay", "dead-letters", "--data", str(tmp_path)])
    out, err = capsys.readouterr()
    assert "1 gone through = 0 brought back + 1 decided\n" in out
    assert "There is nothing to bring back among the dead letters.\n" == err
    assert 2 == folder(tmp_path).topic("events").end().offset


@pytest.mark.promise("L5")
def test_an_event_is_brought_back_once_for_each_time_it_was_given_up(tmp_path: Path) -> None:
    """While it waits a replay leaves it alone; parked again, with two letters by now, it comes back once more."""
    run(tmp_path, said(1), well=False)
    assert {"brought back": 1} == replayed(tmp_path)
    counts = examine(folder(tmp_path), load_settings()).events
    assert counts
    assert (2, 1, 1, 0) == (counts.messages, counts.parked, counts.waiting, counts.repeats)
    assert {"waiting": 1} == replayed(tmp_path)
    assert {"waiting": 2} == replayed(tmp_path, "events")
    run(tmp_path, well=False)
    assert {"brought back": 1, "repeated": 1} == replayed(tmp_path)
    assert {"waiting": 2} == replayed(tmp_path)
    assert 1 == run(tmp_path).decided
    assert {"decided": 2} == replayed(tmp_path)
    assert {"decided": 3} == replayed(tmp_path, "events")


def test_a_message_that_is_brought_back_says_where_it_comes_from(tmp_path: Path) -> None:
    """Its key is that of its thread, its origin is kept through every replay, and it names what it repeats."""
    run(tmp_path, said(1), well=False)
    replayed(tmp_path)
    run(tmp_path, well=False)
    replayed(tmp_path, "events")
    first, *again = all_of(folder(tmp_path).topic("events"))
    assert {"origin": "feed:1"} == first.headers
    assert [
        {"origin": "feed:1", "replayed": "lookfirst.dead-letters:0:0"},
        {"origin": "feed:1", "replayed": "lookfirst.events:0:1"},
    ] == [message.headers for message in again]
    assert {"default/t"} == {message.key for message in again}


def test_a_letter_that_stands_twice_is_brought_back_once(tmp_path: Path) -> None:
    """A crash may have written a letter twice, and an event may have been produced and parked twice."""
    run(tmp_path, said(1), said(1), said(2), well=False)
    letters = folder(tmp_path).topic("dead-letters")
    assert 3 == letters.end().offset
    repeated = all_of(letters)[0]
    letters.append([Outgoing(None, repeated.value)])
    assert {"brought back": 2, "repeated": 2} == replayed(tmp_path)
    assert 2 == run(tmp_path).decided


def test_a_decision_on_its_way_counts(tmp_path: Path) -> None:
    """Decided and not applied: the operations topic is read, and the event is left alone."""
    run(tmp_path, said(1), well=False)
    shutil.copytree(tmp_path / "store", tmp_path / "older")
    replayed(tmp_path)
    run(tmp_path)
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "older").rename(tmp_path / "store")
    assert Counter(parked=1) == outcomes(tmp_path)
    assert {"decided": 1} == replayed(tmp_path)
    assert {"decided": 2} == replayed(tmp_path, "events")


def test_what_cannot_be_brought_back_is_counted(tmp_path: Path, capsys: Captured) -> None:
    """No event still, no message of the events topic, no dead letter at all: each stays, and is told."""
    run(tmp_path, Line("{broken", "in:1"), said(1))
    letters = folder(tmp_path).topic("dead-letters")
    letters.append([letter("{}", 3, "lookfirst.operations"), Outgoing(None, "no letter")])
    before = folder(tmp_path).topic("events").end()
    assert 0 == main(["replay", "dead-letters", "--data", str(tmp_path), "--json"])
    out, err = capsys.readouterr()
    assert {
        "gone_through": 3,
        "brought_back": 0,
        "decided": 0,
        "waiting": 0,
        "repeated": 0,
        "unreadable": 1,
        "elsewhere": 1,
        "damaged": 1,
        "gone": 0,
        "left": 0,
        "not_asked": 0,
        "dry_run": False,
        "stopped": False,
    } == json.loads(out)
    assert 1 == err.count("\n")
    assert 0 == main(["replay", "dead-letters", "--data", str(tmp_path)])
    out = capsys.readouterr().out
    assert "never were messages of the events topic, and cannot be replayed" in out
    assert "3 gone through = 0 brought back + 1 still unreadable + 1 of another topic + 1 damaged\n" in out
    assert before == folder(tmp_path).topic("events").end()


@pytest.mark.parametrize("way", ["letters", "events"])
def test_what_an_older_release_could_not_read_is_brought_back(tmp_path: Path, way: str) -> None:
    """A dead letter that is an event for this release: it never had a row, and its place says that it was left."""
    folder(tmp_path).store(create=True)
    events = folder(tmp_path).topic("events")
    newer = event("water the plants", id="9", thread="garden")
    raw = newer.model_dump_json()
    offset = events.append([Outgoing(newer.key, raw)])
    folder(tmp_path).topic("dead-letters").append([letter(raw, offset.offset)])
    assert {"brought back": 1} == replayed(tmp_path, way)
    assert {"waiting": 2 if way == "events" else 1} == replayed(tmp_path, way)
    assert newer.id == json.loads(all_of(events)[-1].value)["id"]


@pytest.mark.parametrize("way", ["letters", "events"])
def test_only_what_is_asked_for_is_brought_back(tmp_path: Path, way: str) -> None:
    """By thread and by time of arrival; what is not asked for is counted as that."""
    run(tmp_path, said(1, thread="a"), said(2, thread="b"), Line("{broken", "in:3"), well=False)
    assert {"not asked for": 3} == replayed(tmp_path, way, since=datetime(9000, 1, 1, tzinfo=UTC))
    assert {"not asked for": 3} == replayed(tmp_path, way, thread="c")
    assert {"brought back": 1, "not asked for": 2} == replayed(tmp_path, way, thread="b")
    left = {"waiting": 1, "brought back": 1, "still unreadable": 1}
    # The events topic holds the message that was brought back, too.
    expected = {**left, "waiting": 2} if way == "events" else left
    assert expected == replayed(tmp_path, way, since=START)


def test_parked_events_come_back_without_their_letters(tmp_path: Path) -> None:
    """The record knows what was parked; decided events, and those nobody has read yet, are left alone."""
    run(tmp_path, said(1, thread="a"), said(2, thread="b"), well=False)
    run(tmp_path, said(3, thread="c"))
    folder(tmp_path).topic("dead-letters").path.unlink()
    unread = said(4, thread="d").text
    folder(tmp_path).topic("events").append([Outgoing("default/d", unread)])
    assert {"brought back": 2, "decided": 1, "waiting": 1} == replayed(tmp_path, "events")
    assert 3 == run(tmp_path).decided
    assert 4 == outcomes(tmp_path).total()
    assert 0 == outcomes(tmp_path)["parked"]
    assert {"decided": 6} == replayed(tmp_path, "events")


def test_a_long_topic_is_gone_through_in_parts(tmp_path: Path) -> None:
    """More messages than are read at once: each is counted once, and progress ends at the end."""
    store = folder(tmp_path).store(create=True)
    events, letters = folder(tmp_path).topic("events"), folder(tmp_path).topic("dead-letters")
    raws = [said(number).text for number in range(300)]
    events.append([Outgoing("default/t", raw) for raw in raws])
    letters.append([letter(raw, offset) for offset, raw in enumerate(raws)])
    seen: list[tuple[str, int, int]] = []

    def watch(topic: str, done: int, total: int) -> None:
        seen.append((topic, done, total))

    fates = Replay.over(folder(tmp_path), store, Wanted(), watch).from_letters()
    assert {Fate.BROUGHT_BACK: 300} == {fate: count for fate, count in fates.items() if count}
    assert [("lookfirst.dead-letters", 256, 300), ("lookfirst.dead-letters", 300, 300)] == seen[:2]
    assert raws == [message.value for message in all_of(events)[300:]]
    assert {"waiting": 300} == replayed(tmp_path)
    assert {"waiting": 600} == replayed(tmp_path, "events")


@pytest.mark.parametrize(
    ("since", "said"),
    [
        ("2026-03-02T09:00:00", "has no zone; write it like"),
        ("yesterday", "is no time; write it like"),
        ("0001-01-01T00:00:00+14:00", "is no time"),
    ],
)
def test_a_time_needs_a_zone(tmp_path: Path, since: str, said: str, capsys: Captured) -> None:
    """A time without a zone is refused in a sentence."""
    assert 2 == main(["replay", "events", "--since", since, "--data", str(tmp_path)])
    err = capsys.readouterr().err
    assert said in err
    assert 1 == err.count("\n")


def test_a_date_is_its_midnight_in_utc(tmp_path: Path, capsys: Captured) -> None:
    """Of two messages around a midnight in UTC, the date asks for the later one."""
    folder(tmp_path).store(create=True)
    topics = tmp_path / "topics"
    times = iter([datetime(2026, 3, 1, 23, 59, tzinfo=UTC), datetime(2026, 3, 2, 0, 0, tzinfo=UTC)])
    events = TopicFile(topics, "lookfirst.events", lambda: next(times))
    for number in (1, 2):
        events.append([Outgoing("default/t", said(number).text)])
    for since in ("2026-03-02", "2026-03-02T01:00:00+01:00", "2026-03-02T00:00:00Z"):
        assert 0 == main(["replay", "events", "--json", "--since", since, "--data", str(tmp_path)])
        counts = json.loads(capsys.readouterr().out)
        assert (2, 1, 1) == (counts["gone_through"], counts["not_asked"], counts["waiting"])


def test_nothing_to_do_is_a_sentence(tmp_path: Path, capsys: Captured) -> None:
    """An empty topic is no error; a missing store is one, with its remedy, and nothing is made."""
    folder(tmp_path).store(create=True)
    for what, told in (("dead-letters", "There are no dead letters.\n"), ("events", "There are no messages.\n")):
        assert 0 == main(["replay", what, "--data", str(tmp_path)])
        assert ("", told) == capsys.readouterr()
    assert 1 == main(["replay", "events", "--data", str(tmp_path / "none")])
    assert "lookfirst run" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("way", ["letters", "events"])
def test_only_what_stands_at_the_named_offsets_is_brought_back(tmp_path: Path, way: str) -> None:
    """From an offset on; what is before it is counted as not asked for, and nothing is beyond the end."""
    run(tmp_path, said(1), said(2), said(3), well=False)
    assert {"not asked for": 3} == replayed(tmp_path, way, offsets={0: 9})
    assert {"not asked for": 2, "brought back": 1} == replayed(tmp_path, way, offsets={0: 2})
    expected = {"not asked for": 1, "waiting": 1, "brought back": 1}
    if way == "events":
        expected["waiting"] += 1
    assert expected == replayed(tmp_path, way, offsets={0: 1})
    assert ["3", "2"] == [json.loads(each.value)["id"] for each in all_of(folder(tmp_path).topic("events"))[3:]]


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("5", "'5' is no place; write --offsets like"),
        ("0:1,2:0", "--offsets names partition 2, and the topic file"),
    ],
)
def test_offsets_that_are_none_are_refused(tmp_path: Path, typed: str, told: str, capsys: Captured) -> None:
    """A place that cannot be, and a partition that is not there, are a sentence each."""
    folder(tmp_path).store(create=True)
    for what in ("events", "dead-letters", "operations"):
        assert 2 == main(["replay", what, "--offsets", typed, "--data", str(tmp_path)])
        err = capsys.readouterr().err
        assert told in err
        assert 1 == err.count("\n")


@pytest.mark.parametrize("what", ["dead-letters", "events"])
def test_a_dry_run_counts_and_appends_nothing(tmp_path: Path, what: str, capsys: Captured) -> None:
    """The counts are those of the replay that follows, and it says that it was none."""
    run(tmp_path, said(1), said(1), said(2), Line("{broken", "in:3"), well=False)
    events = folder(tmp_path).topic("events")
    before = events.end()
    assert 0 == main(["replay", what, "--dry-run", "--data", str(tmp_path)])
    out, err = capsys.readouterr()
    assert "4 gone through = 2 would be brought back + 1 repeated + 1 still unreadable\n" in out
    assert "This was a dry run: nothing was appended.\n" == err
    counts = []
    for more in (["--dry-run"], []):
        assert 0 == main(["replay", what, "--json", *more, "--data", str(tmp_path)])
        counts.append(json.loads(capsys.readouterr().out))
        if more:
            assert before == events.end()
    assert [True, False] == [each.pop("dry_run") for each in counts]
    assert counts[0] == counts[1]
    assert before.offset + 2 == events.end().offset


def test_headers_that_are_part_of_an_event_come_along(tmp_path: Path) -> None:
    """A CloudEvent whose attributes are headers is brought back with them, as letter and as message."""
    store = folder(tmp_path).store(create=True)
    headers = {
        "ce_specversion": "1.0",
        "ce_type": "said",
        "ce_id": "7",
        "ce_source": "chat",
        "ce_subject": "garden",
    }
    events, letters = folder(tmp_path).topic("events"), folder(tmp_path).topic("dead-letters")
    raw = json.dumps({"at": "2026-03-02T09:00:00Z", "text": "water the plants"})
    place = events.append([Outgoing(None, raw, {**headers, "origin": "feed:7"})])
    refused = DeadLetter(
        reason="said so",
        failure=FailureClass.CONTENT,
        coordinates=place,
        origin="feed:7",
        raw=raw,
        headers=headers,
    )
    letters.append([outgoing_letter(refused)])
    assert store is not None
    assert {"brought back": 1} == replayed(tmp_path)
    assert {"waiting": 2} == replayed(tmp_path, "events")
    run(tmp_path, well=False)
    assert {"brought back": 1, "repeated": 1} == replayed(tmp_path, "events")
    for again, came in zip(all_of(events)[1:], ("dead-letters:0:0", "events:0:1"), strict=True):
        assert (raw, "default/garden") == (again.value, again.key)
        assert {**headers, "origin": "feed:7", "replayed": f"lookfirst.{came}"} == again.headers
    assert 1 == run(tmp_path).decided


def cut_letter(raw: str, place: Coordinates, **fields: Any) -> DeadLetter:
    """A letter of a message that was too long to travel."""
    whole = DeadLetter(reason="said so", failure=FailureClass.CONTENT, coordinates=place, raw=raw, **fields)
    made = travelling(whole, 1_000, 20_000)
    assert made.cut is not None
    return made


def test_a_letter_that_was_cut_comes_back_whole(tmp_path: Path) -> None:
    """The whole is read where it stands; where something else stands, or nothing, it is no longer kept."""
    folder(tmp_path).store(create=True)
    events, letters = folder(tmp_path).topic("events"), folder(tmp_path).topic("dead-letters")
    long = [event("order a printer " * 2_000, id=str(number), thread=f"t{number}") for number in range(3)]
    raws = [each.model_dump_json() for each in long]
    for raw in raws:
        events.append([Outgoing(None, raw, {"origin": "feed"})])
    at = [Coordinates(topic=events.name, offset=offset) for offset in (0, 0, 99)]
    letters.append([outgoing_letter(cut_letter(raw, place)) for raw, place in zip(raws, at, strict=True)])
    expected = {"brought back": 1, "no longer kept": 2}
    dry = Replay.over(folder(tmp_path), opened(tmp_path), Wanted(), lambda *_: None)
    dry.dry_run = True
    assert expected == {str(fate): count for fate, count in dry.from_letters().items() if count}
    assert expected == replayed(tmp_path)
    (again,) = all_of(events)[3:]
    assert (raws[0], "default/t0", "feed") == (again.value, again.key, again.headers["origin"])


def test_a_parked_event_that_was_cut_comes_back_whole(tmp_path: Path) -> None:
    """Its letter is an event with head and tail of its text, which alone would be another event's words."""
    run(tmp_path, said(1, "order a printer " * 2_000), well=False)
    events, letters = folder(tmp_path).topic("events"), folder(tmp_path).topic("dead-letters")
    parked = DeadLetter.model_validate_json(all_of(letters)[0].value)
    letters.path.unlink()
    short = event("order", id="1")
    cut = cut_letter(event("order a printer " * 2_000 + " 1", id="1").text, parked.coordinates).cut
    made = parked.model_copy(update={"raw": short.model_dump_json(), "cut": cut})
    folder(tmp_path).topic("dead-letters").append([outgoing_letter(made)])
    assert {"brought back": 1} == replayed(tmp_path)
    first, again = all_of(events)
    assert first.value == again.value


def test_parked_events_that_their_topic_no_longer_holds_are_told(tmp_path: Path, capsys: Captured) -> None:
    """The record knows them, the topic does not: they are counted, and come back from their letters."""
    run(tmp_path, said(1, thread="a"), said(2, thread="b"), well=False)
    folder(tmp_path).topic("events").path.unlink()
    assert {"no longer kept": 2} == replayed(tmp_path, "events")
    assert {"no longer kept": 1} == replayed(tmp_path, "events", thread="a")
    assert {} == replayed(tmp_path, "events", since=datetime(9000, 1, 1, tzinfo=UTC))
    assert 0 == main(["replay", "events", "--data", str(tmp_path)])
    assert "and their topic does not hold them any more" in capsys.readouterr().out
    assert {"brought back": 2} == replayed(tmp_path)


def test_a_replay_that_is_stopped_says_what_it_did(tmp_path: Path) -> None:
    """Between two batches it ends; the rest is counted as left, and the next replay brings it back."""
    folder(tmp_path).store(create=True)
    events, letters = folder(tmp_path).topic("events"), folder(tmp_path).topic("dead-letters")
    raws = [said(number).text for number in range(300)]
    events.append([Outgoing("default/t", raw) for raw in raws])
    letters.append([letter(raw, offset) for offset, raw in enumerate(raws)])
    replay = Replay.over(folder(tmp_path), opened(tmp_path), Wanted(), lambda *_: None)
    replay.pace = lambda: replay.stop.stop() if replay.fates[Fate.BROUGHT_BACK] else None
    assert {"brought back": 256, "left": 44} == {
        str(f): count for f, count in replay.from_letters().items() if count
    }
    assert {"waiting": 256, "brought back": 44} == replayed(tmp_path)


# Operations, applied once more.


def everything(path: Path) -> dict[str, list[Any]]:
    """Every table as plain values, memory too."""
    store = opened(path)
    memory = store.tables["memory"].to_arrow().sort_by("row_id").to_pylist()
    return {**rows_of(store, tuple(RECORD)), "memory": memory}


def reapplied(path: Path, **wanted: Any) -> Reapplied:
    """Operations applied to the store of a folder once more."""
    return reapply(folder(path), load_settings(), Wanted(**wanted), lambda *_: None)


def met(done: Reapplied) -> dict[str, int]:
    """The counts that are not 0."""
    return {str(outcome): count for outcome, count in done.outcomes.items() if count}


def changed(done: Reapplied) -> dict[str, RowsChanged]:
    """The tables that have changed."""
    return {name: rows for name, rows in done.tables.items() if rows != RowsChanged()}


def filled(path: Path) -> None:
    """A folder with tasks of two threads, a parked event, and a deletion by hand."""
    run(path, *(said(number, thread="ab"[number % 2]) for number in range(6)))
    run(path, said(6, thread="c"), well=False)
    (task,) = opened(path).record.thread_tasks([("default", "a")])["default", "a"]
    gone = Delete(id="gone", workspace="default", thread="a", row=task.id, seen=None, by="anna")
    folder(path).topic("operations").append([Outgoing("default/a", gone.model_dump_json())])
    run(path)


@pytest.mark.promise("T7")
@settings(max_examples=8)
@given(history=histories(events=4, by_hand=3, parked=2), marks=cuts(12))
def test_operations_applied_twice_change_nothing(
    tmp_path_factory: pytest.TempPathFactory, history: list[Applied], marks: list[int]
) -> None:
    """Whatever they are and however they were cut at first: every table stays, and all are counted as repeated."""
    path = tmp_path_factory.mktemp("again")
    store = folder(path).store(create=True)
    operations = folder(path).topic("operations")
    operations.append([Outgoing(None, each.raw) for each in [*history, *history[:1]]])
    read = [read_operation(incoming) for incoming in all_of(operations)]
    writer = writer_of(store, load_settings())
    for begin, end in zip([0, *marks], [*marks, len(read)], strict=True):
        if batch := read[begin:end]:
            writer.commit(batch, record_positions(batch, operations.name, operations.id))  # type: ignore[arg-type]
    writer.follow()
    before = everything(path)
    done = reapplied(path)
    assert before == everything(path)
    assert not done.is_changed
    assert {"applied before", "second decisions"} >= met(done).keys()
    assert len(read) == done.outcomes.total()
    shutil.rmtree(path)


def test_a_store_that_was_spoilt_is_as_its_operations_say(tmp_path: Path, capsys: Captured) -> None:
    """Rows that are gone or were changed by hand are right again, and the summary says which tables had them."""
    filled(tmp_path)
    before = everything(tmp_path)
    tables = opened(tmp_path).tables
    tasks, events = before["tasks"], [row["id"] for row in before["events"] if row["decision"]]
    tables["tasks"].update(where=f"id = '{tasks[0]['id']}'", values={"title": "something else"})
    tables["events"].delete(f"id = '{events[0]}'")
    tables["events"].update(where=f"id = '{events[1]}'", values={"outcome": "parked"})
    tables["people"].delete("true")
    tables["decisions"].delete(f"event = '{events[2]}'")
    tables["changes"].delete(f"row_id = '{tasks[0]['id']}' AND field = 'title'")
    tables["memory"].delete("true")
    assert before != everything(tmp_path)

    assert 0 == main(["replay", "operations", "--json", "--data", str(tmp_path)])
    said = json.loads(capsys.readouterr().out)
    assert (8, 2, 6) == (said["gone_through"], said["applied"], said["repeated"])
    assert {
        "tasks": {"added": 0, "changed": 1, "removed": 0},
        "people": {"added": 1, "changed": 0, "removed": 0},
        "events": {"added": 1, "changed": 1, "removed": 0},
        "sessions": {"added": 0, "changed": 0, "removed": 0},
        "decisions": {"added": 1, "changed": 0, "removed": 0},
        "changes": {"added": 1, "changed": 0, "removed": 0},
    } == said["tables"]
    after = everything(tmp_path)
    assert [tasks[0]["id"]] == [row["row_id"] for row in after.pop("memory")]
    before.pop("memory")
    assert before == after


def test_what_was_not_applied_is_left_to_apply(tmp_path: Path, capsys: Captured) -> None:
    """Positions stay where they are: what lies beyond them is counted, and the next run applies it."""
    run(tmp_path, said(1))
    shutil.copytree(tmp_path / "store", tmp_path / "older")
    run(tmp_path, said(2, thread="u"), Line("{broken", "in:3"))
    folder(tmp_path).topic("operations").append([Outgoing(None, "{broken")])
    newer = tmp_path / "newer"
    (tmp_path / "store").rename(newer)
    (tmp_path / "older").rename(tmp_path / "store")
    before = everything(tmp_path)
    assert 0 == main(["replay", "operations", "--data", str(tmp_path)])
    out, err = capsys.readouterr()
    assert "3 gone through = 0 applied + 1 applied before + 2 left to apply\n" in out
    assert "Nothing has changed: the store was as these operations say.\n" == err
    assert before == everything(tmp_path)
    run(tmp_path)
    assert 2 == opened(tmp_path).record.count("events")
    assert {"applied before": 2, "unreadable": 1} == met(reapplied(tmp_path))


def test_only_operations_that_are_asked_for_are_applied_again(tmp_path: Path) -> None:
    """By thread, by time and by offset; a dry run counts the same and writes nothing."""
    filled(tmp_path)
    opened(tmp_path).tables["tasks"].delete("true")
    assert {"applied before": 4, "not asked for": 4} == met(reapplied(tmp_path, thread="a"))
    assert {"applied before": 2, "not asked for": 6} == met(reapplied(tmp_path, offsets={0: 6}))
    assert {"not asked for": 8} == met(reapplied(tmp_path, since=datetime(9000, 1, 1, tzinfo=UTC)))
    spoilt = everything(tmp_path)
    assert [] == spoilt["tasks"]
    dry = reapply(folder(tmp_path), load_settings(), Wanted(thread="b"), lambda *_: None, dry_run=True)
    assert {"applied before": 3, "not asked for": 5} == met(dry)
    assert spoilt == everything(tmp_path)
    done = reapplied(tmp_path, thread="b")
    assert {"applied before": 3, "not asked for": 5} == met(done)
    assert {"tasks": RowsChanged(added=1)} == changed(done)


def test_operations_are_not_applied_again_beside_a_run(tmp_path: Path, capsys: Captured) -> None:
    """A folder that is used is refused in a sentence, a dry run reads it; without a store there is nothing."""
    run(tmp_path, said(1))
    with exclusive(folder(tmp_path).recovery):
        assert 1 == main(["replay", "operations", "--data", str(tmp_path)])
        assert "Another run is using" in capsys.readouterr().err
        assert 0 == main(["replay", "operations", "--dry-run", "--data", str(tmp_path)])
    assert "This was a dry run: nothing was applied.\n" == capsys.readouterr().err
    assert 1 == main(["replay", "operations", "--data", str(tmp_path / "none")])
    assert "There is no store" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    folder(tmp_path).topic("operations").path.unlink()
    with pytest.raises(StoreError, match="put the right topic back"):
        reapplied(tmp_path)


def test_an_event_row_never_goes_back_to_an_earlier_parking(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parked twice, stopped between the two: the row stays at the second."""
    run(tmp_path, said(1), well=False)
    replayed(tmp_path)
    run(tmp_path, well=False)
    before = everything(tmp_path)
    assert [1] == [row["seq"] for row in before["events"]]
    monkeypatch.setattr("flows.reapply._MESSAGES", 1)
    stop = Stop()

    def after_the_first(topic: str, done: int, total: int) -> None:
        stop.stop()

    done = reapply(folder(tmp_path), load_settings(), Wanted(), after_the_first, stop=stop)
    assert Counter({Outcome.REPEATED: 1}) == +done.outcomes
    assert before == everything(tmp_path)

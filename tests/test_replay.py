"""Bringing back what was given up, and nothing else, however often."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from connectors.message import Incoming, Outgoing
from connectors.topic_file import TopicFile
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.doctor import examine
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.judge.contract import Answer
from flows.parse import outgoing_letter
from flows.replay import Fate, Replay, Wanted
from flows.tally import Tally
from store.schema import Coordinates, DeadLetter, Event, EventRow, FailureClass, View, load_settings
from store.schema.identity import decision_id
from tests.sample import opened
from tests.workplace import START, Script, answer, create_or_match, event

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
        "not_asked": 0,
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

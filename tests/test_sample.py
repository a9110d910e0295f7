"""The sample that `make demo` runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from flows.intake import Line
from flows.tally import Tally
from store import Store
from store.schema import Decision, Event, load_settings, parse_event, parse_message
from tests.sample import EVENTS, LINES, REPEATS, SAMPLE, opened, record_of, run_embedded, sample_lines
from tests.workplace import rows_of


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Tally]:
    """A paced run of the sample."""
    path = tmp_path_factory.mktemp("sample")
    return path, run_embedded(path, sample_lines(), paced=True)


@pytest.fixture(scope="module")
def store(run: tuple[Path, Tally]) -> Store:
    """The store that the run has filled."""
    return opened(run[0])


def test_sample_is_what_its_page_says() -> None:
    """200 events of chat, mail, issues and meetings over six weeks, two of them produced twice, some late."""
    events = [_event(line) for line in sample_lines()]
    assert (EVENTS, LINES) == (len({event.uid for event in events}), len(events))
    assert {"message", "mail", "comment", "meeting"} == {event.kind for event in events}
    assert {"slack", "mail", "github", "meeting"} == {event.source for event in events}
    days = [event.at.date() for event in events]
    assert 39 == (max(days) - min(days)).days
    page = (SAMPLE / "README.md").read_text(encoding="utf-8")
    assert f"{EVENTS} events in {LINES} lines" in page
    assert [] == [event.thread for event in events if not _is_on(page, event.thread)]


def _is_on(page: str, thread: str) -> bool:
    return f"`{thread}`" in page


def test_paced_run_gives_the_expected_record(store: Store) -> None:
    """A paced run of the sample gives the record that stands beside it, to the row."""
    expected = json.loads((SAMPLE / "expected.json").read_text(encoding="utf-8"))
    assert expected == record_of(store)


def test_counts_add_up(run: tuple[Path, Tally]) -> None:
    """What came in is what was decided, decided before, parked or unreadable."""
    tally = run[1]
    assert (LINES, LINES, EVENTS, REPEATS, 0, 0) == (
        tally.produced,
        tally.read,
        tally.decided,
        tally.repeated,
        tally.parked,
        tally.unreadable_events,
    )


@pytest.mark.promise("D3")
def test_second_run_writes_nothing_new(run: tuple[Path, Tally], store: Store) -> None:
    """The whole sample again over the same folder: all of it was decided before, and no table changes."""
    tables = ("changes", "tasks", "people", "sessions", "decisions", "events")
    before = rows_of(store, tables)
    again = run_embedded(run[0], sample_lines(), paced=True)
    assert (0, LINES, 0) == (again.decided, again.repeated, again.written)
    assert before == rows_of(opened(run[0]), tables)


@pytest.mark.promise("U9")
@pytest.mark.parametrize(
    ("said", "state", "due"),
    [
        ("Stadtwerke Kiel", "done", "2026-03-18"),
        ("Amendment 17", "done", "2026-03-31"),
        ("PORT-119", "done", None),
    ],
)
def test_late_old_mail_changes_nothing(store: Store, said: str, state: str, due: str | None) -> None:
    """Mails that say "blocked", "moved" and "on hold" arrive when newer news is there: state and date stay."""
    (task,) = _about(store, said)
    assert (state, due) == (task["state"], task["due"])


@pytest.mark.promise("U4")
def test_called_off_and_on_again(store: Store) -> None:
    """Called off and on again, once within a minute: one row with both in its history, and it took place."""
    for said in ("launch review", "pier demo"):
        (task,) = _about(store, said)
        assert "done" == task["state"]
        assert len(task["events"]) >= 4


@pytest.mark.promise("U1")
@pytest.mark.parametrize(
    "twins",
    [
        ("SR-2023-052", "SR-2023-053"),
        ("Amendment 16", "Amendment 17"),
        ("Rev A", "Rev B"),
        ("INV-2026-014", "INV-2026-015"),
        ("PORT-118", "PORT-119"),
        ("第2版", "第3版"),
    ],
)
def test_near_twins_stay_apart(store: Store, twins: tuple[str, str]) -> None:
    """Two tasks that differ in a number or a letter are two rows, and news of one never touches the other."""
    left, right = (_about(store, said) for said in twins)
    assert (1, 1) == (len(left), len(right))
    assert set() == set(left[0]["events"]) & set(right[0]["events"])


@pytest.mark.promise("L12")
def test_last_line_of_the_minutes_becomes_a_task(store: Store) -> None:
    """Minutes of several thousand characters promise something in their last line: a task, and later done."""
    minutes = next(event for event in map(_event, sample_lines()) if event.thread == "weekly/2026-03-23")
    assert 6_000 < len(minutes.text) < load_settings().segment_characters
    (task,) = _about(store, "life jackets")
    assert minutes.text.splitlines()[-1] == task["body"]
    assert ["weekly/2026-03-23#note-095", "ops/4102#146"] == task["events"]


@pytest.mark.promise("D12")
def test_repeat_of_finished_work_is_no_task(store: Store) -> None:
    """The certificate was renewed two weeks before somebody asks for it again: nothing, matched."""
    (task,) = _about(store, "TLS certificate")
    assert ("done", "matched") == (task["state"], record_of(store)["events"]["general/0001#141"])


def _about(store: Store, said: str) -> list[dict[str, Any]]:
    """The tasks whose own words say this."""
    return [task for task in record_of(store)["tasks"] if said in task["body"]]


def _event(line: Line) -> Event:
    return parse_event(line.text)


def test_what_the_page_calls_wrong_is_wrong(store: Store) -> None:
    """The page of the sample tells what the rules make of five events: so they do."""
    page = (SAMPLE / "README.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `(\d+)` .+? \| (.+?) \|", page, re.MULTILINE)
    outcomes = {key.rpartition("#")[2].strip("<")[:3]: made for key, made in record_of(store)["events"].items()}
    kinds = {"a task": "created", "nothing new": "matched", "nothing;": "not_a_task", "a repeat": "matched"}
    said = {number: next(kind for words, kind in kinds.items() if made.startswith(words)) for number, made in told}
    assert 5 == len(said)
    assert said == {number: outcomes[number] for number in said}


def test_decisions_keep_what_was_visible(run: tuple[Path, Tally], store: Store) -> None:
    """Each Decision on the topic names its event, the reads with their outcomes, and an operation."""
    rows = store.record.arrow("decisions").to_pylist()
    messages = [parse_message(row["message"]) for row in rows]
    assert EVENTS == len(messages)
    for message in messages:
        assert isinstance(message, Decision)
        assert {"text", "thread", "standby_tasks", "standby_people"} <= {read.name for read in message.view.reads}

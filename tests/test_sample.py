"""The sample that `make demo` runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.tally import Tally
from store import Store
from store.schema import Decision, parse_event, parse_message
from tests.sample import SAMPLE, opened, record_of, run_embedded, sample_lines
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
    """There are at least 60 events of chat, mail and a meeting, in three languages, one of them produced twice."""
    events = [parse_event(line.text) for line in sample_lines()]
    assert 60 <= len({event.uid for event in events}) == len(events) - 1
    assert {"message", "mail", "meeting"} <= {event.kind for event in events}
    assert {"slack", "mail", "meeting"} == {event.source for event in events}


def test_paced_run_gives_the_expected_record(store: Store) -> None:
    """A paced run of the sample gives the record that stands beside it, to the row."""
    expected = json.loads((SAMPLE / "expected.json").read_text(encoding="utf-8"))
    assert expected == record_of(store)


def test_counts_add_up(run: tuple[Path, Tally]) -> None:
    """What came in is what was decided, decided before, parked or unreadable."""
    tally = run[1]
    assert (69, 69, 68, 1, 0, 0) == (
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
    assert (0, 69, 0) == (again.decided, again.repeated, again.written)
    assert before == rows_of(opened(run[0]), tables)


def _tasks(store: Store) -> dict[str, dict[str, Any]]:
    return {task["title"]: task for task in record_of(store)["tasks"]}


@pytest.mark.promise("U9")
def test_late_old_mail_changes_nothing(store: Store) -> None:
    """The mail of 10 March that says "blocked" arrives a week late: the offer stays sent."""
    offer = _tasks(store)["Das Angebot für die Stadtwerke Kiel bis Mittwoch schicken"]
    assert ("done", "2026-03-18") == (offer["state"], offer["due"])


@pytest.mark.promise("U4")
def test_called_off_and_on_again(store: Store) -> None:
    """Called off and on again within a minute: one row with both in its history, and it took place."""
    reviews = [task for title, task in _tasks(store).items() if "launch review" in title]
    assert ["done"] == [task["state"] for task in reviews]
    assert len(reviews[0]["events"]) >= 3


def test_nearly_identical_reports_stay_apart(store: Store) -> None:
    """SR-2023-052 and -053 differ in a digit: news of one never touches the other."""
    states = {}
    for title, task in _tasks(store).items():
        for report in ("SR-2023-052", "SR-2023-053"):
            if report in title:
                states[report] = task["state"]
    assert {"SR-2023-052": "in_progress", "SR-2023-053": "done"} == states


def test_decisions_keep_what_was_visible(run: tuple[Path, Tally], store: Store) -> None:
    """Each Decision on the topic names its event, the reads with their outcomes, and an operation."""
    rows = store.record.arrow("decisions").to_pylist()
    messages = [parse_message(row["message"]) for row in rows]
    assert 68 == len(messages)
    for message in messages:
        assert isinstance(message, Decision)
        assert {"text", "thread", "standby_tasks", "standby_people"} <= {read.name for read in message.view.reads}

"""Stores that are deleted, put back from a copy, or swapped: what can be mended is, the rest is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line, produced
from flows.judge.contract import Answer
from store.schema import Event, StoreError, View, load_settings
from tests.sample import opened
from tests.workplace import START, Script, answer, create, nothing, rows_of

TABLES = ("changes", "tasks", "people", "sessions", "decisions", "events", "positions", "memory")
"""Everything a store holds; equal means equal to the byte."""


def from_the_event_alone(event: Event, view: View) -> Answer:
    """A task for every other event, whatever is shown: runs over the same events agree."""
    return answer(create(event.text) if event.id.endswith(("0", "2", "4", "6", "8")) else nothing())


def run(data: Path, *events: int) -> EmbeddedRun:
    """A finished run that is given these events."""
    settings = load_settings()
    made = EmbeddedRun(DataFolder.at(data, settings), settings, Script(rule=from_the_event_alone))
    made.run([Line(_event(number), f"made:{number}") for number in events])
    return made


def _event(number: int) -> str:
    author = {"id": f"u{number % 3}", "name": f"Person {number % 3}"}
    fields = {"id": str(number), "source": "chat", "thread": f"t{number % 5}", "at": START.isoformat()}
    return json.dumps({**fields, "author": author, "text": f"please do number {number} of ABC-{number}"})


def contents(data: Path, tables: tuple[str, ...] = TABLES) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table, in an order of their own."""
    store = opened(data)
    memory = {"memory": store.tables["memory"].to_arrow().to_pylist()} if "memory" in tables else {}
    found = rows_of(store, tuple(name for name in tables if name != "memory")) | memory
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def deleted(data: Path, copy: Path) -> None:
    """Somebody deleted the store."""
    shutil.rmtree(data / "store")


def put_back(data: Path, copy: Path) -> None:
    """Somebody put an older copy of the store in its place."""
    shutil.rmtree(data / "store")
    shutil.copytree(copy, data / "store")


Mishap = Callable[[Path, Path], None]


@pytest.mark.parametrize(("mishap", "missing"), [(deleted, 50), (put_back, 30)])
def test_a_store_that_is_behind_catches_up(tmp_path: Path, mishap: Mishap, missing: int) -> None:
    """Deleted, or an older copy: what it lacks is applied, nothing is decided again, all is equal."""
    run(tmp_path / "data", *range(20))
    shutil.copytree(tmp_path / "data" / "store", tmp_path / "copy")
    run(tmp_path / "data", *range(20, 50))
    before = contents(tmp_path / "data")
    mishap(tmp_path / "data", tmp_path / "copy")
    again = run(tmp_path / "data")
    assert (0, missing) == (again.tally.decided, again.tally.applied)
    assert before == contents(tmp_path / "data")


@pytest.mark.parametrize("mishap", [deleted, put_back])
def test_new_events_beside_a_store_that_is_behind(tmp_path: Path, mishap: Mishap) -> None:
    """While the store catches up new events are decided: rows as in a run in which nothing went wrong."""
    run(tmp_path / "data", *range(20))
    shutil.copytree(tmp_path / "data" / "store", tmp_path / "copy")
    run(tmp_path / "data", *range(20, 50))
    _produced(tmp_path / "data", *range(50, 80), *range(10))
    shutil.copytree(tmp_path / "data", tmp_path / "untroubled")
    mishap(tmp_path / "data", tmp_path / "copy")
    troubled, untroubled = run(tmp_path / "data"), run(tmp_path / "untroubled")
    assert (30, 10) == (untroubled.tally.decided, untroubled.tally.repeated)
    assert (30, 10) == (troubled.tally.decided, troubled.tally.repeated)
    # Sessions and decisions hold when each decision was appended, which differs between two runs.
    rows = ("tasks", "people", "events", "memory")
    assert contents(tmp_path / "untroubled", rows) == contents(tmp_path / "data", rows)


def _produced(data: Path, *events: int) -> None:
    """Events in the topic that nobody has read yet."""
    topic = DataFolder.at(data, load_settings()).topic("events")
    topic.append([produced(Line(_event(number), f"made:{number}")) for number in events])


def test_two_swapped_stores_are_refused_and_unharmed(tmp_path: Path) -> None:
    """Each run names the topic its store is of and the one it found; put right, both are as they were."""
    one, other = tmp_path / "one", tmp_path / "other"
    run(one, *range(10))
    run(other, *range(10, 30))
    before = contents(one), contents(other)
    ids = [DataFolder.at(data, load_settings()).topic("operations").id for data in (one, other)]
    _swap(one / "store", other / "store")
    for data, (filled_from, found) in ((one, reversed(ids)), (other, ids)):
        topic = data / "topics" / "lookfirst.operations.jsonl"
        with pytest.raises(StoreError) as refused:
            run(data, 99)
        assert f"with id {filled_from}, but the id of the topic file {topic} is {found}: put the right" in str(
            refused.value
        )
    _swap(one / "store", other / "store")
    assert before == (contents(one), contents(other))
    assert [0, 0] == [run(data).tally.repeated for data in (one, other)]


def _swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)

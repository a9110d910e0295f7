"""The rooms of the house: which may know which, who may write, and what stays when a copy is thrown away."""

from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_type_hints

import pytest

import store.schema
from flows.cli.main import COMMANDS
from flows.judge.contract import Answer, Judge
from store import open_store
from store.schema import Event, EventRow, PersonRow, Rejection, Summary, SummaryComponents, TaskRow, View
from tests.workplace import Script, Workplace, answer, create, rows_of

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("flows", "connectors", "store")
SOURCES = {
    path.relative_to(ROOT).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for room in ROOMS
    for path in sorted((ROOT / room).rglob("*.py"))
}
WRITES = {"merge_insert", "add", "delete", "update", "drop", "restore"}
"""Calls that change a Lance table."""


def imported(tree: ast.Module) -> Iterator[str]:
    """Full names of what a module imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name: str, *allowed: str) -> bool:
    """Whether a full name is one of these modules or inside one."""
    return any(name == each or name.startswith(f"{each}.") for each in allowed)


def strangers(folder: str, *allowed: str) -> set[tuple[str, str]]:
    """What files of a folder import of this house beyond what is allowed."""
    return {
        (path, name)
        for path, tree in SOURCES.items()
        if path.startswith(f"{folder}/")
        for name in imported(tree)
        if within(name, *ROOMS) and not within(name, *allowed)
    }


def writes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Receiver and method of each call that changes a table."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
            receiver = ast.unparse(node.func.value)
            if "table" in receiver or node.func.attr == "merge_insert":
                yield receiver, node.func.attr


@pytest.mark.promise("R02")
def test_the_store_knows_no_other_room() -> None:
    """What is kept does not depend on what happens to it."""
    assert set() == strangers("store", "store")


@pytest.mark.promise("R02")
def test_connectors_know_the_contracts_only() -> None:
    """What crosses the border knows the values that travel, and neither the flows nor the tables."""
    assert set() == strangers("connectors", "connectors", "store.schema")


@pytest.mark.promise("R02")
def test_the_contracts_know_no_table() -> None:
    """The values that cross a border import nothing but each other."""
    assert set() == strangers("store/schema", "store.schema")


@pytest.mark.promise("R02")
def test_arrows_between_rooms_go_one_way() -> None:
    """No room is reached again from a room that it uses."""
    arrows = {
        (path.split("/")[0], name.split(".")[0])
        for path, tree in SOURCES.items()
        for name in imported(tree)
        if within(name, *ROOMS)
    }
    assert {("flows", "store"), ("flows", "connectors"), ("connectors", "store")} == {
        (user, used) for user, used in arrows if user != used
    }


@pytest.mark.promise("R02")
def test_a_judge_is_given_values_only() -> None:
    """A judge gets an event, a View and the refusals; no argument of it leads to the store."""
    hints = get_type_hints(Judge.judge)
    names = list(inspect.signature(Judge.judge).parameters)
    assert ["self", "event", "view", "refused"] == names
    assert {
        "event": Event,
        "view": View,
        "refused": tuple[Rejection, ...],
        "return": Answer,
    } == hints


@pytest.mark.promise("R02")
def test_judges_import_no_part_of_the_store_that_reads_or_writes() -> None:
    """Judges and the guard know contracts and the spelling of identifiers, and no search."""
    assert set() == strangers("flows/judge", "flows.judge", "store.schema", "store.identifiers")


@pytest.mark.promise("R02")
def test_looking_imports_neither_judges_nor_the_writer() -> None:
    """What looks has no way to write and does not know who will judge."""
    allowed = (
        "flows.retrieve",
        "flows.overlay",
        "flows.daemons",
        "store.Store",
        "store.schema",
        "store.memory",
        "store.record",
    )
    assert set() == strangers("flows/retrieve", *allowed, "store.identifiers", "store.terms")


@pytest.mark.promise("R02")
def test_only_the_committer_writes_rows_and_only_memory_writes_its_copy() -> None:
    """Tables are changed in three files; that of the copy, and that of its vectors, touch nothing else."""
    found = {path: set(writes(tree)) for path, tree in SOURCES.items()}
    vectors = "store/vector_writer.py"
    assert {"store/commit.py", "store/memory.py", vectors} == {path for path, calls in found.items() if calls}
    assert {"self._tables['memory']", "tables['positions']"} == {r for r, _ in found["store/memory.py"]}
    assert {"table"} == {receiver for receiver, _ in found[vectors]}
    others = {
        node.slice.value
        for node in ast.walk(SOURCES[vectors])
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and ast.unparse(node.value).endswith("tables")
    }
    assert {"memory"} == others


@pytest.mark.promise("R01")
def test_rows_outlive_every_copy_of_them(tmp_path: Path) -> None:
    """Tasks, events and people are rows with ids of their own, the same when memory and summaries are gone."""
    script = Script(rule=lambda event, view: answer(create(event.text)))
    folder = tmp_path / "store"
    with Workplace.opened(folder, script, store.schema.Settings()) as workplace:
        for number in range(3):
            workplace.say(f"Please order part {number}", thread=f"t{number}")
        components = SummaryComponents(goal="parts")
        workplace.emit(
            Summary(
                id="summary",
                workspace="default",
                thread="t0",
                first_event="1",
                last_event="1",
                components=components,
            )
        )
        workplace.settle()
        before = {name: workplace.store.record.arrow(name) for name in ("tasks", "people", "events")}
        values = rows_of(workplace.store)
    assert {"tasks": {"t-"}, "people": {"p-"}, "events": {"e-"}} == {
        name: {row["id"][:2] for row in rows} for name, rows in values.items()
    }
    assert {"tasks": 3, "people": 1, "events": 3} == {name: len(rows) for name, rows in values.items()}

    shutil.rmtree(folder / "memory.lance")
    reopened = open_store(folder, create=True)
    reopened.tables["sessions"].delete("true")

    assert 0 == reopened.record.count("memory")
    assert all(table.equals(reopened.record.arrow(name)) for name, table in before.items())
    listed: dict[str, list[TaskRow] | list[PersonRow] | list[EventRow]] = {
        "tasks": reopened.record.listed("tasks", TaskRow, newest="updated", limit=9),
        "people": reopened.record.listed("people", PersonRow, newest="last_seen", limit=9),
        "events": reopened.record.listed("events", EventRow, newest="at", limit=9),
    }
    assert {name: {row["id"] for row in rows} for name, rows in values.items()} == {
        name: {row.id for row in rows} for name, rows in listed.items()
    }


def test_the_exported_names_are_there_and_in_order() -> None:
    """`store.schema` exports exactly what it imports, sorted: constants, classes, functions."""
    exported = store.schema.__all__
    public = {
        name
        for name, value in vars(store.schema).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert public == set(exported)
    assert sorted(exported, key=lambda name: (not name.isupper(), name[0].islower(), name)) == list(exported)


def test_without_brokers_nothing_that_speaks_to_them_is_imported() -> None:
    """The commands that need no brokers are imported without Kafka's library, which takes its time and warns."""
    modules = {
        found.partition(":")[0] for name, found in COMMANDS.items() if name not in ("dev-broker", "topics", "up")
    }
    script = f"import importlib, sys\nfor name in {sorted(modules)}: importlib.import_module(name)\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}print('kafka' in sys.modules)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "False" == done.stdout.strip()

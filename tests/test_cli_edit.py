"""`lookfirst edit`, `delete` and `restore`: what they append, what they say, and what they refuse."""

from __future__ import annotations

import json
import shutil
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line
from store.schema import Edit, Participant, TaskRow, load_settings
from tests.sample import opened
from tests.workplace import ANNA, Script, create_or_match, event

Captured = pytest.CaptureFixture[str]

LINES = (
    event("order a printer", id="1"),
    event("hello", id="2", thread="u", author=Participant(id="t1", name="Tom", address="tom@example.org")),
    event("hello", id="3", thread="u", author=Participant(id="t2", name="Tom", address="okafor@example.org")),
    event("hello", id="4", thread="u", workspace="far", author=Participant(id="eve", name="Eve")),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after a run, in which there is one task of thread t, and people of two workspaces."""
    path = tmp_path_factory.mktemp("made")
    run(path, *(Line(each.model_dump_json(), f"made:{each.id}") for each in LINES))
    return path


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """A copy of it that the test may write to."""
    return shutil.copytree(made, tmp_path / "data")


def run(path: Path, *lines: Line) -> None:
    """A run that ends."""
    settings = load_settings()
    EmbeddedRun(DataFolder.at(path, settings), settings, Script(rule=create_or_match)).run(lines)


def task(path: Path) -> TaskRow:
    """The task of thread t, as the record has it."""
    (row,) = opened(path).record.listed("tasks", TaskRow, newest="updated", limit=9, thread="t")
    return row


def appended(path: Path) -> list[dict[str, Any]]:
    """A person's operations on the topic, in order."""
    topic = DataFolder.at(path, load_settings()).topic("operations")
    messages = (json.loads(message.value) for message in topic.read(topic.start, 100)[0])
    return [message for message in messages if message["kind"] in ("edit", "delete", "restore")]


def test_an_edit_is_applied_by_the_next_run(data: Path, capsys: Captured) -> None:
    """Every field at once, by the beginning of an id; `why` says afterwards who it was."""
    before = task(data)
    options = ["--title", " Order two printers ", "--state", "blocked", "--due", "2026-03-20"]
    people = ["--assign", "okafor@EXAMPLE.org", "--assign", "Anna"]
    assert 0 == main(["edit", before.id[:12], *options, *people, "--by", "Anna", "--data", str(data)])
    out, err = capsys.readouterr()
    assert "order a printer → Order two printers" in out
    assert "open → blocked" in out
    assert f"A run in progress applies it at once, else the next `lookfirst run --data {data}` does.\n" == err
    assert before == task(data)

    run(data)
    after = task(data)
    assert ("Order two printers", "blocked", date(2026, 3, 20)) == (after.title, after.state, after.due)
    assert 2 == len(after.assignees)
    assert before.body == after.body
    (operation,) = appended(data)
    assert (before.id, "t", "Anna") == (operation["row"], operation["thread"], operation["by"])
    assert before.version == Edit.model_validate(operation).seen

    assert 0 == main(["edit", before.id, "--clear-due", "--unassign", after.assignees[0], "--data", str(data)])
    run(data)
    assert (None, after.assignees[1:]) == (task(data).due, task(data).assignees)
    capsys.readouterr()
    assert 0 == main(["why", before.id, "--data", str(data)])
    assert "Anna, in person" in capsys.readouterr().out


def test_an_edit_knows_the_edits_that_wait(data: Path, capsys: Captured) -> None:
    """Two edits before a run: the second is measured by the first, the third would change nothing."""
    row = task(data).id
    assert 0 == main(["edit", row, "--state", "done", "--data", str(data)])
    assert 0 == main(["edit", row, "--state", "open", "--data", str(data)])
    assert "done → open" in capsys.readouterr().out
    assert 2 == main(["edit", row, "--state", "open", "--data", str(data)])
    assert "is like that already" in capsys.readouterr().err
    first, second = appended(data)
    assert first["id"] != second["id"]
    assert first["seen"] == second["seen"]
    run(data)
    assert "open" == task(data).state


def test_delete_and_restore(data: Path, capsys: Captured) -> None:
    """A deleted task is not edited and not deleted again; restored it is as it was, and is not restored again."""
    before = task(data)

    def command(*words: str) -> tuple[int, str]:
        code = main([words[0], before.id, *words[1:], "--data", str(data)])
        return code, capsys.readouterr().err

    assert 2 == command("restore")[0]
    for applied in (False, True):
        assert 0 == command("delete")[0]
        if applied:
            run(data)
            assert 0 == opened(data).record.count("tasks", "thread = 't'")
        count = len(appended(data))
        code, err = command("edit", "--state", "done")
        assert (2, 1) == (code, err.count("\n"))
        assert f"`lookfirst restore {before.id}` first" in err
        assert (2, f"The task {before.id} is deleted already; nothing was appended.\n") == command("delete")
        assert count == len(appended(data))
        assert 0 == command("restore")[0]
        code, err = command("restore")
        assert (2, f"The task {before.id} is not deleted; there is nothing to restore.\n") == (code, err)
    run(data)
    assert (before.title, before.state, before.body) == (task(data).title, task(data).state, task(data).body)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "Nothing is to be changed"),
        (["--state", "open"], "is like that already; nothing was appended."),
        (["--state", "finished"], "(see `lookfirst edit --help`)"),
        (["--due", "20 March"], "'20 March' is no date; write --due like 2026-03-20."),
        (["--due", "2026-03-20", "--clear-due"], "contradict each other"),
        (["--title", "x" * 121], "has 121 characters, at most 120 are kept"),
        (["--title", "two\nlines"], "A title is one line of text"),
        (["--assign", "Tom"], "'Tom' may be 2 people (p-"),
        (["--assign", "Eve"], "Nobody in the task's workspace is 'Eve'"),
        (["--assign", "Anna", "--unassign", "anna@example.org"], "to be assigned and unassigned at once"),
        (["--state", "done", "--by", " "], "give --by NAME"),
    ],
)
def test_wrong_usage_appends_nothing(data: Path, options: list[str], said: str, capsys: Captured) -> None:
    """One sentence that names the remedy, exit code 2, and the topic stays as it was."""
    assert 2 == main(["edit", task(data).id, *options, "--data", str(data)])
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert said in err
    assert [] == appended(data)


@pytest.mark.parametrize("command", ["edit", "delete", "restore"])
def test_a_row_that_is_none_is_wrong_usage(made: Path, command: str, tmp_path: Path, capsys: Captured) -> None:
    """An id of nothing, and what is no id of a task; a folder without a store is a fault and stays as it is."""
    for typed, said in (("t-00000000", "There is no row"), ("p-00000000", "is no id"), ("printer", "is no id")):
        assert 2 == main([command, typed, "--data", str(made)])
        assert said in capsys.readouterr().err
    assert 1 == main([command, "t-00000000", "--data", str(tmp_path / "none")])
    assert "lookfirst run" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
    assert [] == appended(made)


def test_an_operation_for_programs(data: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """`--json` prints the message and its place; who did it is the login name unless it is given."""
    monkeypatch.setenv("LOGNAME", "ada")
    assert 0 == main(["delete", task(data).id, "--data", str(data), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert [printed["operation"]] == appended(data)
    assert ("ada", "lookfirst.operations", False) == (
        printed["operation"]["by"],
        printed["topic"],
        printed["applied"],
    )
    assert 4 == printed["offset"]


def test_a_wait_ends(data: Path, capsys: Captured) -> None:
    """Without a run it ends in time and says that nothing is lost; the operation is there, once."""
    assert 1 == main(["edit", task(data).id, "--state", "done", "--wait", "0.2", "--data", str(data)])
    assert "It was appended and is not lost, but no run applied it within 0.2 s" in capsys.readouterr().err
    assert 1 == len(appended(data))
    run(data)
    assert "done" == task(data).state


def test_a_row_and_its_text_steer_no_terminal(data: Path, capsys: Captured) -> None:
    """Whatever a person types is shown as text."""
    row = task(data).id
    assert 0 == main(["edit", row, "--title", "[red]\x1b[2J", "--by", "\x07[b]", "--data", str(data)])
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[red]\\x1b[2J" in out
    assert ANNA.name not in out

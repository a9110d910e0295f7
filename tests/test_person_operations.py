"""A person's operations: how they are built, and that they survive whatever is decided meanwhile."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.judge.contract import Answer
from flows.person import Found, Signature, Wishes, delete, edit, found, person_named, restore
from store.derive import Applied, derive
from store.schema import (
    Coordinates,
    Edit,
    Event,
    PersonOperation,
    PersonRow,
    StoreError,
    TaskRow,
    UsageError,
    Version,
    View,
    load_settings,
)
from tests.sample import opened
from tests.workplace import START, Script, Workplace, answer, create_or_match, event, update

_DEADLINE = 60.0
"""Longest wait for something that must happen (s)."""


def planted(workplace: Workplace, text: str = "order a printer") -> TaskRow:
    """A task in the record."""
    workplace.judge.rule = create_or_match
    workplace.decided(text)
    workplace.settle()
    (task,) = workplace.tasks()
    return task


def looked_up(workplace: Workplace, task: TaskRow) -> Found:
    """The task as a person finds it in the record."""
    return found(task.id, workplace.store.record.changes([task.id])[task.id])


def a_task() -> Found:
    """A task as a person may find it, without a store."""
    version = Version(at=START, seq=1, operation="o-1")
    row = TaskRow(
        id="t-1",
        workspace="default",
        thread="t",
        title="order a printer",
        state="open",
        body="order a printer",
        created=START,
        updated=START,
        version=version,
    )
    return Found(id="t-1", workspace="default", thread="t", row=row, seen=version)


def signed(workplace: Workplace) -> Signature:
    """Anna, at the end of the operations topic."""
    return Signature("anna", len(workplace.emitted))


def emit(workplace: Workplace, operation: PersonOperation) -> None:
    """Append an operation a minute later than everything so far."""
    workplace.now += timedelta(minutes=1)
    workplace.emit(operation)


def test_the_same_command_twice_is_two_operations() -> None:
    """Where the topic ended is part of an id, so is all that is said; the clock and chance are not."""
    task, wishes = a_task(), Wishes(state="done")
    first = edit(task, wishes, Signature("anna", 7), 120)
    assert first == edit(task, wishes, Signature("anna", 7), 120)
    others = {
        edit(task, wishes, Signature("anna", 8), 120).id,
        edit(task, wishes, Signature("ben", 7), 120).id,
        edit(task, Wishes(state="blocked"), Signature("anna", 7), 120).id,
        delete(task, Signature("anna", 7)).id,
    }
    assert 4 == len(others - {first.id})


def test_an_operation_appended_twice_is_one(workplace: Workplace) -> None:
    """A repetition of the very same message leaves one change and one entry in the session."""
    task = planted(workplace)
    operation = edit(looked_up(workplace, task), Wishes(state="done"), signed(workplace), 120)
    for _ in range(2):
        emit(workplace, operation)
        workplace.settle()
    changes = workplace.store.record.changes([task.id])[task.id]
    assert 1 == sum(change.version.operation == operation.id for change in changes)
    assert ["decision", "edit"] == sorted(workplace.store.record.arrow("sessions")["kind"].to_pylist())


def test_an_operation_carries_the_version_that_was_seen(workplace: Workplace) -> None:
    """Seen is what the record shows, also when more is on its way; of a deleted task it is its last change."""
    task = planted(workplace)
    mine = looked_up(workplace, task)
    assert task.version == edit(mine, Wishes(state="done"), signed(workplace), 120).seen
    gone = delete(mine, signed(workplace))
    assert task.version == gone.seen
    emit(workplace, gone)
    workplace.settle()
    deleted = looked_up(workplace, task)
    assert deleted.row is None
    back = restore(deleted, signed(workplace))
    assert (gone.id, "t", "default") == (back.seen and back.seen.operation, back.thread, back.workspace)


@pytest.mark.parametrize(
    ("wishes", "said"),
    [
        (Wishes(), "Nothing is to be changed"),
        (Wishes(state="open", clear_due=True, unassign=("p-1",)), "is like that already"),
        (Wishes(title="order a printer"), "is like that already"),
        (Wishes(due=date(2024, 6, 1), clear_due=True), "contradict each other"),
        (Wishes(assign=("p-1",), unassign=("p-1",)), "assigned and unassigned at once"),
        (Wishes(title=" \n "), "one line of text"),
        (Wishes(title="two\nlines"), "one line of text"),
        (Wishes(title="x" * 121), "has 121 characters, at most 120"),
    ],
)
def test_an_edit_that_means_nothing_is_wrong_usage(wishes: Wishes, said: str) -> None:
    """No field, no difference, a contradiction and a title that is none are each told in a sentence."""
    with pytest.raises(UsageError, match=said):
        edit(a_task(), wishes, Signature("anna", 7), 120)


def test_a_title_is_cleaned_and_kept() -> None:
    """White space around a title goes, and what no store can keep is replaced."""
    operation = edit(a_task(), Wishes(title="  佐藤\0さん \udc80 "), Signature("anna", 7), 120)
    assert "佐藤\ufffdさん \ufffd" == operation.title


def test_a_person_is_named_in_several_ways() -> None:
    """By id, its beginning, an address in any case, or a name as it is written; never by a guess."""

    def person(row_id: str, name: str, address: str) -> PersonRow:
        return PersonRow(
            id=row_id, workspace="w", names=(name,), addresses=(address,), first_seen=START, last_seen=START
        )

    people = [
        person("p-aaaaaa01", "Lena", "lena@example.org"),
        person("p-aaaaaa02", "Tom", "tom@example.org"),
        person("p-bbbbbb01", "Tom", "okafor@example.org"),
    ]
    assert ["p-aaaaaa01", "p-bbbbbb01", "p-bbbbbb01", "p-aaaaaa01"] == [
        person_named(typed, people) for typed in ("Lena", "OKAFOR@example.org", "p-bbbbbb", "p-aaaaaa01")
    ]
    with pytest.raises(UsageError, match=r"'Tom' may be 2 people \(p-aaaaaa02 Tom <tom@.*p-bbbbbb01 Tom <okafor@"):
        person_named("Tom", people)
    with pytest.raises(UsageError, match="'p-aaaaaa' may be 2 people"):
        person_named("p-aaaaaa", people)
    for nobody in ("lena", "Len", "p-cccccc", "p-aaa"):
        with pytest.raises(UsageError, match="Nobody in the task's workspace"):
            person_named(nobody, people)


def test_a_task_whose_create_is_missing_is_no_task() -> None:
    """Changes that came before their create are no row to edit, delete or restore."""
    operation = edit(a_task(), Wishes(state="done"), Signature("anna", 7), 120)
    place = Coordinates(topic="lookfirst.operations", offset=7)
    changes = derive(Applied(operation, place, START, operation.model_dump_json())).changes
    with pytest.raises(UsageError, match="is not created yet"):
        found("t-1", changes)


@pytest.mark.promise("R05")
def test_an_edit_from_an_older_view_leaves_the_other_fields_alone(workplace: Workplace) -> None:
    """State and due date were changed after the person looked; the edit of the title changes the title."""
    task = planted(workplace)
    before = looked_up(workplace, task)

    def moved(event: Event, view: View) -> Answer:
        (row,) = view.tasks()
        return answer(update(row.handle, event.text, state="in_progress", due=date(2024, 6, 1)))

    workplace.judge.rule = moved
    workplace.decided("the printer comes in June", at=START + timedelta(minutes=1))
    workplace.settle()
    emit(workplace, edit(before, Wishes(title="Order two printers"), signed(workplace), 120))
    workplace.settle()

    (after,) = workplace.tasks()
    assert ("Order two printers", "in_progress", date(2024, 6, 1)) == (after.title, after.state, after.due)
    changes = workplace.store.record.changes([task.id])[task.id]
    assert [task.version] == [change.seen for change in changes if change.event is None]


@pytest.mark.promise("Q10")
def test_an_edit_says_again_what_is_so_and_it_holds(workplace: Workplace) -> None:
    """A field that is named beside a changed one holds, though it had its value, against news that came before."""
    task = planted(workplace)
    late = workplace.arrive(event("the printer is stuck", id="late", at=START + timedelta(minutes=1)))
    wishes = Wishes(title="Order two printers", state="open")
    emit(workplace, edit(looked_up(workplace, task), wishes, signed(workplace), 120))
    workplace.settle()
    workplace.judge.rule = lambda event, view: answer(
        *(update(row.handle, event.text, state="blocked") for row in view.tasks())
    )
    workplace.take(late)
    workplace.settle()
    assert [("Order two printers", "open")] == [(row.title, row.state) for row in workplace.tasks()]


class Thinking:
    """A judge that thinks about an update until it is told to answer; it creates for what is new."""

    name = "thinking/1"
    remote = False

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.answers = threading.Event()

    def judge(self, event: Event, view: View, refused: object) -> Answer:
        mine = next((row for row in view.tasks() if row.same_thread), None)
        if mine is None:
            return create_or_match(event, view)
        self.asked.set()
        assert self.answers.wait(_DEADLINE)
        fields: dict[str, Any] = {"title": "A title of the judge", "state": "done", "due": date(2024, 6, 1)}
        return answer(update(mine.handle, event.text, **fields))


class Feed:
    """Lines for a run, as slow as the test likes."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[Line | None] = queue.SimpleQueue()

    def say(self, number: int, text: str) -> None:
        """One more message of the thread."""
        said = {"id": str(number), "source": "chat", "thread": "t", "at": f"2024-05-01T09:0{number}:00Z"}
        author = {"id": "u1", "name": "Lena", "address": "lena@example.org"}
        self._lines.put(Line(json.dumps({**said, "author": author, "text": text}), f"feed:{number}"))

    def end(self) -> None:
        """No more lines."""
        self._lines.put(None)

    def __iter__(self) -> Iterator[Line]:
        while (line := self._lines.get(timeout=_DEADLINE)) is not None:
            yield line


@contextmanager
def live(path: Path, judge: Thinking, feed: Feed) -> Iterator[None]:
    """A run in progress over a folder; ended, and free of faults, when the block is left."""
    settings = load_settings(epoch=0.1)
    run = EmbeddedRun(DataFolder.at(path, settings), settings, judge)
    faults: list[BaseException] = []

    def work() -> None:
        try:
            run.run(feed)
        except BaseException as error:
            faults.append(error)

    thread = threading.Thread(target=work, name="live run")
    thread.start()
    try:
        yield
    finally:
        judge.answers.set()
        feed.end()
        thread.join(_DEADLINE)
    assert not thread.is_alive()
    assert [] == faults


def until(what: Callable[[], Any]) -> Any:
    """Wait until something is true, and give it back; fails at the deadline."""
    deadline = time.monotonic() + _DEADLINE
    while time.monotonic() < deadline:
        if value := what():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen in time")


def tasks_of(path: Path) -> list[TaskRow]:
    """The listed tasks; none while there is no store."""
    try:
        record = opened(path).record
    except StoreError:
        return []
    return list(record.tasks(record.arrow("tasks")["id"].to_pylist()).values())


def during_a_judgment(path: Path, *command: str) -> list[TaskRow]:
    """What is listed after a run during which somebody gave a command while the judge was thinking."""
    judge, feed = Thinking(), Feed()
    with live(path, judge, feed):
        feed.say(1, "order a printer")
        (task,) = until(lambda: tasks_of(path))
        feed.say(2, "the printer comes in June")
        assert judge.asked.wait(_DEADLINE)
        name, *options = command
        # The run applies it at once, though the judge still thinks: the wait ends in time.
        assert 0 == main([name, task.id, *options, "--by", "anna", "--data", str(path), "--wait", "30"])
    return tasks_of(path)


@pytest.mark.promise("Q10")
def test_an_edit_beside_a_run_survives_the_judgment_it_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`lookfirst edit` while the judge thinks: title and assignee are the person's, the rest is the judge's."""
    options = ("--title", "Order two printers", "--state", "blocked", "--assign", "lena@example.org")
    (after,) = during_a_judgment(tmp_path, "edit", *options)
    assert "It is applied.\n" == capsys.readouterr().err
    assert ("Order two printers", "blocked", date(2024, 6, 1)) == (after.title, after.state, after.due)
    assert 1 == len(after.assignees)
    topic = DataFolder.at(tmp_path, load_settings()).topic("operations")
    written, _ = topic.read(topic.start, 10)
    assert ["decision", "edit", "decision"] == [json.loads(message.value)["kind"] for message in written]
    assert {"default/t"} == {message.key for message in written}
    operation = Edit.model_validate_json(written[1].value)
    assert ("anna", after.id) == (operation.by, operation.row)


@pytest.mark.promise("Q10")
def test_a_delete_beside_a_run_survives_the_judgment_it_met(tmp_path: Path) -> None:
    """`lookfirst delete` while the judge thinks: it stays deleted; restored it has all that was said before."""
    assert [] == during_a_judgment(tmp_path, "delete")
    (deleted,) = opened(tmp_path).record.starting_with("changes", "row_id", "t-")
    assert 0 == main(["restore", deleted, "--data", str(tmp_path)])
    EmbeddedRun(DataFolder.at(tmp_path, load_settings()), load_settings(), Script()).run()
    (back,) = tasks_of(tmp_path)
    assert ("A title of the judge", "done", date(2024, 6, 1)) == (back.title, back.state, back.due)

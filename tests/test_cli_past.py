"""`--as-of` and `--known-at` over a real run: two weeks of May 2024, of which the 6th is a Monday."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from connectors.topic_file import TopicFile
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.intake import Line, produced
from flows.judge.contract import Answer
from store import open_store
from store.schema import (
    Event,
    Participant,
    Settings,
    TaskRow,
    View,
    load_settings,
)
from tests.workplace import ANNA, Script, answer, create, event, update

Captured = pytest.CaptureFixture[str]
PAGES = ("tasks", "people", "events")


def day(number: int, hour: int = 9, minute: int = 0) -> datetime:
    """A time of May 2024."""
    return datetime(2024, 5, number, hour, minute, tzinfo=UTC)


TOM = Participant(id="tom", name="Tom Archer", address="tom@example.org")
AIDA = Participant(id=ANNA.id, name="Aida Yew", address=ANNA.address)
"""Anna, as Tom calls her on Friday; by the order of names she is called so on every page from then on."""
WEEK = (
    (day(6), event("please send the offer ALDER", id="1", at=day(6))),
    (day(8), event("the offer is moved to the 13th BIRCH", id="2", at=day(8))),
    (day(10), event("the offer is done CEDAR", id="3", at=day(10), author=TOM, mentions=(AIDA,))),
    (day(11), event("the offer is blocked DOGWOOD", id="4", at=day(7), thread="mail", source="mail")),
)
"""When each arrived, and what it was: the last one is a late mail of Tuesday."""
AFTERWARDS = (
    (day(14), event("the offer is cancelled EBONY", id="5", at=day(12, 8))),
    (day(16), event("the offer is open again FIR", id="6", at=day(13, 12))),
)
"""Told after a person's edit and a restore, of before the edit, and of while it was deleted."""
MARKS = {
    "ALDER": day(6),
    "BIRCH": day(8),
    "CEDAR": day(10),
    "DOGWOOD": day(7),
    "EBONY": day(12, 8),
    "FIR": day(13, 12),
}
"""A word of each event, and when it happened."""


def judge(limits: Settings) -> Script:
    """A judge that goes by the one word that matters (LOOKFIRST_JUDGE)."""
    return Script(rule=_by_word)


def _by_word(said: Event, view: View) -> Answer:
    if "please" in said.text:
        people = [person.handle for person in view.standby.people]
        return answer(create(said.text, "Send the offer", due=date(2024, 5, 10), assignees=tuple(people[:1])))
    row = next(view.tasks()).handle
    if "moved" in said.text:
        return answer(update(row, said.text, due=date(2024, 5, 13)))
    state = next(state for state in ("blocked", "done", "cancelled", "open") if state in said.text)
    return answer(update(row, said.text, state=state))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder after three real runs, with a person's edit, delete and restore in between."""
    path = tmp_path_factory.mktemp("may")
    now = [day(1)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOOKFIRST_JUDGE", "tests.test_cli_past:judge")
        # The one clock of the pipeline: it writes the time of arrival into a topic's lines.
        patch.setattr(TopicFile.__init__, "__defaults__", (lambda: now[0],))

        def command(when: datetime, *words: str) -> None:
            now[0] = when
            assert 0 == main([*words, "--data", str(path)])

        def produce(*events: tuple[datetime, Event]) -> None:
            topic = DataFolder.at(path, load_settings()).topic("events")
            for arrived, each in events:
                now[0] = arrived
                topic.append([produced(Line(each.model_dump_json(), f"made:{each.id}"))])

        produce(*WEEK)
        command(day(11, 12), "run", "--paced")
        (task,) = open_store(path / "store").record.arrow("tasks")["id"].to_pylist()
        edit = ("edit", task, "--state", "in_progress", "--title", "Send the offer GINKGO", "--by", "Tom")
        command(day(12, 10), *edit)
        command(day(13, 10), "delete", task, "--by", "Tom")
        command(day(15, 10), "restore", task, "--by", "Tom")
        command(day(15, 12), "run", "--paced")
        produce(*AFTERWARDS)
        command(day(16, 12), "run", "--paced")
        yield path


@pytest.fixture(scope="module")
def task(data: Path) -> str:
    """The id of the one task."""
    (found,) = open_store(data / "store").record.arrow("tasks")["id"].to_pylist()
    return str(found)


def read(capsys: Captured, *words: str | Path) -> str:
    """What a command prints when it succeeds."""
    capsys.readouterr()
    assert 0 == main([str(word) for word in words])
    return capsys.readouterr().out


def refused(capsys: Captured, *words: str | Path) -> str:
    """The one sentence of a command that is used wrongly."""
    capsys.readouterr()
    assert 2 == main([str(word) for word in words])
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    return err


@pytest.mark.promise("U10")
@pytest.mark.parametrize(
    ("options", "state", "due"),
    [
        (["--as-of", "2024-05-05"], None, None),
        (["--as-of", "2024-05-06"], "open", 10),
        (["--as-of", "2024-05-07"], "blocked", 10),
        (["--as-of", "2024-05-08"], "blocked", 13),
        (["--as-of", "2024-05-08T08:59:59Z"], "blocked", 10),
        (["--as-of", "2024-05-08T11:00:00+02:00"], "blocked", 13),
        (["--as-of", "2024-05-10"], "done", 13),
        (["--as-of", "2024-05-12T09:00Z"], "cancelled", 13),
        (["--as-of", "2024-05-12"], "in_progress", 13),
        (["--as-of", "2024-05-13"], None, None),
        (["--as-of", "2024-05-14"], None, None),
        (["--as-of", "2024-05-15"], "in_progress", 13),
        (["--as-of", "9999-12-31"], "in_progress", 13),
        (["--known-at", "2024-05-05"], None, None),
        (["--known-at", "2024-05-07"], "open", 10),
        (["--known-at", "2024-05-08"], "open", 13),
        (["--known-at", "2024-05-10"], "done", 13),
        (["--known-at", "2024-05-11"], "done", 13),
        (["--known-at", "2024-05-12"], "in_progress", 13),
        (["--known-at", "2024-05-13"], None, None),
        (["--known-at", "2024-05-15"], "in_progress", 13),
        (["--as-of", "2024-05-07", "--known-at", "2024-05-10"], "open", 10),
        (["--as-of", "2024-05-07", "--known-at", "2024-05-11"], "blocked", 10),
        (["--as-of", "2024-05-12T09:00Z", "--known-at", "2024-05-13"], "done", 13),
        (["--as-of", "2024-05-12T09:00Z", "--known-at", "2024-05-14"], "cancelled", 13),
        ([], "in_progress", 13),
    ],
)
def test_a_task_as_it_was(
    options: list[str], state: str | None, due: int | None, data: Path, task: str, capsys: Captured
) -> None:
    """Made on Monday, moved on Wednesday, done on Friday; a late mail, an edit, a tombstone and a restore."""
    lines = read(capsys, "tasks", "--json", "--data", data, *options).splitlines()
    rows = [TaskRow.model_validate_json(line) for line in lines]
    expected = [] if state is None or due is None else [(task, state, date(2024, 5, due))]
    assert expected == [(row.id, row.state, row.due) for row in rows]
    if rows:
        assert lines == read(capsys, "show", task, "--json", "--data", data, *options).splitlines()
        story = json.loads(read(capsys, "why", task, "--json", "--data", data, *options))
        assert rows[0] == TaskRow.model_validate(story["row"])


@pytest.mark.promise("U10")
@pytest.mark.parametrize("number", range(5, 17))
def test_nothing_is_shown_that_happened_later(number: int, data: Path, task: str, capsys: Captured) -> None:
    """No page and no JSON of a day has a word of a later event, nor a person or a name that came up later."""
    when = ("--data", data, "--as-of", f"2024-05-{number:02d}")
    pages = [read(capsys, name, *when, *form) for name in PAGES for form in ((), ("--json",))]
    if number >= 6:
        pages += [read(capsys, "why", task, *when, *form) for form in ((), ("--json",))]
    if number >= 6 and number not in (13, 14):
        pages += [read(capsys, "show", task, *when, *form) for form in ((), ("--json",))]
    shown = "\n".join(pages)
    words = {**MARKS, TOM.name: day(10), AIDA.name: day(10), "GINKGO": day(12, 10)}
    end = day(number + 1, 0)
    assert {word for word, at in words.items() if at < end} == {word for word in words if word in shown}


@pytest.mark.promise("U10")
def test_what_was_judged_in_hindsight_is_left_out(data: Path, task: str, capsys: Captured) -> None:
    """A late mail is told by its own words; what its judge saw, which was done by then, is told now only."""
    story = ("why", task, "--data", data)
    late = read(capsys, *story).split("DOGWOOD")[1].split("\n3. ")[0]
    assert "· done" in late
    told = read(capsys, *story, "--as-of", "2024-05-07")
    assert "as of 2024-05-07 23:59:59 UTC" in told
    assert "later, from what had not happened by then: left out" in told.split("DOGWOOD")[1]
    assert "done" not in told
    assert "DOGWOOD" not in read(capsys, *story, "--as-of", "2024-05-07", "--known-at", "2024-05-10")


def test_a_page_says_when_it_is_of(data: Path, task: str, capsys: Captured) -> None:
    """A title in UTC, to the second where there are any; a moment that is yet to come is now."""
    at = ("--data", data, "--as-of", "2024-05-08T11:00:00+02:00", "--known-at", "2024-05-10")
    words = "as of 2024-05-08 09:00 UTC, as known at 2024-05-10 23:59:59 UTC"
    for name in PAGES:
        assert f"{name.capitalize()} {words}\n" in _trimmed(read(capsys, name, *at))
    assert f"\n{words}\n" in _trimmed(read(capsys, "why", task, *at))
    shown = read(capsys, "show", task, *at)
    assert ["as of 2024-05-08 09:00 UTC", "as known at 2024-05-10 23:59:59 UTC"] == [
        " ".join(line.split()) for line in shown.splitlines()[:2]
    ]
    assert 0 == main(["tasks", "--data", str(data), "--as-of", "2024-05-05"])
    assert ("", "There are no such tasks as of 2024-05-05 23:59:59 UTC.\n") == capsys.readouterr()
    future = read(capsys, "tasks", "--data", data, "--as-of", "9000-01-01")
    assert f"Tasks as of {datetime.now(UTC):%Y-%m-%d}" in future
    assert "9000" not in future
    assert " as " not in read(capsys, "tasks", "--data", data).split("id")[0]


def _trimmed(out: str) -> str:
    return "\n".join(line.rstrip() for line in out.splitlines()) + "\n"


@pytest.mark.promise("U10")
def test_what_was_not_there_says_since_when_it_is(data: Path, task: str, capsys: Captured) -> None:
    """Wrong usage, one sentence: when it came to be, or to be known; the time may be given back as it stands."""
    rows = {row["text"]: row for row in open_store(data / "store").record.arrow("events").to_pylist()}
    mail = next(row for text, row in rows.items() if "DOGWOOD" in text)
    tom = next(row for text, row in rows.items() if "CEDAR" in text)["author"]
    for row_id, created, arrived in (
        (task, day(6), day(6)),
        (mail["id"], day(7), day(11)),
        (tom, day(10), day(10)),
    ):
        show = ("show", row_id, "--data", data)
        sentence = refused(capsys, *show, "--as-of", "2024-05-05")
        assert f"{row_id} as of 2024-05-05 23:59:59 UTC; it exists since {created.isoformat()}.\n" in sentence
        sentence = refused(capsys, *show, "--known-at", "2024-05-05")
        assert f"as known at 2024-05-05 23:59:59 UTC; it is known since {arrived.isoformat()}.\n" in sentence
        assert row_id in read(capsys, *show, "--as-of", created.isoformat(), "--known-at", arrived.isoformat())
    both = ("--as-of", "2024-05-08", "--known-at", "2024-05-08")
    assert f"it is known since {day(11).isoformat()}" in refused(capsys, "show", mail["id"], "--data", data, *both)
    sentence = refused(capsys, "why", task, "--data", data, "--as-of", "2024-05-05")
    assert f"Nothing is said of the task {task} as of" in sentence
    assert f"it exists since {day(6).isoformat()}" in sentence
    sentence = refused(capsys, "show", task, "--data", data, "--as-of", "2024-05-14")
    assert f"The task {task} is deleted as of 2024-05-14 23:59:59 UTC; `lookfirst why {task} --as-of" in sentence
    asked = sentence.split("`")[1].split()[1:]
    assert "(deleted)" in read(capsys, *asked, "--data", data)
    for typed in ("t-000000", "p-000000", "e-000000"):
        assert f"There is no row {typed}" in refused(
            capsys, "show", typed, "--data", data, "--as-of", "2024-05-14"
        )


@pytest.mark.parametrize("option", ["--as-of", "--known-at"])
@pytest.mark.parametrize("command", [*PAGES, "show t-000000", "why t-000000"])
def test_a_moment_needs_a_zone(option: str, command: str, data: Path, capsys: Captured) -> None:
    """A time without a zone and what is no time are refused in a sentence that says how to write one."""
    for typed, said in (
        (
            "2024-05-05T09:00:00",
            "has no zone; write it like 2026-03-02T09:00:00+01:00, or give a date for its end",
        ),
        ("monday", "is no time; write it like"),
        ("0001-01-01T00:00:00+14:00", "is no time"),
        ("", "is no time"),
    ):
        sentence = refused(capsys, *command.split(), option, typed, "--data", data)
        assert sentence.startswith(f"{option} {typed}")
        assert said in sentence


def test_json_has_the_same_shape_then_as_now(data: Path, task: str, capsys: Captured) -> None:
    """A program that reads the rows of now reads those of then."""

    def shapes(*options: str) -> list[list[str]]:
        commands = (*((name,) for name in PAGES), ("show", task), ("why", task))
        printed = (read(capsys, *words, "--json", "--data", data, *options) for words in commands)
        return [list(json.loads(out.splitlines()[0])) for out in printed]

    assert shapes() == shapes("--as-of", "2024-05-07") == shapes("--known-at", "2024-05-10")

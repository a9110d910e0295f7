"""The pages of the record: tasks, people, events, one row, why it is so, and what a search would see."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from flows.cli.find import find_row, short_id
from flows.cli.main import main
from flows.cli.story import tell
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.judge.contract import Answer, Proposal, ProposedCreate, ProposedMatch, ProposedNothing, ProposedUpdate
from flows.parse import outgoing
from store import Store, open_store
from store.arrow import to_arrow
from store.schema import (
    Action,
    Change,
    Delete,
    Event,
    Participant,
    PersonRow,
    Rejection,
    Settings,
    TaskRow,
    UsageError,
    Version,
    View,
)

Captured = pytest.CaptureFixture[str]

START = datetime(2026, 3, 2, 9, tzinfo=UTC)
ADA = Participant(id="U1", name="Ada Byron", address="ada@example.org")
BOB = Participant(id="U2", name="[red]Bob[/red]\x1b[31m", address="bob@example.org")
HOSTILE = "[bold red]Click[/bold red] \x1b]0;owned\x07 \u202eevil\u202c [link=http://x]here[/link]"


@dataclass
class ScriptedJudge:
    """Creates for the first message of a thread, marks it done for "done", and matches otherwise."""

    name: str = "scripted/1"
    remote: bool = False
    asked: list[str] = field(default_factory=list)

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        self.asked.append(event.id)
        return Answer(proposals=(self._proposal(event, view, refused),))

    def _proposal(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Proposal:
        mine = next((row for row in view.tasks() if row.same_thread), None)
        if event.text == "nothing":
            return ProposedNothing(reason="said so")
        if "refuse" in event.text and not refused:
            return ProposedMatch(target="S99", reason="a handle nobody showed")
        if mine is None:
            return ProposedCreate(
                title=" ".join(event.text.split())[:100],
                quote=event.text,
                assignees=tuple(p.handle for p in view.standby.people if p.role == "mentioned"),
                reason="the first of its thread",
                not_nothing="there is no row of the thread",
            )
        if "done" in event.text:
            return ProposedUpdate(
                target=mine.handle, state="done", quote="done", evidence=(mine.handle,), reason="it says done"
            )
        return ProposedMatch(target=mine.handle, evidence=(mine.handle,), reason="same thread")


def said(number: int, thread: str, text: str, author: Participant = ADA, workspace: str = "default") -> Line:
    event = Event(
        id=str(number),
        workspace=workspace,
        source="chat",
        thread=thread,
        at=START + timedelta(minutes=number),
        author=author,
        mentions=(BOB,) if "Bob" in text else (),
        text=text,
    )
    return Line(event.model_dump_json(), f"test:{number}")


LINES = (
    said(1, "ops", "Bob, order two antennas for SR-2023-052"),
    said(2, "ops", "ordered, done, refuse me once"),
    said(3, "web", HOSTILE, BOB),
    said(4, "tmp", "Write a note nobody needs"),
    said(5, "chat", "nothing"),
    said(6, "ops", "thanks for the antennas"),
    said(7, "far", "Water the plants", workspace="greenhouse"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a real run over a few messages, after which a person deleted the note."""
    path = tmp_path_factory.mktemp("pages")
    settings = Settings()
    folder = DataFolder.at(path, settings)
    EmbeddedRun(folder, settings, ScriptedJudge(), paced=True).run(LINES)
    [note] = [row for row in rows_of(folder.store()) if row.thread == "tmp"]
    gone = Delete(id="o-1", workspace="default", thread="tmp", row=note.id, seen=note.version, by="Ada")
    folder.topic("operations").append([outgoing(gone)])
    EmbeddedRun(folder, settings, ScriptedJudge()).run()
    return path


@pytest.fixture(scope="module")
def store(data: Path) -> Store:
    """The store of the run."""
    return open_store(data / "store")


def rows_of(store: Store) -> list[TaskRow]:
    return store.record.listed("tasks", TaskRow, newest="updated", limit=100)


def task_of(store: Store, thread: str) -> TaskRow:
    [row] = [row for row in rows_of(store) if row.thread == thread]
    return row


def read(capsys: Captured, *arguments: str | Path) -> str:
    """What a command prints when it succeeds; never anything that steers a terminal."""
    assert 0 == main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert not {"\x1b", "\x07", "\u202e"} & set(out + err)
    return out


def test_tasks_for_people(data: Path, store: Store, capsys: Captured) -> None:
    """One row a task, newest first, with people by name and somebody's markup as text."""
    lines = read(capsys, "tasks", "--data", data).splitlines()
    rows = [line.split() for line in lines if line.strip().startswith("t-")]
    assert [short_id(row.id) for row in rows_of(store)] == [row[0] for row in rows]
    page = "\n".join(lines)
    assert "[bold red]Click[/bold red]" in page
    assert "[red]Bob[/red]\\x1b[31m" in page
    assert "greenhouse" in page


def test_tasks_for_programs(data: Path, store: Store, capsys: Captured) -> None:
    """`--json` is one whole row a line, and the value is the text as it was said."""
    found = [
        TaskRow.model_validate_json(line) for line in read(capsys, "tasks", "--data", data, "--json").splitlines()
    ]
    assert rows_of(store) == found
    assert HOSTILE in [row.body for row in found]


@pytest.mark.parametrize(
    ("options", "threads"),
    [
        (["--state", "done"], ["ops"]),
        (["--thread", "web"], ["web"]),
        (["--workspace", "greenhouse"], ["far"]),
        (["--limit", "2"], ["far", "web"]),
        (["--thread", "it's none' OR true --"], []),
    ],
)
def test_tasks_are_chosen(options: list[str], threads: list[str], data: Path, capsys: Captured) -> None:
    """State, thread, workspace and limit choose; a quote in a name is only a quote."""
    out = read(capsys, "tasks", "--data", data, "--json", *options)
    assert threads == [json.loads(line)["thread"] for line in out.splitlines()]


def test_pages_say_when_there_is_nothing_or_more(data: Path, capsys: Captured) -> None:
    """An empty page and a cut page say so on stderr."""
    main(["tasks", "--data", str(data), "--state", "blocked"])
    assert ("", "There are no such tasks.\n") == capsys.readouterr()
    main(["people", "--data", str(data), "--limit", "1"])
    assert "There are more than 1 people; raise --limit to see them.\n" == capsys.readouterr().err


def test_people(data: Path, capsys: Captured) -> None:
    """People with their names and addresses."""
    out = read(capsys, "people", "--data", data, "--workspace", "default")
    assert "Ada Byron" in out
    assert "bob@example.org" in out
    found = [
        PersonRow.model_validate_json(line)
        for line in read(capsys, "people", "--data", data, "--json").splitlines()
    ]
    assert 3 == len(found)


def test_events_by_outcome(data: Path, capsys: Captured) -> None:
    """Events with what became of them."""
    out = read(capsys, "events", "--data", data, "--outcome", "not_a_task", "--json")
    assert ["nothing"] == [json.loads(line)["text"] for line in out.splitlines()]
    assert "matched" in read(capsys, "events", "--data", data, "--thread", "ops")


def test_show_by_prefix(data: Path, store: Store, capsys: Captured) -> None:
    """A row is shown by its id or a unique beginning of it, whole."""
    task = task_of(store, "ops")
    for typed in (task.id, short_id(task.id), task.id[:8]):
        out = read(capsys, "show", typed, "--data", data)
        assert task.id in out
        assert "Bob, order two antennas for SR-2023-052" in out
    assert task == TaskRow.model_validate_json(read(capsys, "show", task.id, "--data", data, "--json"))
    assert "ada@example.org" in read(capsys, "show", task.requester or "", "--data", data)
    out = read(capsys, "show", task.evidence[1], "--data", data)
    assert "updated" in out
    assert task.id in out


@pytest.mark.parametrize(
    ("command", "typed", "told"),
    [
        ("show", "t-000000", "There is no row t-000000; `lookfirst tasks`"),
        ("show", "t-0", "'t-0' is no id"),
        ("show", "antennas", "'antennas' is no id"),
        ("show", "x-000000", "'x-000000' is no id"),
        ("why", "p-000000", "'p-000000' is no id"),
        ("why", "t-000000", "There is no row t-000000; `lookfirst tasks`"),
    ],
)
def test_unknown_rows(command: str, typed: str, told: str, data: Path, capsys: Captured) -> None:
    """An id that names nothing is wrong usage and says what would be right."""
    assert 2 == main([command, typed, "--data", str(data)])
    assert told in capsys.readouterr().err


def test_ambiguous_prefix(tmp_path: Path) -> None:
    """A beginning of several ids is refused, with the ids it begins."""
    store = open_store(tmp_path, create=True)
    ids = [f"p-abcdef{n:018x}" for n in (1, 2)]
    people = [PersonRow(id=row_id, workspace="w", first_seen=START, last_seen=START) for row_id in ids]
    store.tables["people"].add(to_arrow(PersonRow, people))
    with pytest.raises(UsageError, match=f"p-abcdef begins 2 ids \\({ids[0]}, {ids[1]}\\)"):
        find_row(store.record, "p-abcdef")
    assert ids[1] == find_row(store.record, ids[1])


def test_why_tells_each_change(data: Path, store: Store, capsys: Captured) -> None:
    """Each change with its event, what was visible, what was decided and why, and what was refused."""
    task = task_of(store, "ops")
    out = read(capsys, "why", short_id(task.id), "--data", data)
    created, changed = out.split("\n2. ")
    for told in (
        "created",
        "title: Bob, order two antennas for SR-2023-052",
        "assignees: + [red]Bob[/red]\\x1b[31m",
        "Ada Byron, 2026-03-02 09:01, chat ops",
        "thread: empty",
        "create, by scripted/1",
        "the first of its thread",
        "there is no row of the thread",
    ):
        assert told in created
    for told in (
        "state: open → done",
        "complete",
        "update, by scripted/1",
        "it says done",
        "attempt 1, R41",
        "S99",
    ):
        assert told in changed
    assert ": Bob, order two antennas for SR-2023-052" in changed[changed.index("evidence") :]


def test_why_of_a_deleted_task(data: Path, store: Store, capsys: Captured) -> None:
    """A deleted task is not listed, `show` says where its story is, and `why` tells it with the person's part."""
    [note] = {
        change["row_id"] for change in store.record.arrow("changes").to_pylist() if change["action"] == "delete"
    }
    assert 2 == main(["show", note, "--data", str(data)])
    assert f"`lookfirst why {note}`" in capsys.readouterr().err
    out = read(capsys, "why", note, "--data", data)
    assert f"{note} Write a note nobody needs (deleted)" in out
    assert "Ada, in person" in out
    story = json.loads(read(capsys, "why", note, "--data", data, "--json"))
    assert (None, [False, False]) == (story["row"], [step["absorbed"] for step in story["steps"]])


def test_story_of_changes_under_a_tombstone() -> None:
    """What was said while the task was deleted is told, and marked as without effect."""

    def change(number: int, action: Action, field_name: str = "", value: str = "") -> Change:
        version = Version(at=START + timedelta(minutes=number), seq=number, operation=f"o-{number}")
        return Change(
            table="tasks",
            row_id="t-1",
            workspace="w",
            field=field_name,
            action=action,
            value=value,
            version=version,
            arrived=START,
        )

    changes = [
        change(5, Action.SET, "state", "blocked"),
        change(4, Action.RESTORE),
        change(3, Action.SET, "state", "done"),
        change(2, Action.DELETE),
        change(1, Action.CREATE),
        change(1, Action.SET, "state", "open"),
    ]
    steps = tell(changes, {}, {}, {})
    assert [False, False, True, False, False] == [step.absorbed for step in steps]
    assert ("open", "blocked") == (steps[-1].fields[0].before, steps[-1].fields[0].after)
    assert [Action.CREATE, Action.DELETE, None, Action.RESTORE, None] == [step.whole for step in steps]


def test_search_shows_the_lanes(data: Path, store: Store, capsys: Captured) -> None:
    """A search shows the queries, how each read ended, and the rows with their ranks, like a judgment's."""
    out = read(capsys, "search", "antennas of SR-2023-052", "--data", data, "--as", "ada@example.org")
    assert f"S1 (exact 1, text 1, author, newest 1 = {4 / 61:.4f}): Bob, order two antennas for SR-2023-052" in out
    assert ["exact lane", "text lane", "order"] == [
        line[:12].strip() for line in out.splitlines() if line.startswith(("exact lane", "text lane", "order"))
    ]
    assert "thread: empty" in out
    assert "Ada Byron, ada@example.org · author" in out
    view = View.model_validate_json(
        read(capsys, "search", "antennas", "--data", data, "--thread", "ops", "--json")
    )
    assert [task_of(store, "ops").id] == [row.row_id for row in view.slices]
    assert view.slices[0].same_thread


def test_search_as_somebody_in_a_thread(data: Path, capsys: Captured) -> None:
    """A name or an address is a person of the workspace; whoever is not known has no row."""

    def ties(*arguments: str) -> list[tuple[str, ...]]:
        out = read(capsys, "search", "antennas", "--data", data, "--json", *arguments)
        return [row.ties for row in View.model_validate_json(out).slices]

    assert [("author",)] == ties("--as", "Ada Byron")
    assert [("author",)] == ties("--as", "bob@example.org")
    assert [()] == ties("--as", "nobody", "--in", "ops")
    assert [()] == ties()
    out = read(capsys, "search", "antennas", "--data", data, "--json", "--as", "Ada Byron", "--in", "ops")
    assert View.model_validate_json(out).slices[0].same_thread


def test_search_for_nothing(data: Path, capsys: Captured) -> None:
    """Words that say nothing are wrong usage; words in an empty workspace find nothing, and it is said."""
    assert 2 == main(["search", "  ", "--data", str(data)])
    capsys.readouterr()
    assert 0 == main(["search", "antennas", "--data", str(data), "--workspace", "nowhere"])
    assert "Nothing was found in workspace nowhere.\n" == capsys.readouterr().err


def test_commands_write_nothing(data: Path, capsys: Captured) -> None:
    """Reading the pages changes no topic and no table."""

    def versions() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (data / "topics").iterdir()}

    before, tables = versions(), sorted(path for path in (data / "store").rglob("*.manifest"))
    for command in (["tasks"], ["people"], ["events"], ["search", "antennas"]):
        read(capsys, *command, "--data", data)
    assert before == versions()
    assert tables == sorted(path for path in (data / "store").rglob("*.manifest"))

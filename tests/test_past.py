"""The record as it was: what had happened by a moment, what was known at one, and both."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.topic_file import TopicFile
from flows.apply import record_positions
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.intake import Line, produced
from flows.judge.contract import Answer
from store import Store, open_store
from store.commit import StoreWriter
from store.derive import Applied
from store.past import Past, RowTable
from store.schema import (
    Arrival,
    Coordinates,
    Edit,
    Event,
    EventRow,
    FailureClass,
    NotATask,
    Parked,
    Participant,
    PersonRow,
    Settings,
    TaskRow,
    UsageError,
    View,
    load_settings,
)
from store.schema.identity import operation_id, task_id
from store.upkeep import Upkeep
from tests.strategies import EVENTS, OPERATIONS, applied, batches, cuts, decision, histories
from tests.test_commit import creating, updating
from tests.workplace import ANNA, START, Script, answer, create, event, update

few = settings(deadline=None, print_blob=True, max_examples=12)

Captured = pytest.CaptureFixture[str]
Fresh = Callable[[], Store]
Bounds = dict[str, datetime | None]

TABLES: tuple[RowTable, ...] = get_args(RowTable)
MODELS = {"tasks": (TaskRow, "updated"), "people": (PersonRow, "last_seen"), "events": (EventRow, "at")}
MINUTE = timedelta(minutes=1)
LATE = START + timedelta(days=1)
"""After everything that the strategies make."""


@pytest.fixture(scope="module")
def fresh() -> Iterator[Fresh]:
    """Empty stores, each a copy of one that was made once."""
    with tempfile.TemporaryDirectory() as folder:
        open_store(Path(folder) / "empty", create=True)
        made = 0

        def copied() -> Store:
            nonlocal made
            made += 1
            return open_store(shutil.copytree(Path(folder) / "empty", Path(folder) / str(made)))

        yield copied


def commit(store: Store, *batches: Sequence[Applied]) -> Store:
    """The store after one commit for each batch."""
    writer = StoreWriter(store.tables, store.record, store.memory, Upkeep(store.tables, 512, 48))
    for batch in batches:
        writer.commit(batch, record_positions(batch, OPERATIONS, "id"))
    return store


def happened(message: Applied) -> datetime:
    """The event time of a message; what a person does happens when it arrives."""
    return message.message.arrival.happened if hasattr(message.message, "arrival") else message.arrived


def came(message: Applied) -> datetime:
    """When a message arrived: a Decision arrives with its event."""
    return message.message.arrival.arrived if hasattr(message.message, "arrival") else message.arrived


def within(message: Applied, bounds: Bounds) -> bool:
    """Whether a message had happened and had arrived."""
    as_of, known_at = bounds.get("as_of"), bounds.get("known_at")
    return (as_of is None or happened(message) <= as_of) and (known_at is None or came(message) <= known_at)


def rows_of(rows: Any) -> dict[str, list[Any]]:
    """The three tables of a record or of a past, as plain values."""
    return {name: rows.arrow(name).to_pylist() for name in TABLES}


moments = st.integers(-1, 11).map(lambda minutes: START + timedelta(minutes=minutes))
bounds_of_one_time = st.sampled_from(("as_of", "known_at")).flatmap(
    lambda name: moments.map(lambda moment: {name: moment})
)
bounds = bounds_of_one_time | st.fixed_dictionaries({"as_of": moments, "known_at": moments})


@pytest.mark.promise("U10")
@few
@given(history=histories(parked=2), data=st.data())
def test_the_past_after_everything_is_the_record(
    fresh: Fresh, history: list[Applied], data: st.DataObject
) -> None:
    """At a moment after everything, and at none, every row is that of the record, in any order and batching."""
    order = data.draw(st.permutations(history))
    shuffled = [applied(each.message, n, each.arrived) for n, each in enumerate(order)]
    store = commit(fresh(), *batches(shuffled, data.draw(cuts(len(shuffled)))))
    record = rows_of(store.record)
    for past in (store.past(), store.past(as_of=LATE), store.past(known_at=LATE, as_of=LATE)):
        assert record == rows_of(past)
        for name in TABLES:
            ids = [row["id"] for row in record[name]]
            assert getattr(store.record, name)(ids) == getattr(past, name)(ids)


@pytest.mark.promise("U10")
@few
@given(history=histories(parked=2), bounds=bounds, data=st.data())
def test_the_past_is_the_record_of_what_had_happened_and_arrived(
    fresh: Fresh, history: list[Applied], bounds: Bounds, data: st.DataObject
) -> None:
    """Of all messages at a moment, whole: as if only those within it had ever come; of pages too."""
    store = commit(fresh(), *batches(history, data.draw(cuts(len(history)))))
    then = [message for message in history if within(message, bounds)]
    other = commit(fresh(), *([then] if then else []))
    past = store.past(**bounds)
    assert rows_of(other.record) == rows_of(past)
    for name in TABLES:
        model, newest = MODELS[name]
        ids = store.record.arrow(name)["id"].to_pylist()
        assert getattr(other.record, name)(ids) == getattr(past, name)(ids)
        for chosen in _pages(name):
            expected = other.record.listed(name, model, newest=newest, **chosen)
            assert expected == past.listed(name, model, newest=newest, **chosen)


def _pages(table: str) -> Iterator[dict[str, Any]]:
    yield {"limit": 100}
    yield {"limit": 1}
    yield {"limit": 2, "workspace": "default"}
    if table == "tasks":
        yield {"limit": 3, "state": "open", "thread": None}
        yield {"limit": 1, "thread": "t", "workspace": "other"}
    if table == "events":
        yield {"limit": 2, "outcome": "created"}
        yield {"limit": 9, "outcome": "parked", "thread": "u"}


def arrival(number: int, at: datetime, arrived: datetime | None = None, name: str | None = None) -> Arrival:
    """The event at offset `number`."""
    said = Event(id=name or str(number), source="mail", thread="t", at=at, author=ANNA, text="please review it")
    return Arrival(event=said, arrived=arrived or at, coordinates=Coordinates(topic=EVENTS, offset=number))


def task_of(came: Arrival) -> str:
    """The task that the first operation of an event creates."""
    return task_id(operation_id(came.event.uid, 0, 0))


def numbered(*messages: tuple[Any, datetime]) -> list[Applied]:
    """Messages one after the other on the operations topic, each with the time it was appended."""
    return [applied(message, offset, when) for offset, (message, when) in enumerate(messages)]


@pytest.mark.promise("U10")
def test_a_moment_is_within_itself(fresh: Fresh) -> None:
    """To the microsecond, in any year: what happens at T is there as of T, and not a microsecond earlier."""
    for year in (1, 1600, 2024):
        at = datetime(year, 5, 1, 8, 0, 0, 7, tzinfo=UTC)
        made = arrival(0, at, START)
        store = commit(fresh(), numbered((creating(made), START)))
        assert [task_of(made)] == list(store.past(as_of=at).tasks())
        assert [task_of(made)] == list(store.past(known_at=START).tasks())
        just_before = timedelta(microseconds=1)
        for past in (store.past(as_of=at - just_before), store.past(known_at=START - just_before)):
            assert [{}, {}, {}] == [past.tasks(), past.people(), past.events()]


@pytest.mark.promise("U10")
def test_an_edit_beats_what_arrived_before_it_then_as_now(fresh: Fresh) -> None:
    """A message that arrived first and is decided last is what was known before the edit, and not after."""
    made = arrival(0, START)
    said = arrival(1, START + MINUTE, START + 2 * MINUTE)
    edit = Edit(
        id="edit", workspace="default", thread="t", row=task_of(made), seen=None, by="ben", state="in_progress"
    )
    slow = START + 9 * MINUTE
    messages = numbered(
        (creating(made), START), (edit, START + 3 * MINUTE), (updating(said, task_of(made), state="done"), slow)
    )
    store = commit(fresh(), messages)

    def state(**bounds: datetime) -> str:
        return str(store.past(**bounds).tasks()[task_of(made)].state)

    minutes = [START + number * MINUTE for number in range(5)]
    assert ["open", "open", "done", "in_progress", "in_progress"] == [state(known_at=at) for at in minutes]
    assert ["open", "done", "done", "in_progress", "in_progress"] == [state(as_of=at) for at in minutes]
    assert "open" == state(as_of=minutes[4], known_at=minutes[1])


def test_a_second_decision_never_counts(fresh: Fresh) -> None:
    """Dropped whole now, it is dropped whole then, also at a moment before the one that stands had arrived."""
    first, again = arrival(0, START, name="twice"), arrival(1, START, START + 2 * MINUTE, name="twice")
    other = NotATask(id=operation_id(first.event.uid, 0, 0), number=0, reason="small talk")
    messages = numbered((creating(again), START + 3 * MINUTE), (decision(first, [other]), START + 3 * MINUTE))
    store = commit(fresh(), messages)
    assert [1, 1] == [store.record.count("decisions", where) for where in ("stands", "NOT stands")]
    early, late = store.past(known_at=START + MINUTE), store.past(known_at=START + 2 * MINUTE)
    assert [{}, {}] == [early.tasks(), early.events()]
    assert [["created"], 1] == [[row.outcome for row in late.events().values()], len(late.tasks())]


def test_an_event_that_was_parked_and_decided_later(fresh: Fresh) -> None:
    """While it is parked it was parked; once it is decided it is there from the arrival that was decided."""
    first, again = arrival(0, START, name="twice"), arrival(1, START, START + 2 * MINUTE, name="twice")
    parked = Parked(arrival=first, failure=FailureClass.CONTENT, reason="no answer", attempts=3)
    messages = numbered((parked, START), (creating(again), START + 3 * MINUTE))
    store = commit(fresh(), messages[:1])

    def outcomes(known_at: datetime) -> list[str]:
        return [row.outcome for row in store.past(known_at=known_at).events().values()]

    assert [[], ["parked"]] == [outcomes(START - MINUTE), outcomes(START)]
    commit(store, messages[1:])
    assert [[], ["created"]] == [outcomes(START + MINUTE), outcomes(START + 2 * MINUTE)]
    assert ["created"] == [row.outcome for row in store.past(as_of=START).events().values()]


@pytest.mark.promise("U10")
def test_a_run_in_progress_adds_nothing_to_the_past(fresh: Fresh) -> None:
    """What is applied while a past is read, and is later than it, is not in it."""
    made, later = arrival(0, START), arrival(1, LATE)
    first, second = numbered((creating(made), START), (updating(later, task_of(made), state="done"), LATE))
    store = commit(fresh(), [first])

    class Busy:
        """A record to which a commit comes just before it is read."""

        def arrow(self, table: str) -> Any:
            commit(store, [second])
            return store.record.arrow(table)

    past = Past(store.tables, Busy(), as_of=START)  # type: ignore[arg-type]
    assert ["open"] == past.arrow("tasks")["state"].to_pylist()
    assert ["done"] == store.record.arrow("tasks")["state"].to_pylist()


def test_many_tasks_are_folded_in_one_go(fresh: Fresh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the changes are read by row or gone through once, in small pieces or large: the same rows."""
    made = [arrival(number, START + number * MINUTE) for number in range(40)]
    messages = [(creating(each), each.arrived) for each in made]
    closed = [arrival(100 + number, LATE + number * MINUTE) for number in range(30)]
    messages += [
        (updating(each, task_of(old), state="done"), each.arrived) for each, old in zip(closed, made, strict=False)
    ]
    store = commit(fresh(), numbered(*messages))
    past = store.past(as_of=LATE + 9 * MINUTE)
    expected = rows_of(past)
    assert (40, 10) == (len(expected["tasks"]), [row["state"] for row in expected["tasks"]].count("done"))
    page = past.listed("tasks", TaskRow, newest="updated", limit=30)
    monkeypatch.setattr("store.past._FEW", 3)
    monkeypatch.setattr("store.past._AT_ONCE", 7)
    assert expected == rows_of(past)
    assert page == past.listed("tasks", TaskRow, newest="updated", limit=30)


def test_a_notebook_reads_the_past_as_arrow(fresh: Fresh) -> None:
    """From an opened store alone: tables in the schema of the record's, ordered by id, empty ones as well."""
    made = [arrival(number, START + number * MINUTE) for number in range(5)]
    store = commit(fresh(), numbered(*((creating(each), each.arrived) for each in made)))
    for when, count in ((START - MINUTE, 0), (START + 2 * MINUTE, 3), (LATE, 5)):
        past = store.past(as_of=when)
        for name in TABLES:
            found, now = past.arrow(name), store.record.arrow(name)
            assert now.schema.equals(found.schema)
            assert sorted(found["id"].to_pylist()) == found["id"].to_pylist()
        assert [count, count] == [past.arrow("tasks").num_rows, past.arrow("events").num_rows]
        assert past.arrow("tasks")["id"].to_pylist() == list(past.tasks())


def test_a_past_needs_a_zone_and_a_table_that_has_one(fresh: Fresh) -> None:
    """A time without a zone could be any of 24, one outside of all years is none, and sessions have no past."""
    store = fresh()
    with pytest.raises(UsageError, match="as_of 2024-05-01 09:00:00 has no zone"):
        store.past(as_of=datetime(2024, 5, 1, 9))
    with pytest.raises(UsageError, match=r"known_at 0001-01-01 .* cannot be used: the time is outside"):
        store.past(known_at=datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))
    with pytest.raises(UsageError, match="There is no past of 'sessions'"):
        store.past().arrow("sessions")  # type: ignore[arg-type]
    assert isinstance(store.past(known_at=START), Past)


# Through the command line, over a real run: two weeks of May 2024, of which the 6th is a Monday.


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
        patch.setenv("LOOKFIRST_JUDGE", "tests.test_past:judge")
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
    pages = [read(capsys, name, *when, *form) for name in TABLES for form in ((), ("--json",))]
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
    for name in TABLES:
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
@pytest.mark.parametrize("command", [*TABLES, "show t-000000", "why t-000000"])
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
        commands = (*((name,) for name in TABLES), ("show", task), ("why", task))
        printed = (read(capsys, *words, "--json", "--data", data, *options) for words in commands)
        return [list(json.loads(out.splitlines()[0])) for out in printed]

    assert shapes() == shapes("--as-of", "2024-05-07") == shapes("--known-at", "2024-05-10")

"""The record as it was: what had happened by a moment, what was known at one, and both."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.apply import record_positions
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
    PersonRow,
    TaskRow,
    UsageError,
)
from store.schema.identity import operation_id, task_id
from store.upkeep import Upkeep
from tests.strategies import EVENTS, OPERATIONS, applied, batches, cuts, decision, histories
from tests.test_commit import creating, updating
from tests.workplace import ANNA, START

few = settings(deadline=None, print_blob=True, max_examples=12)

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

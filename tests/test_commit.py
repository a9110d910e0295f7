"""The only writer: whatever the order, the cuts, the repetitions and the crashes, the same rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.apply import record_positions
from store import Store, open_store
from store.commit import CommitReport, StoreWriter
from store.derive import Applied
from store.memory import ExactRequest
from store.merge import fold_task
from store.schema import (
    Arrival,
    Coordinates,
    Create,
    Decision,
    Delete,
    Edit,
    Event,
    FailureClass,
    Gap,
    Message,
    Metadata,
    NotATask,
    Parked,
    Participant,
    Restore,
    SessionEntry,
    Summary,
    SummaryComponents,
    TaskRow,
    Update,
    Version,
    parse_event,
    parse_message,
)
from store.schema.identity import operation_id, task_id
from store.tables import RECORD, Tables
from store.upkeep import Upkeep
from tests.strategies import EVENTS, OPERATIONS, applied, batches, cuts, decision, histories
from tests.test_merge_laws import reference
from tests.workplace import START, rows_of

few = settings(deadline=None, print_blob=True, max_examples=12)

Fresh = Callable[[], Store]


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fresh]:
    """Empty stores, each a copy of one that was made once."""
    folder = tmp_path_factory.mktemp("stores")
    open_store(folder / "empty", create=True)
    made = 0

    def copied() -> Store:
        nonlocal made
        made += 1
        shutil.copytree(folder / "empty", folder / str(made))
        return open_store(folder / str(made))

    yield copied
    shutil.rmtree(folder)


def commit(store: Store, batch: Sequence[Applied], tables: Tables | None = None) -> CommitReport:
    """One commit by a writer that knows nothing of earlier ones."""
    writer = StoreWriter(tables or store.tables, store.record, store.memory, Upkeep(store.tables, 512, 48))
    return writer.commit(batch, record_positions(batch, OPERATIONS, "id"))


def everything(store: Store) -> dict[str, list[Any]]:
    """Every table of the record as plain values."""
    return rows_of(store, tuple(RECORD))


def remembered(store: Store) -> list[Any]:
    """All that can be searched."""
    rows: list[Any] = store.tables["memory"].to_arrow().sort_by("row_id").to_pylist()
    return rows


def arrival(number: int, text: str = "please review it", thread: str = "t") -> Arrival:
    """The event at offset `number`."""
    author = Participant(id=f"p{number}", name="Ben")
    event = Event(id=str(number), source="chat", thread=thread, at=START, author=author, text=text)
    return Arrival(event=event, arrived=START, coordinates=Coordinates(topic=EVENTS, offset=number))


def row_of(came: Arrival) -> str:
    """The task that the first operation of an event creates."""
    return task_id(operation_id(came.event.uid, 0, 0))


def creating(came: Arrival, title: str = "review") -> Decision:
    """A Decision that creates a task."""
    create = Create(
        id=operation_id(came.event.uid, 0, 0),
        number=0,
        task=row_of(came),
        title=title,
        quote=came.event.text,
        reason="it asks",
        not_nothing="new",
    )
    return decision(came, [create])


def updating(came: Arrival, row: str, **fields: Any) -> Decision:
    """A Decision that updates a task."""
    update = Update(
        id=operation_id(came.event.uid, 0, 0),
        number=0,
        task=row,
        seen=Version(at=START, seq=0, operation="o"),
        quote=came.event.text,
        reason="it says so",
        **fields,
    )
    return decision(came, [update])


def by_hand(kind: type[Edit] | type[Delete] | type[Restore], row: str, name: str, **fields: Any) -> Message:
    """What a person does to a task."""
    return kind(id=name, workspace="default", thread="t", row=row, seen=None, by="ben", **fields)


def parked(came: Arrival) -> Parked:
    """An event that could not be decided."""
    return Parked(arrival=came, failure=FailureClass.CONTENT, reason="no answer", attempts=3)


def summary(name: str, thread: str = "t") -> Summary:
    """A summary of a thread."""
    components = SummaryComponents(goal="ship")
    return Summary(
        id=name, workspace="default", thread=thread, first_event="e-1", last_event="e-2", components=components
    )


def numbered(*messages: Message, start: int = 0) -> list[Applied]:
    """Messages one after the other on the topic."""
    return [applied(message, offset) for offset, message in enumerate(messages, start)]


@few
@given(history=histories(events=3, by_hand=3, parked=2), data=st.data())
def test_row_tables_do_not_depend_on_order_cuts_and_repetition(
    history: list[Applied], data: st.DataObject, fresh: Fresh
) -> None:
    """Messages of distinct identity in any order and any batches, some again: equal tasks, people and events."""
    chance = data.draw(st.randoms(use_true_random=False))
    straight, mixed = fresh(), fresh()
    commit(straight, history)
    order = list(history)
    chance.shuffle(order)
    for batch in batches(order, data.draw(cuts(len(order)))):
        commit(mixed, batch)
    commit(mixed, chance.sample(order, chance.randint(1, len(order))))
    rows = rows_of(straight)
    assert rows == rows_of(mixed)
    by_design = {row: value.model_dump() for row, value in reference(history).items()}
    assert by_design == {row["id"]: _plain(row) for name in ("tasks", "people") for row in rows[name]}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}


def test_one_message_twice_in_one_batch_is_applied_once(fresh: Fresh) -> None:
    """A batch that holds the same message of the topic twice has one row of it in every table."""
    once, twice = fresh(), fresh()
    first, second = numbered(creating(arrival(0)), by_hand(Edit, row_of(arrival(0)), "o-e", state="done"))
    commit(once, [first, second])
    commit(twice, [first, first, second, second])
    assert everything(once) == everything(twice)


@pytest.mark.promise("D1", "D9")
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "an hour later"])
def test_first_decision_of_an_identity_stands_whole(fresh: Fresh, together: bool) -> None:
    """Of two Decisions of one event the lower offset stands; the other is counted, kept, and changes nothing."""
    alone, both = fresh(), fresh()
    came = arrival(0)
    again = came.model_copy(update={"coordinates": Coordinates(topic=EVENTS, offset=9)})
    first, second = numbered(creating(came), creating(again, "another title"))
    commit(alone, [first])
    reports = [commit(both, [first, second])] if together else [commit(both, [first]), commit(both, [second])]
    assert (1, 1) == (sum(report.decided for report in reports), sum(report.dropped for report in reports))
    for name in ("changes", "tasks", "people", "sessions", "events"):
        assert alone.record.arrow(name).to_pylist() == both.record.arrow(name).to_pylist()
    kept = sorted(both.record.decisions([creating(came).id]), key=lambda row: row.position)
    assert [(0, True, first.raw), (1, False, second.raw)] == [
        (row.position, row.stands, row.message) for row in kept
    ]


@pytest.mark.promise("D9")
def test_applying_a_dropped_decision_again_drops_it_again(fresh: Fresh) -> None:
    """The whole topic once more, in whatever batches, counts nothing as decided."""
    store = fresh()
    messages = numbered(creating(arrival(0)), creating(arrival(0), "another"), creating(arrival(1)))
    commit(store, messages)
    before = everything(store)
    again = [commit(store, [message]) for message in messages]
    assert [(0, 0, 1), (0, 1, 0), (0, 0, 1)] == [(one.decided, one.dropped, one.repeated) for one in again]
    assert before == everything(store)


@pytest.mark.parametrize(
    "order",
    [("parked", "decision"), ("decision", "parked"), ("parked", "decision", "parked"), ("parked", "parked")],
    ids=" then ".join,
)
@pytest.mark.parametrize("together", [True, False], ids=["one batch", "one by one"])
def test_parked_never_stands_against_a_decision(fresh: Fresh, order: tuple[str, ...], together: bool) -> None:
    """An event row is parked only while there is no Decision of it, whichever came first."""
    store, came = fresh(), arrival(0)
    messages = numbered(*(parked(came) if each == "parked" else creating(came) for each in order))
    for batch in [messages] if together else [[message] for message in messages]:
        commit(store, batch)
    row = store.record.events([came.event.uid])[came.event.uid]
    expected = ("created", creating(came).id) if "decision" in order else ("parked", None)
    assert expected == (row.outcome, row.decision)


class _Interrupted(Exception):
    """The process ends here."""


class _Table:
    """A table whose writes are logged, and fail from a given one on."""

    def __init__(self, name: str, table: Any, log: list[str], fail_at: int | None) -> None:
        self._name, self._table, self._log, self._fail_at = name, table, log, fail_at

    def _write(self) -> None:
        if self._fail_at is not None and len(self._log) >= self._fail_at:
            raise _Interrupted
        self._log.append(self._name)

    def merge_insert(self, key: str) -> Any:
        self._write()
        return self._table.merge_insert(key)

    def delete(self, where: str) -> Any:
        self._write()
        return self._table.delete(where)


def interrupted(store: Store, fail_at: int | None) -> tuple[Tables, list[str]]:
    """The tables of a store with writes that fail after `fail_at` of them, and the log of those that did not."""
    log: list[str] = []
    watched = {name: _Table(name, store.tables[name], log, fail_at) for name in RECORD}
    return Tables(store.tables.path, watched), log


def _before_and_batch() -> tuple[list[Applied], list[Applied]]:
    """A commit that went well, and one that writes every table in every way."""
    first, second, third = arrival(0), arrival(1), arrival(2)
    before = numbered(creating(first), creating(second), parked(third))
    batch = numbered(
        creating(third, "a third"),
        updating(arrival(3), row_of(first), state="done", assign=("p-1",)),
        summary("s-1"),
        creating(first, "dropped"),
        by_hand(Delete, row_of(second), "o-delete"),
        by_hand(Edit, row_of(first), "o-edit", title="renamed"),
        decision(
            arrival(4, thread="u"),
            [NotATask(id=operation_id(arrival(4, thread="u").event.uid, 0, 0), number=0, reason="talk")],
        ),
        parked(arrival(5)),
        start=len(before),
    )
    return before, batch


_ORDER = ["changes", "tasks", "tasks", "people", "sessions", "decisions", "events", "positions"]
"""Writes of that batch; the second one of tasks takes away what is not listed any more."""


def test_tables_are_written_in_a_fixed_order_with_positions_last(fresh: Fresh) -> None:
    """Changes first; a readable event row means a readable Decision; the applied position promises it all."""
    store = fresh()
    before, batch = _before_and_batch()
    commit(store, before)
    tables, log = interrupted(store, None)
    commit(store, batch, tables)
    assert _ORDER == log


@pytest.fixture(scope="module")
def uninterrupted(fresh: Fresh) -> dict[str, list[Any]]:
    """All rows after both of these commits went well."""
    store = fresh()
    for batch in _before_and_batch():
        commit(store, batch)
    return everything(store)


@pytest.mark.parametrize("one_by_one", [False, True], ids=["same batch", "one by one"])
@pytest.mark.parametrize("step", range(len(_ORDER)))
def test_commit_that_was_cut_short_is_finished_by_applying_it_again(
    fresh: Fresh, uninterrupted: dict[str, list[Any]], step: int, one_by_one: bool
) -> None:
    """Wherever it is cut: what is readable is whole, and the same messages again give the same rows."""
    cut = fresh()
    before, batch = _before_and_batch()
    commit(cut, before)
    tables, log = interrupted(cut, step)
    with pytest.raises(_Interrupted):
        commit(cut, batch, tables)
    assert _ORDER[:step] == log
    _assert_readable_events_are_whole(cut)
    for again in [[message] for message in batch] if one_by_one else [batch]:
        commit(cut, again)
    assert uninterrupted == everything(cut)


def _assert_readable_events_are_whole(store: Store) -> None:
    """All of a Decision can be read once its event row can, unless a later change took the row away."""
    for event in store.record.events(store.record.arrow("events")["id"].to_pylist()).values():
        if event.decision is None:
            continue
        (standing,) = (row for row in store.record.decisions([event.decision]) if row.stands)
        assert event.id == standing.event
        assert event.author in store.record.people([event.author])
        assert {standing.position} <= {entry.position for entry in _entries(store, event.thread)}
        history, rows = store.record.changes(event.rows), store.record.tasks(event.rows)
        for row in event.rows:
            assert event.id in {change.event for change in history[row]}
            if fold_task(history[row]):
                assert event.id in rows[row].evidence


def _entries(store: Store, thread: str = "t") -> list[SessionEntry]:
    rows = [SessionEntry(**row) for row in store.record.arrow("sessions").to_pylist()]
    return sorted((row for row in rows if row.thread == thread), key=lambda row: row.position)


def _talk() -> list[Applied]:
    gap = Gap(
        id="g-1", workspace="default", thread="t", first_event="e", last_event="e", reason="no answer", attempts=3
    )
    metadata = Metadata(id="m-1", workspace="default", thread="t", values={"a": "1"})
    return numbered(
        creating(arrival(0)), summary("s-1"), creating(arrival(1)), gap, creating(arrival(2, thread="u")), metadata
    )


@few
@given(marks=cuts(6), repeats=st.booleans())
def test_parent_of_a_session_entry_is_the_leaf_it_found(fresh: Fresh, marks: list[int], repeats: bool) -> None:
    """However the messages are cut, each thread is one chain in the order of the topic, and only grows."""
    store, chain = fresh(), _talk()
    seen: list[SessionEntry] = []
    for batch in batches(chain, marks):
        commit(store, batch)
        if repeats:
            commit(store, batch)
        entries = _entries(store)
        assert seen == entries[: len(seen)]
        seen = entries
    assert [0, 1, 2, 3, 5] == [entry.position for entry in seen]
    assert [None, *(entry.id for entry in seen[:-1])] == [entry.parent for entry in seen]
    assert [None] == [entry.parent for entry in _entries(store, "u")]
    assert {("default", "t"): seen[-1].id} == store.record.leaves([("default", "t")])


@pytest.mark.parametrize("together", [True, False], ids=["one batch", "one by one"])
def test_summary_that_comes_twice_is_kept_once(fresh: Fresh, together: bool) -> None:
    """A summary id that was written before adds nothing, and does not become the leaf again."""
    store = fresh()
    commit(store, numbered(creating(arrival(0)), summary("s-1"), creating(arrival(1))))
    again = numbered(summary("s-1"), creating(arrival(2)), start=3)
    for batch in [again] if together else [[message] for message in again]:
        commit(store, batch)
    entries = _entries(store)
    assert [0, 1, 2, 4] == [entry.position for entry in entries]
    assert [None, *(entry.id for entry in entries[:-1])] == [entry.parent for entry in entries]


def test_summary_that_comes_twice_in_one_batch_is_kept_once(fresh: Fresh) -> None:
    """The first of the two is the entry."""
    store = fresh()
    commit(store, numbered(summary("s-1"), creating(arrival(0)), summary("s-1"), creating(arrival(1))))
    entries = _entries(store)
    assert [0, 1, 3] == [entry.position for entry in entries]
    assert [None, *(entry.id for entry in entries[:-1])] == [entry.parent for entry in entries]


def test_summary_changes_no_row(fresh: Fresh) -> None:
    """A summary, a gap and metadata are entries of a session and nothing else."""
    store = fresh()
    commit(store, numbered(creating(arrival(0))))
    before = rows_of(store, ("changes", "tasks", "people", "decisions", "events"))
    commit(store, [message for message in _talk() if not isinstance(message.message, Decision)])
    assert before == rows_of(store, ("changes", "tasks", "people", "decisions", "events"))


@settings(few, max_examples=8)
@given(history=histories(events=3, by_hand=3, parked=1))
def test_store_and_memory_are_functions_of_the_topic(history: list[Applied], fresh: Fresh) -> None:
    """A store built anew from all messages, and memory made anew from the record, are equal to what grew."""
    grown, anew = fresh(), fresh()
    for message in history:
        commit(grown, [message])
        grown.memory.follow(grown.record)
    commit(anew, history)
    assert len(history) == anew.memory.follow(anew.record)
    assert everything(grown) == everything(anew)
    assert remembered(grown) == remembered(anew)
    grown.tables["memory"].delete("true")
    grown.tables["positions"].delete("part = 'memory'")
    grown.memory.follow(grown.record)
    assert remembered(anew) == remembered(grown)
    assert {row["id"] for row in everything(anew)["tasks"]} == {row["row_id"] for row in remembered(anew)}


def test_memory_that_was_cut_short_catches_up(fresh: Fresh) -> None:
    """Its position is written last: what it did not finish it does again."""
    store = fresh()
    commit(store, numbered(creating(arrival(0)), creating(arrival(1))))
    store.memory.project(store.record, [row_of(arrival(0))])
    commit(store, numbered(by_hand(Delete, row_of(arrival(0)), "o-1"), start=2))
    assert 3 == store.memory.follow(store.record)
    assert [row_of(arrival(1))] == [row["row_id"] for row in remembered(store)]
    assert 3 == store.memory.follow(store.record)


@pytest.mark.promise("H3")
def test_row_without_its_create_is_not_listed_searched_or_shown(fresh: Fresh) -> None:
    """An update of a row nobody created is kept as changes only; the create brings it to light."""
    store, first = fresh(), arrival(0)
    row = row_of(first)
    commit(store, numbered(updating(arrival(1), row, state="done", title="budget")))
    store.memory.follow(store.record)
    assert ({}, {}, []) == (
        store.record.tasks([row]),
        store.record.thread_tasks([("default", "t")]),
        store.record.recent_tasks("default", 5),
    )
    assert ([], [row]) == (store.memory.text("default", ["budget"], 5), list(store.record.changes([row])))
    commit(store, numbered(creating(first), start=1))
    store.memory.follow(store.record)
    assert ("done", "budget") == (store.record.tasks([row])[row].state, store.record.tasks([row])[row].title)
    assert [row] == store.memory.text("default", ["budget"], 5)


def test_deleted_row_is_found_nowhere_until_it_is_restored(fresh: Fresh) -> None:
    """Neither lane, nor the thread, nor the standby returns a row that a person deleted."""
    store, came = fresh(), arrival(0, "fix SR-2023-052 please")
    row = row_of(came)
    asked = [ExactRequest("default", frozenset({"ticket:SR-2023-052"}))]

    def found() -> list[list[str]]:
        store.memory.follow(store.record)
        return [
            store.memory.text("default", ["fix"], 5),
            *store.memory.exact(asked, 5),
            [stub.id for stubs in store.record.thread_tasks([("default", "t")]).values() for stub in stubs],
            [stub.id for stub in store.record.recent_tasks("default", 5)],
            list(store.record.tasks([row])),
        ]

    commit(store, numbered(creating(came)))
    assert [[row]] * 5 == found()
    commit(store, numbered(by_hand(Delete, row, "o-1"), start=1))
    assert [[]] * 5 == found()
    commit(store, numbered(by_hand(Restore, row, "o-2"), start=2))
    assert [[row]] * 5 == found()


_HOSTILE = ("'", "''", '"', "\\", "\\'", "%", "_", "' OR '1'='1", "'; DROP TABLE tasks; --", "/*", "?", "$1", "{}")


@pytest.fixture(scope="module")
def naughty(fresh: Fresh, request: pytest.FixtureRequest) -> tuple[Store, list[tuple[str, Arrival]]]:
    """A store in which every naughty string is a workspace, a thread, an id, a name and a text."""
    shared = request.getfixturevalue("shared_data")
    given = json.loads((shared / "naughty_strings.json").read_text(encoding="utf-8"))
    texts = dict.fromkeys(text for text in (*_HOSTILE, *given) if text)
    came: list[tuple[str, Arrival]] = []
    for offset, text in enumerate(texts):
        raw = {"source": "chat", "at": START.isoformat(), "author": {"id": text, "name": text}}
        event = parse_event(json.dumps({**raw, "id": text, "workspace": text, "thread": text, "text": text}))
        place = Coordinates(topic=EVENTS, offset=offset)
        came.append((event.text, Arrival(event=event, arrived=START, coordinates=place)))
    store = fresh()
    messages = [creating(arrival, text) for text, arrival in came]
    commit(store, numbered(*(parse_message(message.model_dump_json()) for message in messages)))
    store.memory.follow(store.record)
    return store, came


def test_naughty_strings_come_back_by_id_thread_and_person(
    naughty: tuple[Store, list[tuple[str, Arrival]]],
) -> None:
    """Whatever a workspace, a thread, an id or a name is called, its row is found again, and only its own."""
    store, came = naughty
    threads = [(text, text) for text, _ in came]
    rows = {row_of(arrival): text for text, arrival in came}
    assert len(came) == len(rows)
    tasks, events = store.record.tasks(rows), store.record.events(arrival.event.uid for _, arrival in came)
    assert rows == {row: task.title for row, task in tasks.items()}
    assert rows == {row: task.body for row, task in tasks.items()}
    assert {arrival.event.uid: text for text, arrival in came} == {uid: row.text for uid, row in events.items()}
    stubs = store.record.thread_tasks(threads)
    assert {(text, text): [row] for row, text in rows.items()} == {
        thread: [stub.id for stub in found] for thread, found in stubs.items()
    }
    assert set(threads) == set(store.record.leaves(threads))
    assert {} == store.record.summaries(threads)
    known = {person: text for text, arrival in came for person in arrival.event.people}
    assert {person: (text,) for person, text in known.items()} == {
        person: row.names for person, row in store.record.people(known).items()
    }
    assert len(came) - sum(not text.strip() for text, _ in came) == len(known)


def test_naughty_strings_break_no_filter(naughty: tuple[Store, list[tuple[str, Arrival]]]) -> None:
    """One by one, as a value of every kind of filter, a string selects its own row."""
    store, came = naughty
    for text, arrival in [*came[: len(_HOSTILE)], *came[len(_HOSTILE) :: 3]]:
        row = row_of(arrival)
        assert [row] == [stub.id for stub in store.record.recent_tasks(text, 5)]
        listed = store.record.listed("tasks", TaskRow, newest="updated", limit=5, workspace=text, thread=text)
        assert [row] == [task.id for task in listed]
        assert text in store.record.starting_with("tasks", "thread", text)
        assert [[]] == store.memory.exact([ExactRequest(text, frozenset({text}))], 5)


def test_naughty_strings_are_found_by_their_own_text(
    naughty: tuple[Store, list[tuple[str, Arrival]]],
) -> None:
    """Text that holds a word is found by searching for it as it is; text without one finds nothing."""
    store, came = naughty
    missed = []
    for text, arrival in came:
        hits = store.memory.text(text, [text], 5)
        assert hits in ([], [row_of(arrival)])
        if not hits and any(char.isalnum() for char in text):
            missed.append(text)
    assert [] == missed


@pytest.mark.parametrize(
    "word",
    [
        "Donaudampfschifffahrtsgesellschaftskapitän",
        "проинструктированностью",
        "უსაფრთხოებისათვის",
        "उत्तरदायित्वपूर्ण",
        "தொழில்நுட்பவியலாளர்",
    ],
)
def test_long_word_of_any_script_is_found_by_text(fresh: Fresh, word: str) -> None:
    """A word is not left out of the index because its letters take two or three bytes each."""
    store, came = fresh(), arrival(0, f"{word}?")
    commit(store, numbered(creating(came)))
    store.memory.follow(store.record)
    assert [row_of(came)] == store.memory.text("default", [word], 5)


def test_batch_of_more_keys_than_one_filter_takes(fresh: Fresh) -> None:
    """A batch that repeats more decisions than one `IN` holds repeats them all."""
    store = fresh()
    messages = numbered(*(creating(arrival(number, thread=f"t{number % 7}")) for number in range(600)))
    commit(store, messages[:550])
    report = commit(store, messages)
    assert (50, 550, 0) == (report.decided, report.repeated, report.dropped)
    assert 600 == store.record.count("tasks") == store.record.count("events") == store.record.count("decisions")

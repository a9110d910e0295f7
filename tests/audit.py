"""Whether a data folder holds what its topics say: nothing lost, nothing twice, nothing different."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from connectors.message import Incoming
from connectors.topic import Topic
from flows.parse import read_event
from store import Store
from store.schema import Arrival
from tests.oracle import Row, rows_of_messages, rows_of_topic
from tests.process import topic_of, topic_path
from tests.sample import opened
from tests.workplace import rows_of

_TOLD = 10
"""Differences that are told of a table (count)."""


@dataclass(frozen=True, slots=True)
class Topics:
    """What stands on the three topics of a data folder, each partition in its order."""

    events: Sequence[Incoming]
    operations: Sequence[Incoming]
    letters: Sequence[Incoming]

    @classmethod
    def read(cls, opened: Callable[[str], Topic]) -> Topics:
        """All of them, whatever carries them."""
        events, operations, letters = (
            list(chain.from_iterable(opened(name).walk())) for name in ("events", "operations", "dead-letters")
        )
        return cls(events, operations, letters)

    def rows(self) -> dict[str, list[Row]]:
        """What the operations amount to."""
        return rows_of_messages((json.loads(each.value), each.offset, each.arrived) for each in self.operations)


@dataclass(frozen=True, slots=True)
class Audit:
    """What became of every event of a finished data folder."""

    events: int
    """Events that were produced, each identity once."""
    unreadable: int
    """Messages that are no events, each in the dead letters."""
    decided: int
    lost: tuple[str, ...]
    """Events with neither a row nor a dead letter."""
    duplicated: tuple[str, ...]
    """Events with more than one Decision that stands in the store, or on a topic that can have but one of each."""
    repeated: int
    """Decisions on the topic that are not the first of their event, and are dropped (count)."""
    parked: tuple[str, ...]
    differences: tuple[str, ...]
    """Where the store is not what its topic amounts to, or not what it was expected to be."""

    @property
    def faults(self) -> list[str]:
        """A sentence for each thing that is wrong, parked events among them; none when all is well."""
        named = {"lost": self.lost, "duplicated": self.duplicated, "parked": self.parked}
        told = [f"{what}: {', '.join(which[:_TOLD])}" for what, which in named.items() if which]
        return [*told, *self.differences]

    @property
    def line(self) -> str:
        """The counts."""
        counts = {"lost": self.lost, "duplicated": self.duplicated, "parked": self.parked}
        told = ", ".join(f"{what} {len(which)}" for what, which in counts.items())
        return f"{self.events:,} events, decided {self.decided:,}, {told}, differences {len(self.differences)}"


def audit(path: Path, expected: Mapping[str, list[Row]] | None = None) -> Audit:
    """Hold a data folder against its own topic files, and its rows against `expected` where that is known."""
    topics = Topics.read(partial(topic_of, path))
    return audited(opened(path), topics, rows_of_topic(topic_path(path, "operations")), expected, repeatable=False)


def audited(
    store: Store,
    topics: Topics,
    amount: Mapping[str, list[Row]],
    expected: Mapping[str, list[Row]] | None = None,
    *,
    repeatable: bool,
) -> Audit:
    """Hold a store against its topics, and against what they amount to.

    `repeatable` says that the topic may have a Decision of an event twice, as one on brokers: what a process sent
    before it was killed may come to stand there after the next one has read the end.
    """
    found = rows_of(store)
    produced = [(_place(incoming), read_event(incoming)) for incoming in topics.events]
    events = {read.event.uid: place for place, read in produced if isinstance(read, Arrival)}
    unreadable = {place for place, read in produced if not isinstance(read, Arrival)}
    of_letters = (json.loads(letter.value)["coordinates"] for letter in topics.letters)
    letters = {(at["partition"], at["offset"]) for at in of_letters if at["topic"].endswith(".events")}
    rows = {row["id"]: row for row in found["events"]}
    messages = [json.loads(incoming.value) for incoming in topics.operations]
    on_topic = Counter(message["view"]["event"] for message in messages if message["kind"] == "decision")
    kept = store.record.arrow("decisions").to_pylist()
    standing = Counter(row["event"] for row in kept if row["stands"])
    lost = [uid for uid, place in events.items() if uid not in rows and place not in letters]
    doubled = standing if repeatable else on_topic | standing
    return Audit(
        events=len(events),
        unreadable=len(unreadable & letters),
        decided=sum(row["decision"] is not None for row in rows.values()),
        lost=(*lost, *(f"partition {p} offset {o}" for p, o in sorted(unreadable - letters))),
        duplicated=tuple(sorted(uid for uid, count in doubled.items() if count > 1)),
        repeated=on_topic.total() - len(on_topic),
        parked=tuple(uid for uid, row in rows.items() if row["decision"] is None),
        differences=(
            *compared("its topic", amount, found),
            *(compared("an uninterrupted run", expected, found) if expected else ()),
            *_unfinished(store, topics.operations, set(on_topic), kept),
        ),
    )


def compared(what: str, expected: Mapping[str, list[Row]], found: Mapping[str, list[Row]]) -> Iterator[str]:
    """Where rows differ from those that were expected, a sentence each."""
    for table, rows in expected.items():
        wanted = {row["id"]: row for row in rows}
        there = {row["id"]: row for row in found[table]}
        differing = [row_id for row_id in {**wanted, **there} if wanted.get(row_id) != there.get(row_id)]
        for row_id in differing[:_TOLD]:
            yield f"{table} {row_id}: {_difference(what, wanted.get(row_id), there.get(row_id))}"
        if len(differing) > _TOLD:
            yield f"{table}: and {len(differing) - _TOLD} more rows differ from {what}"


def _difference(what: str, wanted: Row | None, there: Row | None) -> str:
    if wanted is None:
        return f"{what} has no such row"
    if there is None:
        return f"the row of {what} is missing"
    fields = [name for name in {**wanted, **there} if wanted.get(name) != there.get(name)]
    return "; ".join(f"{name} is {there.get(name)!r}, {what} says {wanted.get(name)!r}" for name in fields)


def _place(incoming: Incoming) -> tuple[int, int]:
    return incoming.partition, incoming.offset


def _unfinished(
    store: Store, operations: Sequence[Incoming], decided: set[str], kept: Iterable[Row]
) -> Iterator[str]:
    """Whatever else a commit writes: decisions, sessions, positions and the copy that is searched."""
    missing = decided - {row["event"] for row in kept if row["stands"]}
    if missing:
        yield f"decisions: none is kept of {', '.join(sorted(missing)[:_TOLD])}"
    entries: dict[tuple[str, str], list[Row]] = {}
    for row in sorted(store.record.arrow("sessions").to_pylist(), key=lambda row: row["position"]):
        entries.setdefault((row["workspace"], row["thread"]), []).append(row)
    logged = Counter(row["kind"] for log in entries.values() for row in log)
    if logged["decision"] != len(decided):
        yield f"sessions: {logged['decision']} entries of {len(decided)} Decisions"
    for thread, log in entries.items():
        if log[0]["parent"] is not None or any(row["parent"] != before["id"] for before, row in pairwise(log)):
            yield f"sessions: the log of {'/'.join(thread)} is no chain"
    end = operations[-1].offset + 1 if operations else 0
    for place in store.record.positions():
        if place.next_offset != end:
            yield f"positions: {place.part} is at {place.next_offset}, the topic ends at {end}"
    copied = {row["row_id"]: row["updated"] for row in _memory(store)}
    if copied != {row["id"]: row["updated"] for row in store.record.arrow("tasks").to_pylist()}:
        yield "memory: it does not hold the tasks that the record lists"


def _memory(store: Store) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.tables["memory"].to_arrow().to_pylist()
    return found

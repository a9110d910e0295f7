"""Whether a data folder holds what its topics say: nothing lost, nothing twice, nothing different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from connectors.message import Incoming
from flows.parse import read_event
from store import Store
from store.schema import Arrival
from tests.oracle import Row, rows_of_topic
from tests.process import messages, topic_of, topic_path
from tests.sample import opened
from tests.workplace import rows_of

_TOLD = 10
"""Differences that are told of a table (count)."""


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
    """Events with more than one Decision on the topic, or more than one that stands in the store."""
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
    """Hold a data folder against its own topics, and its rows against `expected` where that is known."""
    store = opened(path)
    found = rows_of(store)
    produced = [(incoming, read_event(incoming)) for incoming in _incoming(path)]
    events = {read.event.uid: incoming.offset for incoming, read in produced if isinstance(read, Arrival)}
    unreadable = {incoming.offset for incoming, read in produced if not isinstance(read, Arrival)}
    letters = {
        letter["coordinates"]["offset"]
        for letter in messages(path, "dead-letters")
        if letter["coordinates"]["topic"] == "lookfirst.events"
    }
    rows = {row["id"]: row for row in found["events"]}
    decisions = [message for message in messages(path, "operations") if message["kind"] == "decision"]
    on_topic = Counter(decision["view"]["event"] for decision in decisions)
    kept = store.record.arrow("decisions").to_pylist()
    standing = Counter(row["event"] for row in kept if row["stands"])
    lost = [uid for uid, offset in events.items() if uid not in rows and offset not in letters]
    return Audit(
        events=len(events),
        unreadable=len(unreadable & letters),
        decided=sum(row["decision"] is not None for row in rows.values()),
        lost=(*lost, *(f"offset {offset}" for offset in sorted(unreadable - letters))),
        duplicated=tuple(sorted(uid for uid, count in (on_topic | standing).items() if count > 1)),
        parked=tuple(uid for uid, row in rows.items() if row["decision"] is None),
        differences=(
            *_compared("its topic", rows_of_topic(topic_path(path, "operations")), found),
            *(_compared("an uninterrupted run", expected, found) if expected else ()),
            *_unfinished(path, store, set(on_topic), kept),
        ),
    )


def _incoming(path: Path) -> list[Incoming]:
    topic = topic_of(path, "events")
    return topic.read(topic.start, 1_000_000)[0]


def _compared(what: str, expected: Mapping[str, list[Row]], found: Mapping[str, list[Row]]) -> Iterator[str]:
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


def _unfinished(path: Path, store: Store, decided: set[str], kept: Iterable[Row]) -> Iterator[str]:
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
    end = topic_of(path, "operations").end().offset
    for place in store.record.positions():
        if place.next_offset != end:
            yield f"positions: {place.part} is at {place.next_offset}, the topic ends at {end}"
    copied = {row["row_id"]: row["updated"] for row in _memory(store)}
    if copied != {row["id"]: row["updated"] for row in store.record.arrow("tasks").to_pylist()}:
        yield "memory: it does not hold the tasks that the record lists"


def _memory(store: Store) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.tables["memory"].to_arrow().to_pylist()
    return found

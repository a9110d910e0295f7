"""Bringing back: events that ended without a Decision go to the end of the events topic again.

An event is brought back when the last that is known of it is that it was given up: it was parked, or was no event
for the release that read it, and it does not stand in the topic again after that. So a second replay appends
nothing while the first one's messages wait, and an event that is parked once more may be brought back once more.
What was neither decided nor given up waits: the dataflow has it before it or keeps it, and needs nobody's help.

Nothing is decided here, and nothing is decided twice: of two Decisions of one event the first stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from pydantic import ValidationError

from connectors.message import ORIGIN, Incoming, Outgoing
from connectors.topic_file import Place, TopicFile
from flows.data_folder import DataFolder, check_positions
from flows.parse import read_event, read_operation
from store import Store
from store.derive import Applied
from store.record import Record
from store.schema import Arrival, ClassifiedFailure, DeadLetter, Decision, Parked, parse_event
from store.schema.event import key_of
from store.schema.identity import decision_id
from store.sql import chunked

REPLAYED: Final = "replayed"
"""Header of a message that was brought back: topic, partition and offset of the message that it repeats."""
_NEVER: Final = -1
"""Before every offset."""


class Fate(StrEnum):
    """What became of a message that was gone through."""

    BROUGHT_BACK = "brought back"
    DECIDED = "decided"
    WAITING = "waiting"
    """It stands in the events topic and its turn is yet to come."""
    REPEATED = "repeated"
    """Of an event that is brought back with another message."""
    UNREADABLE = "still unreadable"
    ELSEWHERE = "of another topic"
    """A dead letter that never was a message of the events topic."""
    DAMAGED = "damaged"
    """A message of the dead-letter topic that is no dead letter."""
    NOT_ASKED = "not asked for"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which messages are asked for; None is any."""

    since: datetime | None = None
    """Arrived in the topic that is gone through at this time or later."""
    thread: str | None = None

    def covers(self, incoming: Incoming, thread: str | None) -> bool:
        """Whether a message of this thread is asked for; one whose thread nobody knows is of none."""
        return (self.since is None or incoming.arrived >= self.since) and self.thread in (None, thread)


class Watch(Protocol):
    """Whoever shows how far it is."""

    def __call__(self, topic: str, done: int, total: int) -> None:
        """So many messages of a topic have been read."""


@dataclass(slots=True)
class _Case:
    """One event that may be brought back."""

    given_up: int = _NEVER
    """Newest offset in the events topic at which it is known to have ended without a Decision."""
    last: int = _NEVER
    """Newest offset in the events topic at which it is known to stand."""
    source: int = _NEVER
    """Offset, in the topic that is gone through, of the message to bring back."""
    messages: int = 0
    """Messages of it that are asked for (count)."""
    origin: str | None = None


@dataclass(slots=True)
class Replay:
    """One replay over a data folder, while a run may be in progress. Each of the two ways is gone once."""

    events: TopicFile
    operations: TopicFile
    letters: TopicFile
    record: Record
    wanted: Wanted
    watch: Watch
    fates: Counter[Fate] = field(default_factory=Counter)
    """Every message that was gone through, counted once."""
    _decided: set[str] = field(default_factory=set)
    """Events whose Decision is not applied yet."""
    _parked: dict[str, int] = field(default_factory=dict)
    """Events that were parked and that is not applied yet, with their offset."""

    @classmethod
    def over(cls, folder: DataFolder, store: Store, wanted: Wanted, watch: Watch) -> Replay:
        """A replay over a folder and its store; raises StoreError when they do not belong together."""
        operations = folder.topic("operations")
        reached = check_positions(store, operations)
        replay = cls(folder.topic("events"), operations, folder.topic("dead-letters"), store.record, wanted, watch)
        for incoming in messages(operations, operations.place_of(reached[0]), watch):
            replay._emitted(incoming)
        return replay

    def from_letters(self) -> Counter[Fate]:
        """Bring back the events of the dead letters, each once."""
        cases: dict[str, _Case] = {}
        for incoming in messages(self.letters, watch=self.watch):
            self._letter(incoming, cases)
        cases = {uid: case for uid, case in cases.items() if case.messages}
        if cases:
            self._find_again(cases)
        chosen = self._choose(cases, self._decided_of(cases))
        for chunk in self._again(self.letters, chosen):
            read = [(incoming, DeadLetter.model_validate_json(incoming.value)) for incoming in chunk]
            self.events.append(
                [
                    _message(incoming, letter.raw, letter.origin or chosen[incoming.offset].origin)
                    for incoming, letter in read
                ]
            )
        return self.fates

    def from_events(self) -> Counter[Fate]:
        """Bring back events of the events topic, each once, with its newest message."""
        cases: dict[str, _Case] = {}
        for chunk in chunks(self.events, watch=self.watch):
            self._undecided(chunk, cases)
        if cases:
            self._find_given_up(cases)
        chosen = self._choose(cases, ())
        for chunk in self._again(self.events, chosen):
            self.events.append(
                [_message(incoming, incoming.value, incoming.headers.get(ORIGIN)) for incoming in chunk]
            )
        return self.fates

    def _emitted(self, incoming: Incoming) -> None:
        read = read_operation(incoming)
        match read.message if isinstance(read, Applied) else None:
            case Decision() as decision:
                self._decided.add(decision.event.uid)
            case Parked() as parked:
                uid, offset = parked.event.uid, parked.arrival.coordinates.offset
                self._parked[uid] = max(self._parked.get(uid, _NEVER), offset)
            case _:
                pass

    def _letter(self, incoming: Incoming, cases: dict[str, _Case]) -> None:
        """Count a dead letter, or make it part of the case of its event."""
        letter = _letter_of(incoming)
        event = None
        if letter and letter.coordinates.topic == self.events.name:
            with suppress(ClassifiedFailure):
                event = parse_event(letter.raw)
        asked = self.wanted.covers(incoming, event.thread if event else None)
        if letter and event:
            # What is known of an event does not depend on what is asked for.
            case = cases.setdefault(event.uid, _Case())
            if letter.coordinates.offset >= case.given_up:
                case.given_up, case.source = letter.coordinates.offset, incoming.offset
            case.messages += asked
        if not asked:
            self.fates[Fate.NOT_ASKED] += 1
        elif letter is None:
            self.fates[Fate.DAMAGED] += 1
        elif event is None:
            elsewhere = letter.coordinates.topic != self.events.name
            self.fates[Fate.ELSEWHERE if elsewhere else Fate.UNREADABLE] += 1

    def _find_again(self, cases: Mapping[str, _Case]) -> None:
        """Look in the events topic for where the events of the dead letters stand since, and whence they came."""
        given_up = {case.given_up: case for case in cases.values()}
        for incoming in messages(self.events, self.events.place_of(min(given_up)), self.watch):
            if incoming.offset in given_up:
                given_up[incoming.offset].origin = incoming.headers.get(ORIGIN)
            read = read_event(incoming)
            if isinstance(read, Arrival) and (case := cases.get(read.event.uid)):
                case.last = incoming.offset

    def _undecided(self, chunk: Sequence[Incoming], cases: dict[str, _Case]) -> None:
        """Count messages of the events topic; those that are asked for and not decided become cases."""
        asked: list[tuple[int, str]] = []
        for incoming in chunk:
            read = read_event(incoming)
            if not self.wanted.covers(incoming, read.event.thread if isinstance(read, Arrival) else None):
                self.fates[Fate.NOT_ASKED] += 1
            elif isinstance(read, Arrival):
                asked.append((incoming.offset, read.event.uid))
            else:
                self.fates[Fate.UNREADABLE] += 1
        decided = self._decided_of(uid for _, uid in asked)
        for offset, uid in asked:
            if uid in decided:
                self.fates[Fate.DECIDED] += 1
            else:
                case = cases.setdefault(uid, _Case())
                case.source = case.last = offset
                case.messages += 1

    def _find_given_up(self, cases: Mapping[str, _Case]) -> None:
        """Look for what is known of undecided events: parked in the record, or on its way there, or a letter."""

        def given_up(uid: str, offset: int) -> None:
            if case := cases.get(uid):
                case.given_up = max(case.given_up, offset)

        for uid, offset in self._parked.items():
            given_up(uid, offset)
        for chunk in chunked(cases):
            for row in self.record.events(chunk).values():
                if row.outcome == "parked":
                    given_up(row.id, row.seq)
        newest = {case.last: case for case in cases.values()}
        for incoming in messages(self.letters, watch=self.watch):
            # What an older release could not read has no row: the place of its letter says which event it is.
            place = letter.coordinates if (letter := _letter_of(incoming)) else None
            if place and place.topic == self.events.name and (case := newest.get(place.offset)):
                case.given_up = case.last

    def _decided_of(self, uids: Iterable[str]) -> set[str]:
        """Those of these events that have a Decision, applied or not."""
        found: set[str] = set()
        for chunk in chunked(uids):
            by_decision = {decision_id(uid): uid for uid in chunk}
            found |= {by_decision[decision] for decision in self.record.standing_offsets(by_decision)}
            found |= self._decided.intersection(chunk)
        return found

    def _choose(self, cases: Mapping[str, _Case], decided: Iterable[str]) -> dict[int, _Case]:
        """Count what becomes of each case; those to be brought back, by the offset of their message."""
        known = set(decided)
        chosen: dict[int, _Case] = {}
        for uid, case in cases.items():
            if uid in known:
                self.fates[Fate.DECIDED] += case.messages
            elif case.last > case.given_up or case.given_up == _NEVER:
                self.fates[Fate.WAITING] += case.messages
            else:
                chosen[case.source] = case
                self.fates[Fate.BROUGHT_BACK] += 1
                self.fates[Fate.REPEATED] += case.messages - 1
        return chosen

    def _again(self, topic: TopicFile, chosen: Mapping[int, _Case]) -> Iterator[list[Incoming]]:
        """The chosen messages of a topic once more: none of them was kept, for there may be many."""
        if chosen:
            for chunk in chunks(topic, topic.place_of(min(chosen)), self.watch):
                if wanted := [incoming for incoming in chunk if incoming.offset in chosen]:
                    yield wanted


def messages(topic: TopicFile, start: Place | None = None, watch: Watch | None = None) -> Iterator[Incoming]:
    """The messages of a topic one after the other, to where it ends now."""
    for chunk in chunks(topic, start, watch):
        yield from chunk


def chunks(topic: TopicFile, start: Place | None = None, watch: Watch | None = None) -> Iterator[list[Incoming]]:
    """The same, as many at once as are read at once."""
    first, end = (start or topic.start).offset, topic.end().offset
    for found in topic.batches(start, end):
        if watch:
            watch(topic.name, found[-1].offset + 1 - first, end - first)
        yield found


def _letter_of(incoming: Incoming) -> DeadLetter | None:
    try:
        return DeadLetter.model_validate_json(incoming.value)
    except ValidationError:
        return None


def _message(repeated: Incoming, raw: str, origin: str | None) -> Outgoing:
    headers = {REPLAYED: f"{repeated.topic}:{repeated.partition}:{repeated.offset}"}
    return Outgoing(key_of(raw), raw, {ORIGIN: origin, **headers} if origin else headers)

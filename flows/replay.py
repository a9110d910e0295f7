"""Bringing back: events that ended without a Decision go to the end of the events topic again.

An event is brought back when the last that is known of it is that it was given up: it was parked, or was no event
for the release that read it, and it does not stand in the topic again after that. So a second replay appends
nothing while the first one's messages wait, and an event that is parked once more may be brought back once more.
What was neither decided nor given up waits: the dataflow has it before it or keeps it, and needs nobody's help.

Within a partition *after* is by offset. An event that came without its key may stand in two of them; between these
it is by arrival, and a letter says no more than when it was written. In doubt an event is rather brought back once
too often than not at all.

Nothing is decided here, and nothing is decided twice: of two Decisions of one event the first stands.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pydantic import ValidationError

from connectors.message import BAD_CHECKSUM, ORIGIN, Incoming, Outgoing
from connectors.topic import AT_ONCE, Offsets, Topic
from flows.data_folder import DataFolder, check_positions
from flows.given_up import Case, Mark, Place, mark_of, newest, place_of
from flows.parse import read_event, read_operation
from flows.span import Span, Stopped, Wanted, chunks
from flows.steps import Progress
from flows.stopping import Stop
from flows.topics import Opened
from store import Store
from store.derive import Applied
from store.schema import (
    Arrival,
    ClassifiedFailure,
    Coordinates,
    DeadLetter,
    Decision,
    Event,
    Parked,
    TopicError,
    parse_event,
)
from store.schema.event import key_of
from store.schema.identity import decision_id
from store.sql import chunked

REPLAYED: Final = "replayed"
"""Header of a message that was brought back: topic, partition and offset of the message that it repeats."""

_BYTES: Final = 16_000_000
"""Of the messages that are appended together, about (characters)."""


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
    GONE = "no longer kept"
    """The topic does not hold it any more, and nothing else holds all of it."""
    LEFT = "left"
    """To be brought back, had it not been stopped."""
    NOT_ASKED = "not asked for"


@dataclass(slots=True)
class Replay:
    """One replay over a data folder, while a run may be in progress. Each of the two ways is gone once."""

    events: Topic
    operations: Topic
    letters: Topic
    store: Store
    wanted: Wanted
    progress: Progress
    reached: Offsets
    """How far the record is in the operations."""
    pace: Callable[[], None] = lambda: None
    """Called before messages are appended; returns when they may be."""
    dry_run: bool = False
    """Whether nothing is appended."""
    stop: Stop = field(default_factory=Stop)
    fates: Counter[Fate] = field(default_factory=Counter)
    """Every message that was gone through, counted once."""
    _decided: set[str] = field(default_factory=set)
    """Events whose Decision is not applied yet."""
    _parked: dict[str, Parked] = field(default_factory=dict)
    """Events that were parked and that is not applied yet."""

    @classmethod
    def over(
        cls, folder: DataFolder, store: Store, wanted: Wanted, progress: Progress, opened: Opened | None = None
    ) -> Replay:
        """A replay over a folder and its store, on other topics than its files if those are `opened`.

        Raises StoreError when the store and the topics do not belong together.
        """
        topic = opened or folder.topic
        operations = topic("operations")
        reached = check_positions(store, operations)
        return cls(topic("events"), operations, topic("dead-letters"), store, wanted, progress, reached)

    def from_letters(self) -> Counter[Fate]:
        """Bring back the events of the dead letters, each once."""
        with suppress(Stopped):
            self._take_up()
            cases: dict[str, Case] = {}
            for incoming in self._asked_of(self.letters):
                self._letter(incoming, cases)
            cases = {uid: case for uid, case in cases.items() if case.messages}
            if cases:
                self._find_parked(cases)
                self._find_again(cases)
            chosen = self._choose(cases, self._decided_of(cases))
            self._bring_back(self.letters, chosen, self._of_letter)
        return self.fates

    def from_events(self) -> Counter[Fate]:
        """Bring back events of the events topic, each once, with its newest message."""
        with suppress(Stopped):
            self._take_up()
            cases: dict[str, Case] = {}
            missed = set(self._parked_and_asked())
            for chunk in self._chunks_asked_of(self.events):
                self._undecided(chunk, cases, missed)
            self.fates[Fate.GONE] += len(missed - self._decided_of(missed))
            if cases:
                self._find_parked(cases)
                self._find_letters(cases)
                given_up = {uid: case for uid, case in cases.items() if not case.waits}
                asked = self.wanted.offsets
                if given_up and asked is not None and asked.keys() != self.events.ends().keys():
                    # They may wait in a partition that was not asked for.
                    self._find_again(given_up)
            self._bring_back(self.events, self._choose(cases, ()), self._of_event)
        return self.fates

    # What is known.

    def _take_up(self) -> None:
        """Read the operations that are not applied yet."""
        for chunk in self._chunks(self.operations, self.reached, self.operations.ends()):
            for read in map(read_operation, chunk):
                match read.message if isinstance(read, Applied) else None:
                    case Decision() as decision:
                        self._decided.add(decision.event.uid)
                    case Parked() as parked:
                        before = self._parked.get(parked.event.uid)
                        if before is None or mark_of(parked.arrival).is_after(mark_of(before.arrival)):
                            self._parked[parked.event.uid] = parked
                    case _:
                        pass

    def _letter(self, incoming: Incoming, cases: dict[str, Case]) -> None:
        """Count a dead letter, or make it part of the case of its event."""
        letter = _letter_of(incoming)
        read = self._event_of(letter) if letter else Fate.DAMAGED
        event = read if isinstance(read, Event) else None
        asked = self.wanted.covers(incoming.arrived, event.thread if event else None)
        if letter and event:
            # What is known of an event does not depend on what is asked for.
            place = letter.coordinates
            mark = Mark(place.partition, place.offset, incoming.arrived)
            case = cases.setdefault(event.uid, Case())
            case.tell(mark, place_of(incoming))
            case.given_up = newest(case.given_up, mark)
            case.messages += asked
        if not asked:
            self.fates[Fate.NOT_ASKED] += 1
        elif isinstance(read, Fate):
            self.fates[read] += 1

    def _event_of(self, letter: DeadLetter) -> Event | Fate:
        """The event of a dead letter, or why there is none."""
        if letter.coordinates.topic != self.events.name:
            return Fate.ELSEWHERE
        if letter.reason == BAD_CHECKSUM:
            # It may be read as an event, and is not what was sent.
            return Fate.UNREADABLE
        if letter.cut is None or not letter.headers:
            # What identifies an event is not cut, but headers may be, which are part of an event, too.
            with suppress(ClassifiedFailure):
                return parse_event(letter.raw, letter.headers)
        if letter.cut is None:
            return Fate.UNREADABLE
        whole = self._whole(letter)
        if whole is None:
            return Fate.GONE
        read = read_event(whole)
        return read.event if isinstance(read, Arrival) else Fate.UNREADABLE

    def _whole(self, letter: DeadLetter) -> Incoming | None:
        """The message that a letter tells of, from where it stands; None when it is gone."""
        if not self._is_kept(letter.coordinates):
            return None
        try:
            (found,) = self.events.fetch([letter.coordinates])
        except TopicError:
            if self._is_kept(letter.coordinates):
                raise
            return None
        return found if _is_whole_of(found, letter) else None

    def _is_kept(self, place: Coordinates) -> bool:
        partition = place.partition
        first, end = self.events.starts().get(partition, 0), self.events.ends().get(partition, 0)
        return first <= place.offset < end

    def _undecided(self, chunk: Sequence[Incoming], cases: dict[str, Case], missed: set[str]) -> None:
        """Count messages of the events topic; those that are asked for and not decided become cases."""
        asked: list[tuple[Incoming, Arrival]] = []
        for incoming in chunk:
            read = read_event(incoming)
            event = read.event if isinstance(read, Arrival) else None
            if event:
                missed.discard(event.uid)
            if not self.wanted.covers(incoming.arrived, event.thread if event else None):
                self.fates[Fate.NOT_ASKED] += 1
            elif isinstance(read, Arrival):
                asked.append((incoming, read))
            else:
                self.fates[Fate.UNREADABLE] += 1
        decided = self._decided_of(read.event.uid for _, read in asked)
        for incoming, read in asked:
            if read.event.uid in decided:
                self.fates[Fate.DECIDED] += 1
            else:
                case = cases.setdefault(read.event.uid, Case())
                case.tell(mark_of(read), place_of(incoming))
                case.stands = newest(case.stands, mark_of(read))
                case.messages += 1

    def _find_again(self, cases: Mapping[str, Case]) -> None:
        """Look in the events topic for where events that were given up stand since, and whence they came."""
        starts, ends = self.events.starts(), self.events.ends()
        marks = [mark for case in cases.values() for mark in case.given_up]
        begin = dict(ends)
        if len(ends) > 1:
            begin = self.events.since(min(mark.arrived for mark in marks))
        for mark in marks:
            if mark.partition in begin:
                begin[mark.partition] = min(begin[mark.partition], mark.offset)
        begin = {each: min(max(offset, starts[each]), ends[each]) for each, offset in begin.items()}
        told = {(case.told.partition, case.told.offset): case for case in cases.values() if case.told}
        for chunk in self._chunks(self.events, begin, ends):
            for incoming in chunk:
                if case := told.get(place_of(incoming)):
                    case.origin = incoming.headers.get(ORIGIN)
                read = read_event(incoming)
                if isinstance(read, Arrival) and (case := cases.get(read.event.uid)):
                    case.stands = newest(case.stands, mark_of(read))

    def _find_parked(self, cases: Mapping[str, Case]) -> None:
        """Look for undecided events that were parked, by the record or on the way there."""
        for uid, parked in self._parked.items():
            if case := cases.get(uid):
                case.given_up = newest(case.given_up, mark_of(parked.arrival))
        partitions = list(self.events.ends())
        only = partitions[0] if len(partitions) == 1 else None
        for chunk in chunked(cases):
            for row in self.store.record.events(chunk).values():
                if row.outcome == "parked":
                    mark = Mark(only, row.seq, row.arrived)
                    cases[row.id].given_up = newest(cases[row.id].given_up, mark)

    def _find_letters(self, cases: Mapping[str, Case]) -> None:
        """Look for undecided events that an older release could not read.

        These have no row: the place that their letter names says which event it is.
        """
        at = {(mark.partition, mark.offset): (case, mark) for case in cases.values() for mark in case.stands}
        span = Span.of(self.letters, Wanted(since=self.wanted.since))
        for chunk in self._chunks(self.letters, span.begin, span.end):
            for letter in filter(None, map(_letter_of, chunk)):
                place = letter.coordinates
                if place.topic == self.events.name and (found := at.get((place.partition, place.offset))):
                    case, mark = found
                    case.given_up = newest(case.given_up, mark)

    def _parked_and_asked(self) -> Iterator[str]:
        """Events that were parked, as far as they are asked for; of offsets the record does not know enough."""
        if self.wanted.offsets is not None:
            return
        for uid, parked in self._parked.items():
            if self.wanted.covers(parked.arrival.arrived, parked.event.thread):
                yield uid
        search = self.store.tables["events"].search().where("outcome = 'parked'")
        for row in search.select(["id", "arrived", "thread"]).to_arrow().to_pylist():
            if self.wanted.covers(row["arrived"], row["thread"]):
                yield row["id"]

    def _decided_of(self, uids: Iterable[str]) -> set[str]:
        """Those of these events that have a Decision, applied or not."""
        found: set[str] = set()
        for chunk in chunked(uids):
            by_decision = {decision_id(uid): uid for uid in chunk}
            found |= {by_decision[decision] for decision in self.store.record.standing_offsets(by_decision)}
            found |= self._decided.intersection(chunk)
        return found

    # What is done.

    def _choose(self, cases: Mapping[str, Case], decided: Iterable[str]) -> dict[Place, Case]:
        """Count what is left alone; the others, by where the message to bring back stands."""
        known = set(decided)
        chosen: dict[Place, Case] = {}
        for uid, case in cases.items():
            if uid in known:
                self.fates[Fate.DECIDED] += case.messages
            elif case.waits:
                self.fates[Fate.WAITING] += case.messages
            else:
                chosen[case.source] = case
        return chosen

    def _bring_back(
        self,
        topic: Topic,
        chosen: dict[Place, Case],
        made: Callable[[Incoming, Case], Outgoing | None],
    ) -> None:
        """Read the chosen messages once more, for none of them was kept, and append what is `made` of each."""
        fate = Fate.GONE
        try:
            for batch in self._batches(topic, chosen, made):
                self._append([message for _, message in batch])
                for place, _ in batch:
                    self.fates[Fate.BROUGHT_BACK] += 1
                    self.fates[Fate.REPEATED] += chosen.pop(place).messages - 1
        except Stopped:
            fate = Fate.LEFT
        for case in chosen.values():
            self.fates[fate] += case.messages

    def _batches(
        self,
        topic: Topic,
        chosen: Mapping[Place, Case],
        made: Callable[[Incoming, Case], Outgoing | None],
    ) -> Iterator[list[tuple[Place, Outgoing]]]:
        begin, end = dict(topic.ends()), dict(topic.starts())
        for partition, offset in chosen:
            begin[partition] = min(begin[partition], offset)
            end[partition] = max(end[partition], offset + 1)
        batch: list[tuple[Place, Outgoing]] = []
        size = 0
        for chunk in self._chunks(topic, begin, end):
            for incoming in chunk:
                case = chosen.get(place_of(incoming))
                if case is None or (message := made(incoming, case)) is None:
                    continue
                batch.append((place_of(incoming), message))
                size += len(message.value)
                if len(batch) == AT_ONCE or size > _BYTES:
                    yield batch
                    batch, size = [], 0
        if batch:
            yield batch

    def _append(self, messages: Sequence[Outgoing]) -> None:
        if self.dry_run:
            return
        self.pace()
        if self.stop.is_stopping:
            raise Stopped
        self.events.append(messages)

    def _of_letter(self, incoming: Incoming, case: Case) -> Outgoing | None:
        letter = DeadLetter.model_validate_json(incoming.value)
        origin = letter.origin or case.origin
        if letter.cut is None:
            return _message(incoming, letter.raw, letter.headers, origin)
        whole = self._whole(letter)
        if whole is None:
            return None
        return _message(incoming, whole.value, whole.headers, whole.headers.get(ORIGIN) or origin)

    def _of_event(self, incoming: Incoming, case: Case) -> Outgoing:
        return _message(incoming, incoming.value, incoming.headers, incoming.headers.get(ORIGIN))

    # What is read.

    def _asked_of(self, topic: Topic) -> Iterator[Incoming]:
        for chunk in self._chunks_asked_of(topic):
            yield from chunk

    def _chunks_asked_of(self, topic: Topic) -> Iterator[list[Incoming]]:
        """What may be asked for of a topic; what need not be read for that is counted."""
        span = Span.of(topic, self.wanted)
        self.fates[Fate.NOT_ASKED] += span.skipped
        self.fates[Fate.GONE] += span.gone
        yield from self._chunks(topic, span.begin, span.end)

    def _chunks(self, topic: Topic, begin: Offsets, end: Offsets) -> Iterator[list[Incoming]]:
        yield from chunks(topic, begin, end, self.progress, self.stop)


def _letter_of(incoming: Incoming) -> DeadLetter | None:
    try:
        return DeadLetter.model_validate_json(incoming.value)
    except ValidationError:
        return None


def _is_whole_of(found: Incoming, letter: DeadLetter) -> bool:
    """Whether a message is the one that a letter was cut from: the topic may be another one of its name."""
    hashes = {_sha256(found.value)}
    with suppress(ClassifiedFailure):
        hashes.add(_sha256(parse_event(found.value, found.headers).text))
    return letter.cut is not None and letter.cut.sha256 in hashes


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _message(repeated: Incoming, raw: str, headers: Mapping[str, str], origin: str | None) -> Outgoing:
    """A message again. In a topic file that somebody edited a header may be anything."""
    kept = {name: said for name, said in headers.items() if isinstance(said, str)}
    place = {REPLAYED: f"{repeated.topic}:{repeated.partition}:{repeated.offset}"}
    return Outgoing(key_of(raw, kept), raw, {**kept, **({ORIGIN: origin} if origin else {}), **place})

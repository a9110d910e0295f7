"""Events and stores of any size, the same for the same seed. The text is made up of made-up words."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from flows.apply import record_positions
from flows.bench.nothing import NOTHING_FOUND
from flows.maintain import writer_of
from flows.retrieve.plan import plan
from store import Store
from store.derive import Applied
from store.schema import (
    Arrival,
    Coordinates,
    Create,
    Decision,
    Event,
    Participant,
    Settings,
    View,
)
from store.schema.identity import operation_id, task_id

_SYLLABLES = (
    *("ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ra"),
    *("se", "ti", "vo", "wa", "xi", "yu", "zen", "dor", "mal", "pit"),
)
_ASKING = ("please", "can you", "we need to", "I will", "bitte", "could you")
_TALKING = ("I saw", "as you know", "by the way", "yesterday", "they say", "gestern")
_JAPANESE = ("資料", "会議", "予算", "契約", "報告書", "見積", "設計", "試験")
_START = datetime(2024, 1, 1, tzinfo=UTC)


class Generator:
    """A workplace: people, threads, and a vocabulary in which few words are common and most are rare."""

    def __init__(self, seed: int, threads: int = 2_000, people: int = 60, words: int = 8_000) -> None:
        self._random = random.Random(seed)
        self._threads = threads
        self._people = [
            Participant(id=f"u{number}", name=f"Person {number}", address=f"u{number}@example.org")
            for number in range(people)
        ]
        self._words = ["".join(self._random.choices(_SYLLABLES, k=3)) + str(n % 7) for n in range(words)]
        self._weights = [1 / (rank + 3) for rank in range(words)]

    def events(self, count: int, prefix: str) -> Iterator[Event]:
        """`count` events; half of them ask for something."""
        for number in range(count):
            yield Event(
                id=f"{prefix}{number}",
                source="bench",
                thread=f"{prefix}t{self._random.randrange(self._threads)}",
                at=_START + timedelta(seconds=number),
                author=self._random.choice(self._people),
                mentions=tuple(self._random.sample(self._people, self._random.choice((0, 0, 1)))),
                text=self._text(),
            )

    def _text(self) -> str:
        opening = self._random.choice(_ASKING if self._random.random() < 0.5 else _TALKING)
        words = self._random.choices(self._words, self._weights, k=self._random.randrange(6, 22))
        if self._random.random() < 0.2:
            words.insert(2, f"REQ-{self._random.randrange(100_000)}")
        if self._random.random() < 0.1:
            words.append("".join(self._random.choices(_JAPANESE, k=4)))
        return f"{opening} {' '.join(words)}."


def fill(store: Store, rows: int, seed: int, limits: Settings, batch: int = 5_000) -> None:
    """Make a store of `rows` tasks the way apply does, and let memory follow and be indexed."""
    writer = writer_of(store, limits)
    waiting: list[Applied] = []
    for offset, event in enumerate(Generator(seed, threads=max(50, rows // 4)).events(rows, "fill-")):
        waiting.append(_created(event, offset))
        if len(waiting) == batch or offset == rows - 1:
            writer.commit(waiting, record_positions(waiting, "bench", "bench"))
            writer.follow()
            waiting = []
    writer.upkeep.optimize_all()


def _created(event: Event, offset: int) -> Applied:
    # A partition of its own: the topic of the run that follows starts at its own beginning.
    arrival = Arrival(
        event=event, arrived=event.at, coordinates=Coordinates(topic="bench", partition=1, offset=offset)
    )
    operation = operation_id(event.uid, 0, 0)
    create = Create(
        id=operation,
        number=0,
        task=task_id(operation),
        title=event.text[:80],
        quote=event.text,
        requester=event.person(event.author),
        reason="made for a bench",
        not_nothing="made for a bench",
    )
    view = View(
        event=event.uid,
        queries=plan(event, Settings()),
        reads=NOTHING_FOUND,
    )
    decision = Decision(arrival=arrival, view=view, operations=(create,), judge="bench/1")
    return Applied(decision, arrival.coordinates, event.at, decision.model_dump_json())

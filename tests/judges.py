"""Judges for processes that are killed: `LOOKFIRST_JUDGE=tests.judges:event_only`, and so on.

What they answer is theirs to choose; what becomes of it under kills is what the tests look at.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from flows.judge.contract import (
    Answer,
    Proposal,
    ProposedCreate,
    ProposedMatch,
    ProposedNothing,
    ProposedUpdate,
)
from flows.judge.veto import News, Veto
from store.schema import Event, Rejection, Settings, View

POISON: Final = "TEST_POISON"
"""Variable with the text that makes an event kill the process of the `poison` judge."""
WITNESS: Final = "TEST_WITNESS"
"""Variable with the file in which the `witnessed` judge writes down whom it was asked about."""

_STATES: Final = ("open", "in_progress", "blocked", "done")
_SLOW: Final = 0.1
"""What a judgment of the `poison` judge takes (s): long enough that as many as may be are under way."""


@dataclass(frozen=True, slots=True)
class Answering:
    """A judge that is one function."""

    name: str
    answer: Callable[[Event, View], Proposal | None]
    remote: bool = False

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        proposal = self.answer(event, view)
        return Answer(proposals=(proposal,) if proposal else ())


def event_only(settings: Settings) -> Answering:
    """The same answer to the same event, whatever is shown beside it: a create or not a task."""
    return Answering("event-only/1", _by_event)


def contrary(settings: Settings) -> Answering:
    """Another answer each time it is asked: only the first one of an event may ever count."""
    return Answering("contrary/1", _by_chance)


def particular(settings: Settings) -> Answering:
    """Like `event_only`, but to one event in eight it gives no answer that stands: it is parked."""
    return Answering("particular/1", lambda event, view: None if is_refused(event) else _by_event(event, view))


def witnessed(settings: Settings) -> Answering:
    """Like `event_only`; each question is written down before it is answered."""
    return Answering("witnessed/1", _written_down)


def poison(settings: Settings) -> Answering:
    """Like `event_only`, but slow and far away, and an event that holds the mark kills the process."""
    return Answering("poison/1", _or_die, remote=True)


def is_refused(event: Event) -> bool:
    """Whether the `particular` judge has no answer to this event."""
    return _number(event) % 8 == 0


def _number(event: Event) -> int:
    """A number of the event's identity."""
    return int(event.uid[-8:], 16)


def _words(event: Event) -> str:
    """The first words of an event, as a quote and as a title."""
    return " ".join((event.text if event.text.strip() else event.subject or "").split())[:60].strip()


def _by_event(event: Event, view: View) -> Proposal:
    number = _number(event)
    words = _words(event)
    if number % 3 == 0:
        return ProposedNothing(reason="so says the hash of its identity")
    return ProposedCreate(
        title=words,
        state=_STATES[number % len(_STATES)],
        due=event.at.date() + timedelta(days=number % 30) if number % 2 else None,
        quote=words,
        reason="so says the hash of its identity",
        not_nothing="so says the hash of its identity",
    )


def _by_chance(event: Event, view: View) -> Proposal:
    chance = os.urandom(4)
    said = f"said by {os.getpid()}, {chance.hex()}"
    veto = Veto(event)
    rows = [row for row in view.tasks() if veto.against((row,), News()) is None]
    people = view.standby.people
    match chance[0] % 4:
        case 0 if rows:
            row = rows[chance[1] % len(rows)]
            return ProposedUpdate(
                target=row.handle,
                title=said,
                state=_STATES[chance[2] % len(_STATES)],
                clear_due=chance[3] % 2 == 0,
                quote=_words(event),
                evidence=(row.handle,),
                reason=said,
            )
        case 1 if rows:
            return ProposedMatch(target=rows[chance[1] % len(rows)].handle, reason=said)
        case 2:
            return ProposedNothing(reason=said)
        case _:
            return ProposedCreate(
                title=said,
                state=_STATES[chance[2] % len(_STATES)],
                due=event.at.date() + timedelta(days=chance[3] % 30),
                quote=_words(event),
                assignees=(people[0].handle,) if people else (),
                reason=said,
                not_nothing=said,
            )


def _written_down(event: Event, view: View) -> Proposal:
    with Path(os.environ[WITNESS]).open("a", encoding="utf-8") as file:
        file.write(event.uid + "\n")
    return _by_event(event, view)


def _or_die(event: Event, view: View) -> Proposal:
    mark = os.environ.get(POISON)
    if mark and mark in event.text:
        # Not at once: those that were asked at the same moment are then under way, too.
        time.sleep(_SLOW / 2)
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(_SLOW)
    return _by_event(event, view)

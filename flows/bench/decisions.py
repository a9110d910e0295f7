"""Decisions of any number, the same for the same seed: what a long operations topic holds.

The shape is that of a busy team: every View has twelve searched slices once there are as many tasks, the rows of
the event's thread, five recent tasks and the people, and one message in ten carries two operations.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta

from flows.bench.generate import Generator
from flows.retrieve.plan import plan
from flows.retrieve.slices import Shown, cut_of, person_slice, task_slice
from store.schema import (
    Arrival,
    Complete,
    Coordinates,
    Create,
    Decision,
    Event,
    Evidence,
    LaneRank,
    Matched,
    NotATask,
    PersonRow,
    Read,
    Settings,
    Slice,
    Standby,
    TaskRow,
    Update,
    Version,
    View,
    outcome_of,
)
from store.schema.identity import operation_id, task_id
from store.schema.operation import JudgedOperation
from store.schema.rows import TaskState

_KINDS = {"create": 0.3, "update": 0.25, "matched": 0.15, "not_a_task": 0.3}
_TWO = 0.1
_STATES: tuple[TaskState, ...] = ("in_progress", "blocked", "done")
_ARRIVES_AFTER = timedelta(seconds=2)


def decisions(count: int, seed: int, limits: Settings) -> Iterator[Decision]:
    """`count` Decisions in the order of their offsets; each sees the rows that those before it have made."""
    team = _Team(seed, limits)
    for offset, event in enumerate(Generator(seed, threads=max(10, count // 5)).events(count, "replay-")):
        arrival = Arrival(
            event=event,
            arrived=event.at + _ARRIVES_AFTER,
            coordinates=Coordinates(topic="lookfirst.events", offset=offset),
        )
        yield team.decide(arrival)


class _Team:
    """The rows as they are after each Decision, so that the next one updates what is there."""

    def __init__(self, seed: int, limits: Settings) -> None:
        self._random = random.Random(seed)
        self._limits = limits
        self._tasks: dict[str, TaskRow] = {}
        self._ids: list[str] = []
        self._threads: defaultdict[str, list[str]] = defaultdict(list)
        self._people: dict[str, PersonRow] = {}

    def decide(self, arrival: Arrival) -> Decision:
        self._meet(arrival)
        view = self._view(arrival)
        operations = [self._operation(arrival, view, self._kind(view))]
        if self._random.random() < _TWO and isinstance(operations[0], Update | Matched):
            operations.append(self._operation(arrival, view, "create", number=1))
        return Decision(arrival=arrival, view=view, operations=tuple(operations), judge="bench/1")

    def _kind(self, view: View) -> str:
        if not view.slices:
            return "create"
        return self._random.choices([*_KINDS], [*_KINDS.values()])[0]

    def _meet(self, arrival: Arrival) -> None:
        event = arrival.event
        for who in (event.author, *event.mentions):
            person = event.person(who)
            if person and person not in self._people:
                self._people[person] = PersonRow(
                    id=person,
                    workspace=event.workspace,
                    names=(who.name,) if who.name else (),
                    addresses=(who.address,) if who.address else (),
                    first_seen=event.at,
                    last_seen=event.at,
                )

    def _view(self, arrival: Arrival) -> View:
        event, limits = arrival.event, self._limits
        hits = self._random.sample(self._ids, min(limits.slices, len(self._ids)))
        own = [task for task in self._threads[event.thread] if task not in hits]
        recent = [task for task in self._ids[-limits.standby_pool :] if task not in {*hits, *own}]
        rows = own[-limits.thread_rows :], recent[-limits.standby_tasks :]
        queries = plan(event, limits)
        slices = self._slices("S", hits, event, (LaneRank(lane="text", rank=1),))
        people = tuple(
            person_slice(
                f"P{n}", self._people[person], "mentioned" if n > 1 else "author", limits.slice_characters
            )
            for n, person in enumerate(event.people, start=1)
        )
        return View(
            event=event.uid,
            queries=queries,
            reads=(
                *(Read(name=query.lane, terms=query.terms, outcome=Complete()) for query in queries),
                Read(name="thread", outcome=outcome_of(len(own), len(rows[0]), total=len(own))),
                Read(name="standby_tasks", outcome=outcome_of(len(recent), len(rows[1]), total=len(recent))),
                Read(name="standby_people", outcome=Complete()),
            ),
            slices=slices,
            thread_rows=self._slices("T", rows[0], event),
            standby=Standby(tasks=self._slices("B", rows[1], event), people=people),
        )

    def _slices(
        self, letter: str, tasks: Iterable[str], event: Event, lanes: tuple[LaneRank, ...] = ()
    ) -> tuple[Slice, ...]:
        characters = self._limits.slice_characters
        return tuple(
            task_slice(
                f"{letter}{n}",
                Shown(self._tasks[task], lanes),
                event,
                cut_of(self._tasks[task], self._people, characters),
            )
            for n, task in enumerate(tasks, start=1)
        )

    def _operation(self, arrival: Arrival, view: View, kind: str, number: int = 0) -> JudgedOperation:
        event = arrival.event
        made = operation_id(event.uid, 0, number)
        if kind == "create":
            return self._create(arrival, made, number)
        if kind == "not_a_task":
            return NotATask(id=made, number=number, reason="Nobody is asked for anything, it only tells.")
        target = self._random.choice(view.slices)
        if kind == "matched":
            reason = "The row says the same already, in other words."
            return Matched(id=made, number=number, task=target.row_id, evidence=_evidence(target), reason=reason)
        return self._update(arrival, target, made, number)

    def _create(self, arrival: Arrival, made: str, number: int) -> Create:
        event = arrival.event
        version = Version(at=arrival.happened, seq=arrival.seq, operation=made)
        assignees = event.people[1:]
        due = (event.at + timedelta(days=self._random.randrange(1, 30))).date()
        row = TaskRow(
            id=task_id(made),
            workspace=event.workspace,
            thread=event.thread,
            title=event.text[:80],
            state="open",
            due=due,
            body=event.text,
            assignees=assignees,
            requester=event.person(event.author),
            evidence=(event.uid,),
            created=event.at,
            updated=event.at,
            version=version,
        )
        self._tasks[row.id] = row
        self._ids.append(row.id)
        self._threads[event.thread].append(row.id)
        return Create(
            id=made,
            number=number,
            task=row.id,
            title=row.title,
            due=due,
            quote=event.text,
            assignees=assignees,
            requester=row.requester,
            reason="It asks for something that no row holds.",
            not_nothing="Somebody waits for it.",
        )

    def _update(self, arrival: Arrival, target: Slice, made: str, number: int) -> Update:
        state = self._random.choice(_STATES)
        changed = {
            "state": state,
            "updated": arrival.happened,
            "version": Version(at=arrival.happened, seq=arrival.seq, operation=made),
        }
        self._tasks[target.row_id] = self._tasks[target.row_id].model_copy(update=changed)
        return Update(
            id=made,
            number=number,
            task=target.row_id,
            seen=target.version,
            state=state,
            quote=arrival.event.text[:60],
            evidence=_evidence(target),
            reason="It continues the row and says where it stands.",
        )


def _evidence(target: Slice) -> tuple[Evidence, ...]:
    return (Evidence(handle=target.handle, row_id=target.row_id),)

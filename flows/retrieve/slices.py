"""Short cuts of rows: what a judge gets to see of a task or a person (R17, R18)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from store.schema import Event, LaneRank, PersonRow, PersonSlice, Slice, TaskRow
from store.schema.view import Tie, slice_text

CUT = "…"
_PARTICIPANTS = 4
_LABEL_CHARACTERS = 24
_NAMES = 3
_IDENTIFIERS = 16


@dataclass(frozen=True, slots=True)
class Shown:
    """A task that is to be shown, with how it was found."""

    task: TaskRow
    lanes: tuple[LaneRank, ...] = ()
    answered: bool = False
    """The event's reply mark names an event that touched this task."""
    recency: int | None = None


@dataclass(frozen=True, slots=True)
class TaskCut:
    """The part of a slice that is the same for every event."""

    title: str
    labels: tuple[str, ...]
    people: tuple[str, ...]
    owners: tuple[str, ...]
    """Requester and assignees."""
    head: str


def cut_of(task: TaskRow, people: Mapping[str, PersonRow], characters: int) -> TaskCut:
    """A task cut to `characters`: the head of the body takes what title, state, due date and people leave."""
    ids = shown_people(task)
    labels = tuple(shorten(label_of(people[person]), _LABEL_CHARACTERS) for person in ids if person in people)
    title = shorten(task.title, characters // 2)
    rest = len(slice_text(title, task.state, task.due, labels, task.updated, ""))
    head = shorten(" ".join(task.body[: 4 * characters].split()), characters - rest)
    return TaskCut(title, labels, ids, _owners(task), head)


def task_slice(handle: str, shown: Shown, event: Event, cut: TaskCut) -> Slice:
    """The slice of a task for one event."""
    task = shown.task
    return Slice(
        handle=handle,
        row_id=task.id,
        title=cut.title,
        state=task.state,
        due=task.due,
        participants=cut.labels,
        people=cut.people,
        last_activity=task.updated,
        head=cut.head,
        same_thread=(task.workspace, task.thread) == (event.workspace, event.thread),
        answered=shown.answered,
        lanes=shown.lanes,
        identifiers=task.identifiers[:_IDENTIFIERS],
        ties=ties_of(task, event),
        recency=shown.recency,
        version=task.version,
    )


def shown_people(task: TaskRow) -> tuple[str, ...]:
    """The people of a task that its slice names, by id."""
    return tuple(dict.fromkeys([*_owners(task), *task.participants]))[:_PARTICIPANTS]


def _owners(task: TaskRow) -> tuple[str, ...]:
    return tuple(dict.fromkeys([*filter(None, [task.requester]), *task.assignees]))


def ties_of(task: TaskRow, event: Event) -> tuple[Tie, ...]:
    """Who ties a task to an event: whoever asked for it, is to do it, spoke of it or was spoken to."""
    people = {task.requester, *task.assignees, *task.participants}
    author = event.author_row
    found: list[Tie] = []
    if author and author in people:
        found.append("author")
    if any(person in people for person in event.people if person != author):
        found.append("addressee")
    return tuple(found)


def person_slice(handle: str, row: PersonRow, role: str, characters: int) -> PersonSlice:
    """A person under a handle, names and addresses cut to what a line holds."""
    return PersonSlice.model_validate(
        {
            "handle": handle,
            "row_id": row.id,
            "names": tuple(shorten(name, characters // 4) for name in row.names[:_NAMES]),
            "addresses": tuple(shorten(address, characters // 4) for address in row.addresses[:_NAMES]),
            "last_seen": row.last_seen,
            "role": role,
        }
    )


def label_of(person: PersonRow) -> str:
    """What to call a person on a page."""
    return next(iter([*person.names, *person.addresses]), person.id)


def shorten(text: str, characters: int) -> str:
    """At most `characters` of a text, cut at a character and marked."""
    if len(text) <= characters:
        return text
    return text[: max(0, characters - len(CUT))] + (CUT if characters > 0 else "")

"""What a person does to a task: one operation, built from the task as it is and from what the person wishes.

Pure functions of values; `flows/cli/edit.py` reads the task and appends the operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final, TypeVar

from store.merge import fold_task
from store.schema import (
    Action,
    Change,
    Delete,
    Edit,
    PersonRow,
    Restore,
    TaskRow,
    TaskState,
    UsageError,
    Version,
    clean_text,
)
from store.schema.identity import derive_id

_PERSON_ID: Final = re.compile(r"p-[0-9a-f]{6,24}")
_CANDIDATES: Final = 10
"""People that are listed when several are meant (count)."""

_Personal = TypeVar("_Personal", Edit, Delete, Restore)


@dataclass(frozen=True, slots=True)
class Found:
    """A task as a person finds it, listed or deleted."""

    id: str
    workspace: str
    thread: str
    row: TaskRow | None
    """As it will be once everything on the operations topic is applied; None while it is deleted."""
    seen: Version
    """That of the task in the record, which is what a person can have seen."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Who does it, and where the operations topic ended when it was done."""

    by: str
    end: int
    """Offset after the last message; of several partitions their sum, which each message moves on, too."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """The fields a person names; what is None or empty is not named."""

    title: str | None = None
    state: TaskState | None = None
    due: date | None = None
    clear_due: bool = False
    assign: tuple[str, ...] = ()
    """Person ids."""
    unassign: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """No field is named."""
        return self == Wishes()


def found(task: str, kept: Sequence[Change], emitted: Iterable[Change] = ()) -> Found:
    """The task that its changes amount to: those in the record, at least one, and those that are not applied yet.

    Raises UsageError when its create is in neither.
    """
    changes = [*kept, *emitted]
    create = next((change for change in changes if change.action is Action.CREATE), None)
    if create is None:
        raise UsageError(
            f"The task {task} is not created yet: some of its changes came before the event that asks for it; "
            "`lookfirst run` until that event is decided."
        )
    shown = fold_task(kept)
    return Found(
        id=task,
        workspace=create.workspace,
        thread=next(change.value for change in changes if change.field == "thread"),
        row=fold_task(changes),
        seen=shown.version if shown else max(change.version for change in kept),
    )


def edit(task: Found, wishes: Wishes, signature: Signature, title_characters: int) -> Edit:
    """The edit that sets the named fields, also those that have their value already: it holds against later news.

    Raises UsageError for a deleted task, for a title that is none, for wishes that contradict each other, and
    when nothing would be another.
    """
    if task.row is None:
        raise UsageError(f"The task {task.id} is deleted; `lookfirst restore {task.id}` first, then edit it.")
    if wishes.is_empty:
        raise UsageError(
            "Nothing is to be changed; give --title, --state, --due, --clear-due, --assign or --unassign."
        )
    if wishes.due is not None and wishes.clear_due:
        raise UsageError("--due and --clear-due contradict each other; give one of them.")
    if both := set(wishes.assign) & set(wishes.unassign):
        raise UsageError(f"{min(both)} is to be assigned and unassigned at once; give one of the two.")
    title = None if wishes.title is None else _title(wishes.title, title_characters)
    if _holds_already(task.row, wishes, title):
        raise UsageError(f"The task {task.id} is like that already; nothing was appended.")
    return _signed(
        Edit(
            id="",
            workspace=task.workspace,
            thread=task.thread,
            row=task.id,
            seen=task.seen,
            by=signature.by,
            title=title,
            state=wishes.state,
            due=wishes.due,
            clear_due=wishes.clear_due,
            assign=tuple(dict.fromkeys(wishes.assign)),
            unassign=tuple(dict.fromkeys(wishes.unassign)),
        ),
        signature,
    )


def delete(task: Found, signature: Signature) -> Delete:
    """The tombstone of a listed task; raises UsageError for a deleted one."""
    if task.row is None:
        raise UsageError(f"The task {task.id} is deleted already; nothing was appended.")
    operation = Delete(
        id="", workspace=task.workspace, thread=task.thread, row=task.id, seen=task.seen, by=signature.by
    )
    return _signed(operation, signature)


def restore(task: Found, signature: Signature) -> Restore:
    """What lifts the tombstone of a deleted task; raises UsageError for a listed one."""
    if task.row is not None:
        raise UsageError(f"The task {task.id} is not deleted; there is nothing to restore.")
    operation = Restore(
        id="", workspace=task.workspace, thread=task.thread, row=task.id, seen=task.seen, by=signature.by
    )
    return _signed(operation, signature)


def person_named(typed: str, people: Iterable[PersonRow]) -> str:
    """The id of the one of `people` whose id, beginning of an id, address or name `typed` is.

    An address in any case, a name as it is written. Raises UsageError when nobody or several are meant.
    """
    if _PERSON_ID.fullmatch(typed):
        meant = [person for person in people if person.id.startswith(typed)]
    else:
        address = typed.casefold()
        meant = [
            person
            for person in people
            if typed in person.names or address in (each.casefold() for each in person.addresses)
        ]
    match meant:
        case [person]:
            return person.id
        case []:
            raise UsageError(
                f"Nobody in the task's workspace is {typed!r}; give an id, an address or a whole name of "
                "`lookfirst people`."
            )
        case _:
            listed = ", ".join(_described(person) for person in meant[:_CANDIDATES])
            more = ", …" if len(meant) > _CANDIDATES else ""
            raise UsageError(f"{typed!r} may be {len(meant)} people ({listed}{more}); give the id of one.")


def _described(person: PersonRow) -> str:
    return " ".join([person.id, *person.names[:1], *(f"<{address}>" for address in person.addresses[:1])])


def _title(typed: str, most: int) -> str:
    title = clean_text(typed).strip()
    if len(title.splitlines()) != 1:
        raise UsageError("A title is one line of text; give it one.")
    if len(title) > most:
        raise UsageError(
            f"The title has {len(title)} characters, at most {most} are kept; shorten it, or raise "
            "LOOKFIRST_TITLE_CHARACTERS."
        )
    return title


def _holds_already(row: TaskRow, wishes: Wishes, title: str | None) -> bool:
    assigned = set(row.assignees)
    return (
        title in (None, row.title)
        and wishes.state in (None, row.state)
        and wishes.due in (None, row.due)
        and not (wishes.clear_due and row.due)
        and assigned >= set(wishes.assign)
        and not assigned & set(wishes.unassign)
    )


def _signed(operation: _Personal, signature: Signature) -> _Personal:
    """The operation with its id: a hash of where the topic ended and of all that it says.

    The same command given twice is two operations, because the first one has moved the end. One operation that
    is appended twice stays one. Two people who say the very same of the same version at the same end, under one
    name, say it once, which is what they both meant; whatever differs between them makes two ids. A clock or a
    random number would make every repetition another operation.
    """
    said = operation.model_dump_json(exclude={"id"})
    return operation.model_copy(update={"id": derive_id("o", "person", signature.end, said)})

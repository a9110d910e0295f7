"""The algebra: rows are folded from changes, whatever the order, the batching and the repetition.

Pure functions of values. A task is folded from all of its changes; a person, whose fields only grow, from its
row and the new ones, because a busy person has a change for every message.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import date, datetime
from typing import Protocol

from pydantic import TypeAdapter

from store.schema.change import Action, Change
from store.schema.rows import PersonRow, TaskRow, TaskState

_STATE: TypeAdapter[TaskState] = TypeAdapter(TaskState)


class _Absorbed(Protocol):
    def __call__(self, change: Change) -> bool: ...


def fold_task(changes: Iterable[Change]) -> TaskRow | None:
    """The task that `changes` (all of one row) amount to.

    None when there is nothing to list: its create has not arrived, or it is deleted.
    """
    once = sorted({change.identity: change for change in changes}.values(), key=lambda change: change.version)
    create = next((change for change in once if change.action is Action.CREATE), None)
    if create is None or _is_deleted(once):
        return None
    absorbed = _absorption(once, create.version.operation)
    live = [change for change in once if not absorbed(change)]
    fields = _last_writes(live)
    version = live[-1].version
    return TaskRow(
        id=create.row_id,
        workspace=create.workspace,
        thread=fields.get("thread", ""),
        title=fields.get("title", ""),
        state=_STATE.validate_python(fields.get("state", "open")),
        due=date.fromisoformat(fields["due"]) if fields.get("due") else None,
        body=fields.get("body", ""),
        assignees=_members(live, "assignees"),
        requester=fields.get("requester") or None,
        participants=_grown(live, "participants"),
        identifiers=_grown(live, "identifiers"),
        evidence=_grown(live, "evidence"),
        created=create.version.at,
        updated=version.at,
        version=version,
    )


def fold_person(row: PersonRow | None, changes: Iterable[Change]) -> PersonRow | None:
    """The person that `row` and `changes` (all of one row) amount to; None when there is neither."""
    names = set(row.names) if row else set()
    addresses = set(row.addresses) if row else set()
    seen = [row.first_seen, row.last_seen] if row else []
    workspace, row_id = (row.workspace, row.id) if row else ("", "")
    for change in changes:
        workspace, row_id = change.workspace, change.row_id
        match change.field:
            case "names":
                names.add(change.value)
            case "addresses":
                addresses.add(change.value)
            case "first_seen" | "last_seen":
                seen.append(datetime.fromisoformat(change.value))
    if not seen:
        return None
    return PersonRow(
        id=row_id,
        workspace=workspace,
        names=tuple(sorted(names)),
        addresses=tuple(sorted(addresses)),
        first_seen=min(seen),
        last_seen=max(seen),
    )


def _is_deleted(ordered: list[Change]) -> bool:
    markers = [change.action for change in ordered if change.action in (Action.DELETE, Action.RESTORE)]
    return bool(markers) and markers[-1] is Action.DELETE


def _absorption(ordered: list[Change], created_by: str) -> _Absorbed:
    """Whether a change was made while the row was deleted: a tombstone absorbs it, for good."""
    markers = [change for change in ordered if change.action in (Action.DELETE, Action.RESTORE)]
    versions = [marker.version for marker in markers]

    def absorbed(change: Change) -> bool:
        before = bisect_left(versions, change.version)
        # What the create itself set stays: a row that is restored must have come from somewhere.
        return (
            before > 0
            and markers[before - 1].action is Action.DELETE
            and change.action is not Action.RESTORE
            and change.version.operation != created_by
        )

    return absorbed


def _last_writes(ordered: list[Change]) -> dict[str, str]:
    """Field by field the later version; `ordered` is by version."""
    return {change.field: change.value for change in ordered if change.action is Action.SET}


def _members(ordered: list[Change], field: str) -> tuple[str, ...]:
    """A set of adds and removes: for each value the later of the two."""
    last: dict[str, Action] = {}
    for change in ordered:
        if change.field == field and change.action in (Action.ADD, Action.REMOVE):
            last[change.value] = change.action
    return tuple(sorted(value for value, action in last.items() if action is Action.ADD))


def _grown(ordered: list[Change], field: str) -> tuple[str, ...]:
    """A set that only grows, in the order of versions; what one version adds, in its own order."""
    grown = (change for change in ordered if change.field == field and change.action is Action.UNION)
    return tuple(dict.fromkeys(c.value for c in sorted(grown, key=lambda c: (c.version, c.value))))

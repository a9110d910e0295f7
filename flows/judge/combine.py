"""Combining: what the segments of one long event came to, as the operations of one Decision.

A Decision sets a field of a row at most once, because its operations have one version: between two of them
nothing but a hash would say which came later. The segments were judged in order, though, so the later word is
known here, and it is put into the operation that named the field first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from store.schema import Create, JudgedOperation, Matched, NotATask, Update

_Writes = Create | Update


def combine(operations: Sequence[JudgedOperation]) -> tuple[JudgedOperation, ...]:
    """The operations of all segments of an event, ordered by (segment, number), as one Decision may hold them.

    A field that a later operation sets again gets its value in the operation that set it first; a create takes
    all that is said of its row. What a later operation sets besides stays an update; one that has nothing left
    becomes a match of the row, with its evidence and its reason. A kind of nothing goes when something was done:
    not-a-task beside any other operation, a match beside a create or an update of its row. The first not-a-task
    stays when there is nothing else.
    """
    written = _each_field_once(operations)
    changed = {operation.task for operation in written if isinstance(operation, Create | Update)}
    kept = [operation for given, operation in zip(operations, written, strict=True) if _counts(given, changed)]
    return tuple(kept) or tuple(written[:1])


def _counts(given: JudgedOperation, changed: set[str]) -> bool:
    match given:
        case NotATask():
            return False
        case Matched():
            return given.task not in changed
        case _:
            return True


def _each_field_once(operations: Sequence[JudgedOperation]) -> list[JudgedOperation]:
    written: list[JudgedOperation] = []
    setter: dict[tuple[str, str], int] = {}
    creator: dict[str, int] = {}
    for number, operation in enumerate(operations):
        left: JudgedOperation = operation
        if isinstance(operation, Create):
            creator[operation.task] = number
        elif isinstance(operation, Update):
            fields = []
            for field in operation.fields:
                first = creator.get(operation.task, setter.setdefault((operation.task, field), number))
                earlier = written[first] if first < number else None
                if isinstance(earlier, Create | Update):
                    written[first] = _with_field(earlier, operation, field)
                else:
                    fields.append(field)
            left = _only(operation, fields)
        written.append(left)
    return written


def _with_field(earlier: _Writes, later: Update, field: str) -> _Writes:
    """`earlier` with what `later` says of `field`."""
    match field, earlier:
        case "due", Update():
            return earlier.model_copy(update={"due": later.due, "clear_due": later.clear_due})
        case "assignees", Update():
            joining = _joined(_without(earlier.assign, later.unassign), later.assign)
            leaving = _joined(_without(earlier.unassign, later.assign), later.unassign)
            return earlier.model_copy(update={"assign": joining, "unassign": leaving})
        case "assignees", Create():
            assignees = _joined(_without(earlier.assignees, later.unassign), later.assign)
            return earlier.model_copy(update={"assignees": assignees})
        case _:
            return earlier.model_copy(update={field: getattr(later, field)})


def _only(update: Update, fields: Sequence[str]) -> Update | Matched:
    """`update` of these of its fields alone; a match of its row when there are none."""
    if not fields:
        return Matched(
            id=update.id,
            segment=update.segment,
            number=update.number,
            evidence=update.evidence,
            reason=update.reason,
            task=update.task,
        )
    nothing: dict[str, object] = {}
    for field in set(update.fields).difference(fields):
        match field:
            case "due":
                nothing |= {"due": None, "clear_due": False}
            case "assignees":
                nothing |= {"assign": (), "unassign": ()}
            case _:
                nothing[field] = None
    return update.model_copy(update=nothing)


def _joined(people: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*people, *others)))


def _without(people: Iterable[str], others: Sequence[str]) -> tuple[str, ...]:
    return tuple(person for person in people if person not in others)

"""How much of memory a judge is handed, and what goes when it is too much."""

from __future__ import annotations

from store.schema import Complete, Cut, Empty, Failed, Read, View
from store.schema.view import ReadName

_HANDLE = 8
_PERSON = 512
"""What a person under a handle takes at most (characters): three names and three addresses, each cut."""


def memory_characters(view: View) -> int:
    """How much of memory a judge is handed (characters)."""
    rows = sum(len(f"{found.handle}: {found.text}\n") for found in view.tasks())
    people = sum(len(" ".join([p.handle, p.role, *p.names, *p.addresses])) + 1 for p in view.standby.people)
    return rows + people + (len(view.summary.text) if view.summary else 0)


def at_most(view: View, slice_characters: int) -> int:
    """A bound of `memory_characters` that costs no look at any text: what most Views are settled by."""
    summary = len(view.summary.text) if view.summary else 0
    return sum(slice_characters + _HANDLE for _ in view.tasks()) + len(view.standby.people) * _PERSON + summary


def within(view: View, characters: int) -> View:
    """Fit a View into its budget: standby goes first, then the summary, then thread rows from the end.

    A searched slice never goes for them (R20, R63).
    """
    while memory_characters(view) > characters:
        standby = view.standby
        if standby.tasks:
            standby = standby.model_copy(update={"tasks": standby.tasks[:-1]})
            view = view.model_copy(update={"standby": standby, "reads": _cut(view, "standby_tasks")})
        elif standby.people:
            standby = standby.model_copy(update={"people": standby.people[:-1]})
            view = view.model_copy(update={"standby": standby, "reads": _cut(view, "standby_people")})
        elif view.summary:
            view = view.model_copy(update={"summary": None, "reads": _cut(view, "summary")})
        elif view.thread_rows:
            rows = view.thread_rows[:-1]
            view = view.model_copy(update={"thread_rows": rows, "reads": _cut(view, "thread")})
        else:
            break
    return view


def _cut(view: View, name: ReadName) -> tuple[Read, ...]:
    """The reads, with one more row left out of the named one."""
    return tuple(_one_less(read) if read.name == name else read for read in view.reads)


def _one_less(read: Read) -> Read:
    match read.outcome:
        case Failed():
            return read
        case Cut(left_out=count, lag=lag):
            more = None if count is None else count + 1
            return read.model_copy(update={"outcome": Cut(left_out=more, lag=lag)})
        case Complete(lag=lag) | Empty(lag=lag):
            return read.model_copy(update={"outcome": Cut(left_out=1, lag=lag)})

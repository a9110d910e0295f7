"""What the tests of looking share: rows to find, Views to read, and values for laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import settings

from flows.daemons import Daemons
from flows.retrieve.look import Looker
from store.schema import (
    Complete,
    Event,
    LaneRank,
    PersonSlice,
    Read,
    SearchOutcome,
    Settings,
    Slice,
    Standby,
    Summary,
    SummaryComponents,
    SummarySlice,
    TaskRow,
    Version,
    View,
)
from tests.workplace import (
    START,
    Script,
    Workplace,
    answer,
    create,
    event,
)

LIMITS = Settings()
(SHORTEST,) = (rule.ge for rule in Settings.model_fields["slice_characters"].metadata if hasattr(rule, "ge"))
"""The shortest slice that can be set (characters)."""
law = settings(derandomize=False, print_blob=True, deadline=None, max_examples=60)


@contextmanager
def opened(path: Path, **limits: Any) -> Iterator[Workplace]:
    """A workplace with limits of its own."""
    with Workplace.opened(path / "own", Script(), Settings(**limits)) as workplace:
        yield workplace


def plant(workplace: Workplace, *events: Event) -> list[TaskRow]:
    """One task of each event's whole text, applied and searchable."""
    workplace.judge.rule = lambda event, view: answer(create(event.text))
    before = {task.id for task in workplace.tasks()}
    workplace.take(*events)
    workplace.settle()
    workplace.judge.rule = None
    return [task for task in workplace.tasks() if task.id not in before]


def numbered(count: int, text: str, **fields: Any) -> list[Event]:
    """Events with a number in their text, each of its own thread unless told otherwise, a minute apart."""
    return [
        event(
            text.format(n=n),
            **{
                "id": text.format(n=n)[:40],
                "thread": f"{text[:20]}-{n}",
                "at": START + timedelta(minutes=n),
                **fields,
            },
        )
        for n in range(count)
    ]


def look(workplace: Workplace, asked: Event, limits: Settings = LIMITS) -> View:
    """What a judgment of the event would see now."""
    waiting = workplace.store.record.events(workplace.overlay.oldest(len(workplace.overlay)))
    workplace.overlay.settle([uid for uid, row in waiting.items() if row.decision])
    with Daemons(4, "read") as pool:
        looker = Looker(workplace.store, workplace.overlay, limits, pool)
        (view,) = looker.look([workplace.arrive(asked)], {})
    return view


def outcome(view: View, name: str) -> SearchOutcome:
    """How the read of this name ended; there must be one."""
    (found,) = [read.outcome for read in view.reads if read.name == name]
    return found


def ids(slices: tuple[Slice, ...]) -> list[str]:
    """Row ids of slices."""
    return [each.row_id for each in slices]


def summarize(workplace: Workplace, thread: str = "t", **components: str) -> Summary:
    """A summary of a thread, appended to the operations topic."""
    summary = Summary(
        id=f"summary-{thread}-{len(workplace.emitted)}",
        workspace="default",
        thread=thread,
        first_event="1",
        last_event="2",
        components=SummaryComponents(**components),
    )
    workplace.emit(summary)
    return summary


def a_task(**fields: Any) -> TaskRow:
    """A task row with what the test does not care about filled in."""
    values = {
        "id": "t-1",
        "workspace": "default",
        "thread": "t",
        "title": "title",
        "state": "open",
        "body": "",
        "created": START,
        "updated": START,
        "version": Version(at=START, seq=0, operation="o"),
    }
    return TaskRow.model_validate(values | fields)


def a_slice(handle: str, **fields: Any) -> Slice:
    """A slice under a handle, likewise."""
    values = {
        "handle": handle,
        "row_id": f"row-{handle}",
        "title": f"title of {handle}",
        "state": "open",
        "last_activity": START,
        "head": "head " * 20,
        "version": Version(at=START, seq=0, operation="o"),
        "lanes": (LaneRank(lane="text", rank=1),) if handle.startswith("S") else (),
    }
    return Slice.model_validate(values | fields)


def a_view(slices: int, thread_rows: int, standby: int, people: int, summary: str | None) -> View:
    """A View of so many slices, thread rows, recent tasks and people."""
    names = ("text", "thread", "standby_tasks", "standby_people", "summary")
    return View(
        event="uid",
        queries=(),
        reads=tuple(Read.model_validate({"name": name, "outcome": Complete()}) for name in names),
        slices=tuple(a_slice(f"S{n}") for n in range(slices)),
        thread_rows=tuple(a_slice(f"T{n}") for n in range(thread_rows)),
        standby=Standby(
            tasks=tuple(a_slice(f"B{n}") for n in range(standby)),
            people=tuple(
                PersonSlice(handle=f"P{n}", row_id=f"p{n}", names=("Anna",), last_seen=START, role="author")
                for n in range(people)
            ),
        ),
        summary=SummarySlice(text=summary) if summary else None,
    )


def failing(error: Exception) -> Callable[..., Any]:
    """A read that fails."""

    def fails(*_: object, **__: object) -> Any:
        raise error

    return fails

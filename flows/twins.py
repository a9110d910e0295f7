"""Twins: listed tasks of one workspace whose titles nearly say the same. They are reported, never merged (D6).

Two titles are twins when they share three quarters of their content words, or more, and nothing that they name
tells them apart: identifiers, amounts, days, numbers. The pairs are found exactly and without a search for each
task: tasks that their titles do not tell apart are one `Wording`, and `NearSets` joins the sets of words.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from heapq import heappush, heappushpop, merge
from operator import itemgetter
from typing import Final, Literal, TypeAlias

from flows.near_sets import NearSets
from flows.steps import Progress, no_progress
from flows.wordings import Wording, partners, read_title
from store import Store
from store.record import Record
from store.schema import Action, Change, Frozen, TaskState
from store.schema.base import UtcTime
from store.sql import quote

LIKENESS: Final = 0.75
"""Share of content words from which two titles are alike."""

_MOST: Final = 250_000
"""Pairs of wordings that are kept (count): where there are more, nobody reads them, and memory has an end."""
_STEP: Final = 5_000


class TitleChange(Frozen):
    """How a task came by its title."""

    at: UtcTime
    """Time of the event, or of the edit."""
    by: Literal["create", "update", "edit"]
    event: str | None
    """Uid of the event; None for a person's edit."""
    before: str | None
    """What it was called until then."""


class TwinTask(Frozen):
    """One task of a pair."""

    id: str
    title: str
    state: TaskState
    updated: UtcTime
    titled: TitleChange | None = None
    """None while its changes are being written."""


class Pair(Frozen):
    """Two tasks that look like one, the one with the later activity first."""

    workspace: str
    likeness: float
    """Content words both titles have, of all that either has (share)."""
    tasks: tuple[TwinTask, TwinTask]


class Twins(Frozen):
    """The pairs with the latest activity, and how many there are besides."""

    compared: int
    """Listed tasks that were looked at (rows)."""
    pairs: tuple[Pair, ...]
    left_out: int
    """Pairs beyond those (count)."""
    more: bool
    """There are even more, among titles that were used longer ago, and they were not counted."""


def find_twins(store: Store, workspace: str | None, limit: int, progress: Progress = no_progress) -> Twins:
    """The `limit` newest pairs of twins of one workspace, or of each for itself; nothing is changed.

    The work grows with the tasks and with the twins there are, not with the square of the tasks.
    """
    query = store.tables["tasks"].search().select(["id", "workspace", "title", "state", "updated"])
    if workspace is not None:
        query = query.where(f"workspace = {quote(workspace)}")
    by_workspace: defaultdict[str, list[_Task]] = defaultdict(list)
    for row in query.to_arrow().to_pylist():
        task = _Task(row["id"], row["title"], row["state"], row["updated"])
        by_workspace[row["workspace"]].append(task)
    compared = sum(map(len, by_workspace.values()))
    found: list[tuple[str, _Found]] = []
    count, more, done = 0, False, 0
    for name, tasks in sorted(by_workspace.items()):
        join = _Join(tasks, limit)
        join.run(partial(_tell, progress, done, compared))
        done += len(tasks)
        count, more = count + join.count, more or join.more
        found += [(name, each) for each in join.newest()]
    progress("titles", compared, compared)
    found.sort(key=lambda each: (*each[1].newer.newest_first, *each[1].older.newest_first))
    shown = found[:limit]
    titled = _titled(store.record, {task.id: task for _, each in shown for task in (each.newer, each.older)})
    return Twins(
        compared=compared,
        pairs=tuple(_pair(name, each, titled) for name, each in shown),
        left_out=count - len(shown),
        more=more,
    )


@dataclass(frozen=True, slots=True)
class _Task:
    id: str
    title: str
    state: TaskState
    updated: datetime

    @property
    def newest_first(self) -> tuple[float, str]:
        """Sort key: by last activity, ties by id so that two runs agree."""
        return (-self.updated.timestamp(), self.id)


@dataclass(frozen=True, slots=True)
class _Found:
    newer: _Task
    older: _Task
    likeness: float


_Read: TypeAlias = Callable[[int], None]
"""Told how many titles are read (count)."""


class _Join:
    """The join of one workspace."""

    def __init__(self, tasks: Sequence[_Task], limit: int) -> None:
        self._tasks = sorted(tasks, key=lambda task: task.newest_first)
        self._limit = limit
        self._wordings: list[list[Wording]] = []
        """By number of the word set: a set that stands earlier has a newer task."""
        self._pairs: list[tuple[Wording, Wording, float]] = []
        self.count = 0
        """Pairs of tasks (count)."""
        self.more = False

    def run(self, progress: _Read) -> None:
        """Find every pair of wordings, those of the newest tasks first."""
        sets = self._read(progress)
        near = NearSets(sets, LIKENESS)
        for number in range(len(sets)):
            for other, likeness in ((number, 1.0), *near.later(number)):
                for left, right in partners(self._wordings[number], self._wordings[other]):
                    self._keep(left, right, likeness)
                    if self.more:
                        return

    def newest(self) -> list[_Found]:
        """The pairs of tasks with the latest activity, as many as are wanted."""
        best: list[tuple[int, int, float]] = []
        for left, right, likeness in sorted(self._pairs, key=lambda pair: min(pair[0].tasks[0], pair[1].tasks[0])):
            for newer, older in _ranked(left, right):
                entry = (-newer, -older, likeness)
                if len(best) < self._limit:
                    heappush(best, entry)
                elif entry > best[0]:
                    heappushpop(best, entry)
                else:
                    break
        ordered = sorted(best, reverse=True)
        return [_Found(self._tasks[-newer], self._tasks[-older], likeness) for newer, older, likeness in ordered]

    def _read(self, progress: _Read) -> list[frozenset[str]]:
        """The distinct word sets, in the order of their newest task."""
        numbers: dict[frozenset[str], int] = {}
        known: list[dict[Hashable, Wording]] = []
        for rank, task in enumerate(self._tasks):
            if rank % _STEP == 0:
                progress(rank)
            title = read_title(task.title)
            number = numbers.setdefault(title.words, len(numbers))
            if number == len(known):
                known.append({})
            wording = known[number].setdefault(title[1:], Wording(title.names, title.identifiers))
            wording.tasks.append(rank)
        self._wordings = [list(each.values()) for each in known]
        return list(numbers)

    def _keep(self, left: Wording, right: Wording, likeness: float) -> None:
        count = len(left.tasks)
        pairs = count * (count - 1) // 2 if left is right else count * len(right.tasks)
        if pairs and len(self._pairs) == _MOST:
            self.more = True
        elif pairs:
            self._pairs.append((left, right, likeness))
            self.count += pairs


def _tell(progress: Progress, done: int, total: int, read: int) -> None:
    progress("titles", done + read, total)


def _ranked(left: Wording, right: Wording) -> Iterator[tuple[int, int]]:
    """The pairs of tasks of two wordings by their ranks, the newer first, the newest before the others."""
    sides = [((rank, right.tasks) for rank in left.tasks)]
    if left is not right:
        sides.append((rank, left.tasks) for rank in right.tasks)
    for rank, others in merge(*sides, key=itemgetter(0)):
        for other in others[bisect_right(others, rank) :]:
            yield rank, other


def _titled(record: Record, tasks: Mapping[str, _Task]) -> dict[str, TitleChange]:
    """How each task came by its title, as its changes tell."""
    found: dict[str, TitleChange] = {}
    for task, changes in record.changes(tasks).items():
        titles = [c for c in changes if c.field == "title" and c.action is Action.SET]
        titles.sort(key=lambda change: change.version)
        last = next((n for n in range(len(titles) - 1, -1, -1) if titles[n].value == tasks[task].title), None)
        if last is not None:
            made = {change.version.operation for change in changes if change.action is Action.CREATE}
            found[task] = _title_change(titles[last], titles[last - 1].value if last else None, made)
    return found


def _title_change(change: Change, before: str | None, made: set[str]) -> TitleChange:
    by: Literal["create", "update", "edit"] = "create" if change.version.operation in made else "update"
    return TitleChange(at=change.version.at, by=by if change.event else "edit", event=change.event, before=before)


def _pair(workspace: str, found: _Found, titled: Mapping[str, TitleChange]) -> Pair:
    def shown(task: _Task) -> TwinTask:
        return TwinTask(
            id=task.id, title=task.title, state=task.state, updated=task.updated, titled=titled.get(task.id)
        )

    likeness = round(found.likeness, 2)
    return Pair(workspace=workspace, likeness=likeness, tasks=(shown(found.newer), shown(found.older)))

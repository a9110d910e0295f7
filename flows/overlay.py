"""What was decided and cannot be read in the record yet.

`decide` does not wait for `apply`: the operations it has emitted are kept here and merged, by the same pure
merge that apply uses, into every row that enters a View. An entry goes once the event row of its event, which
apply writes last, is readable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from store.derive import decision_changes
from store.merge import fold_person, fold_task
from store.record import Record, Thread
from store.schema import Action, Change, Create, Decision, NotATask, PersonRow, TaskRow


@dataclass(frozen=True, slots=True)
class _Entry:
    thread: Thread
    changes: tuple[Change, ...]
    touched: tuple[str, ...]
    created: tuple[str, ...]


class Overlay:
    """Decisions in the order they were made, by event, with the changes they will become."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}
        self._drafts: dict[str, _Entry] = {}
        """Of long events of which only some segments are judged: seen by themselves alone."""
        self.decided = 0
        """Decisions that were added so far (count)."""
        self._changes: defaultdict[str, list[Change]] = defaultdict(list)
        self._created: defaultdict[Thread, dict[str, None]] = defaultdict(dict)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, event: str) -> bool:
        """Whether an event is decided; a draft decides nothing."""
        return event in self._entries

    def add(self, decision: Decision) -> None:
        """Keep a Decision; the first of an identity stays, as it will in the record."""
        uid = decision.event.uid
        if uid in self._entries:
            return
        self._drafts.pop(uid, None)
        self.decided += 1
        entry = self._entries[uid] = _entry(decision)
        for change in entry.changes:
            self._changes[change.row_id].append(change)
        if entry.created:
            self._created[entry.thread].update(dict.fromkeys(entry.created))

    def sketch(self, draft: Decision) -> None:
        """Keep what the segments judged so far decide: its later segments see it, nobody else."""
        self._drafts[draft.event.uid] = _entry(draft)

    def has_draft(self, event: str) -> bool:
        """Whether segments of a long event are judged, and it is not decided yet."""
        return event in self._drafts

    def forget(self, event: str) -> None:
        """Let go of the draft of an event that will not be decided now."""
        self._drafts.pop(event, None)

    def settle(self, readable: Collection[str]) -> None:
        """Let go of the events whose rows are readable."""
        for event in [event for event in readable if event in self._entries]:
            self._remove(event)

    def _remove(self, event: str) -> None:
        entry = self._entries.pop(event)
        for change in entry.changes:
            kept = self._changes[change.row_id]
            kept.remove(change)
            if not kept:
                del self._changes[change.row_id]
        if entry.created:
            created = self._created[entry.thread]
            for task in entry.created:
                del created[task]
            if not created:
                del self._created[entry.thread]

    def oldest(self, count: int) -> list[str]:
        """The events that have waited longest, which apply reaches first."""
        return list(islice(self._entries, count))

    def touched_by(self, event: str) -> tuple[str, ...]:
        """Tasks that the Decision of an event touches."""
        entry = self._entries.get(event)
        return entry.touched if entry else ()

    def created_in(self, thread: Thread, draft: str | None = None) -> list[str]:
        """Tasks that events of a thread have just created, and those of the draft of one event."""
        drafted = self._drafts[draft].created if draft in self._drafts else ()
        return [*self._created.get(thread, ()), *drafted]

    def latest(self, workspace: str, count: int) -> list[str]:
        """Tasks of a workspace touched by the newest Decisions, at most `count`."""
        newest = (
            task
            for entry in reversed(self._entries.values())
            if entry.thread[0] == workspace
            for task in entry.touched
        )
        return list(islice(dict.fromkeys(newest), count))

    def tasks(self, record: Record, ids: Iterable[str], draft: str | None = None) -> dict[str, TaskRow]:
        """Tasks by id as they will be once everything emitted is applied, and the draft of one event."""
        wanted = list(dict.fromkeys(ids))
        rows = record.tasks(wanted)
        changes = self._changes_with(draft)
        pending = [row_id for row_id in wanted if row_id in changes]
        # A row whose create is here and which the record does not list has no other history.
        history = record.changes(row_id for row_id in pending if row_id in rows or not _creates(changes[row_id]))
        for row_id in pending:
            row = fold_task([*history.get(row_id, ()), *changes[row_id]])
            if row:
                rows[row_id] = row
            else:
                rows.pop(row_id, None)
        return rows

    def _changes_with(self, draft: str | None) -> Mapping[str, Sequence[Change]]:
        if draft not in self._drafts:
            return self._changes
        changes: dict[str, list[Change]] = {row_id: list(found) for row_id, found in self._changes.items()}
        for change in self._drafts[draft].changes:
            changes.setdefault(change.row_id, []).append(change)
        return changes

    def people(self, record: Record, ids: Iterable[str]) -> dict[str, PersonRow]:
        """People by id, likewise."""
        wanted = list(dict.fromkeys(ids))
        rows = record.people(wanted)
        for row_id in wanted:
            if row_id in self._changes:
                row = fold_person(rows.get(row_id), self._changes[row_id])
                if row:
                    rows[row_id] = row
        return rows


def _entry(decision: Decision) -> _Entry:
    event = decision.event
    return _Entry(
        thread=(event.workspace, event.thread),
        changes=decision_changes(decision),
        touched=tuple(o.task for o in decision.operations if not isinstance(o, NotATask)),
        created=tuple(o.task for o in decision.operations if isinstance(o, Create)),
    )


def _creates(changes: Iterable[Change]) -> bool:
    return any(change.action is Action.CREATE for change in changes)

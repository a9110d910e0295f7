"""Rows written from human labels, so that search alone is measured: whoever would decide is always right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flows.apply import record_positions
from flows.bench.nothing import NOTHING_FOUND
from flows.daemons import Daemons
from flows.data_folder import DataFolder
from flows.maintain import vector_writer_of, writer_of
from flows.overlay import Overlay
from flows.retrieve.look import Looker
from flows.retrieve.slices import Shown, cut_of, task_slice
from store import Store
from store.commit import StoreWriter
from store.derive import Applied
from store.schema import (
    Arrival,
    Coordinates,
    Create,
    Decision,
    Event,
    Evidence,
    Query,
    Settings,
    TaskRow,
    Update,
    UsageError,
    Version,
    View,
)
from store.schema.identity import operation_id, task_id
from store.schema.operation import JudgedOperation
from store.vector_writer import VectorWriter

_JUDGE = "labels/1"
_TOPIC = "labels"
_BATCH = 32
"""Rows embedded at once (rows)."""


@dataclass(slots=True)
class LabelledStore:
    """A store that is told what became of each event, and is searched in between."""

    store: Store
    settings: Settings
    pool: Daemons
    overlay: Overlay = field(default_factory=Overlay)
    rows: dict[str, str] = field(default_factory=dict)
    """Task ids by the name that the labels have for a row."""
    _tasks: dict[str, TaskRow] = field(default_factory=dict)
    _writer: StoreWriter = field(init=False)
    _vectors: VectorWriter | None = None
    _waiting: list[Applied] = field(default_factory=list)
    _offset: int = 0

    def __post_init__(self) -> None:
        self._writer = writer_of(self.store, self.settings)
        if self.store.memory.vectors:
            self._vectors = vector_writer_of(self.store.memory.vectors, self.settings)
            self.store.memory.projected = self._vectors.touched

    def create(self, event: Event, row: str) -> None:
        """The event is the first of a row."""
        operation = operation_id(event.uid, 0, 0)
        title = " ".join((event.subject or event.text).split())[: self.settings.title_characters] or "…"
        create = Create(
            id=operation,
            number=0,
            task=task_id(operation),
            title=title,
            quote=event.text or title,
            requester=event.person(event.author),
            reason="labelled",
            not_nothing="labelled",
        )
        arrival = self._arrival(event)
        version = Version(at=arrival.happened, seq=arrival.seq, operation=operation)
        self._tasks[row] = TaskRow(
            id=create.task,
            workspace=event.workspace,
            thread=event.thread,
            title=title,
            state="open",
            body=create.quote,
            created=version.at,
            updated=version.at,
            version=version,
        )
        self.rows[row] = create.task
        self._decide(arrival, create, ())

    def update(self, event: Event, row: str) -> None:
        """The event is about a row that is there."""
        task, arrival = self._tasks[row], self._arrival(event)
        operation = operation_id(event.uid, 0, 0)
        update = Update(
            id=operation,
            number=0,
            task=task.id,
            seen=task.version,
            state="in_progress",
            quote=event.text or "…",
            evidence=(Evidence(handle="S1", row_id=task.id),),
            reason="labelled",
        )
        cut = cut_of(task, {}, self.settings.slice_characters)
        self._decide(arrival, update, (task_slice("S1", Shown(task), event, cut),))
        version = Version(at=arrival.happened, seq=arrival.seq, operation=operation)
        self._tasks[row] = task.model_copy(update={"updated": version.at, "version": version})

    def look(self, event: Event, settings: Settings | None = None) -> View:
        """What the judgment of the event would see now."""
        looker = Looker(self.store, self.overlay, settings or self.settings, self.pool)
        [view] = looker.look([self._arrival(event)], {})
        return view

    def flush(self) -> None:
        """Make everything that was told readable, searchable and embedded."""
        if self._waiting:
            self._writer.commit(self._waiting, record_positions(self._waiting, _TOPIC, _TOPIC))
            self._writer.follow()
            self.overlay.settle([applied.message.event.uid for applied in self._waiting])  # type: ignore[union-attr]
            self._waiting = []
            self._writer.upkeep.maintain()
        while self._vectors and self._vectors.pending:
            self._vectors.work(_BATCH)

    def _arrival(self, event: Event) -> Arrival:
        where = Coordinates(topic=_TOPIC, offset=self._offset)
        return Arrival(event=event, arrived=event.at, coordinates=where)

    def _decide(self, arrival: Arrival, operation: JudgedOperation, seen: Sequence[object]) -> None:
        view = View(
            event=arrival.event.uid,
            queries=(Query(lane="text", terms=("labelled",)),),
            reads=NOTHING_FOUND,
            slices=tuple(seen),
        )
        decision = Decision(arrival=arrival, view=view, operations=(operation,), judge=_JUDGE)
        self.overlay.add(decision)
        applied = Applied(decision, arrival.coordinates, arrival.arrived, decision.model_dump_json())
        self._waiting.append(applied)
        self._offset += 1


@contextmanager
def labelled_store(settings: Settings) -> Iterator[LabelledStore]:
    """An empty store in a folder that goes when it is done."""
    with (
        TemporaryDirectory(prefix="lookfirst-bench-") as path,
        Daemons(settings.readers, "read") as pool,
    ):
        store = DataFolder.at(Path(path), settings).store(create=True)
        yield LabelledStore(store, settings, pool)


def read_labelled(path: Path) -> list[dict[str, Any]]:
    """The lines of a file of labelled events; raises UsageError when it is not there."""
    try:
        with path.open(encoding="utf-8") as lines:
            return [json.loads(line) for line in lines if line.strip()]
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read ({error.strerror}); name the folder that holds the labelled data."
        ) from error


def share(hits: Iterable[bool]) -> float:
    """How many of them, as a share (0 to 1); 0 of none."""
    found = list(hits)
    return round(sum(found) / len(found), 3) if found else 0.0

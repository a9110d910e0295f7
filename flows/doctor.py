"""A look at a data folder that changes nothing: what is in it, and whether it fits together.

Works while a run is going on. What moves is taken in the order it is written in: ends of the topics first, then
the positions, then the rows, so that nothing is missed that was whole when the look began.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pyarrow as pa

from connectors.disk import bytes_under
from connectors.recovery_store import BACKUP
from connectors.topic_file import TopicFile
from flows.audit import DECISION_COLUMNS, EVENT_COLUMNS, STORE, Audited, audit
from flows.data_folder import DataFolder
from flows.diagnosis import Check, EventCounts, OperationCounts, PlaceShown, Report, State, TopicShown, checked
from flows.ledger import Emitted, KnownEvents, Letters, read_events, read_letters, read_operations
from flows.rebuild import DROPPED, REBUILDING
from flows.steps import Progress, no_progress
from flows.table_wear import tables_shown, wear_of
from store import Store
from store.arrow import arrow_schema
from store.schema import DecisionRow, EventRow, Frozen, Position, Settings, StoreError, TopicError
from store.tables import cause_of
from store.vectors import VECTORS

TOPICS: Final = ("events", "operations", "dead-letters")
_PACKAGES: Final = ("lookfirst", "bytewax", "lancedb", "pyarrow", "pydantic")
_RUN: Final = "`lookfirst run`"


@dataclass(frozen=True, slots=True)
class _Ends:
    """The topics that are there, and where each ended when the look began."""

    topics: dict[str, TopicFile]
    at: dict[str, int]
    elsewhere: bool = False
    """They are on brokers."""

    def __getitem__(self, name: str) -> int:
        return self.at.get(name, 0)


def examine(folder: DataFolder, settings: Settings, progress: Progress = no_progress) -> Report:
    """Look at everything in a folder; raises StoreError when there is nothing in it."""
    running = folder.is_used
    report = _examine(folder, settings, progress, running=running)
    if not running and folder.is_used:
        # A run began meanwhile: what did not fit may have been moving.
        return _examine(folder, settings, progress, running=True)
    return report


def _examine(folder: DataFolder, settings: Settings, progress: Progress, *, running: bool) -> Report:
    checks: list[Check] = []
    ends = _take_ends(folder, checks)
    store = _open(folder, ends, checks, running=running)
    if not ends.topics and store is None and not checks:
        raise StoreError(f"There is nothing in {folder.path}; `lookfirst run --data {folder.path}` begins.")
    report = Report(
        folder=str(folder.path),
        versions={"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}},
        running=running,
        topics=tuple(_topic(folder, name, ends) for name in TOPICS),
    )
    found: dict[str, object] = {}
    try:
        if store is not None:
            found["tables"] = tables = tables_shown(store)
            checks += wear_of(tables, settings)
        found |= _look(store, ends, checks, progress, running=running)
    except (StoreError, TopicError):
        raise
    except Exception as error:
        # The database raises what it likes for a damaged table.
        checks.append(checked("tables", "wrong", f"A table cannot be read ({cause_of(error)}).", STORE))
    checks += _leftovers(folder, running=running)
    return report.model_copy(update={**found, "checks": tuple(checks)})


def _look(
    store: Store | None, ends: _Ends, checks: list[Check], progress: Progress, *, running: bool
) -> dict[str, object]:
    """Topics and rows held against each other."""
    found: dict[str, object] = {}
    positions = store.record.positions() if store else []
    name = _name(ends, "operations")
    places = [_place(place, ends) for place in positions if place.topic == name or ends.elsewhere]
    found["places"] = tuple(places)
    checks += _positions(positions, places, ends, running=running)
    applied = _reached(places, "record")
    # The events before the decisions: a row is written after its Decision.
    events = _columns(store, "events", EVENT_COLUMNS, EventRow)
    decisions = _columns(store, "decisions", DECISION_COLUMNS, DecisionRow)
    letters, emitted = Letters(), Emitted()
    if "dead-letters" in ends.topics:
        letters = read_letters(ends.topics["dead-letters"], ends["dead-letters"], progress)
        found["letters"] = letters.shown()
        checks += _letters(letters)
    if "operations" in ends.topics:
        rows = set(decisions["position"].to_pylist())
        topic, end = ends.topics["operations"], ends["operations"]
        counts, emitted = read_operations(topic, end, applied, rows, progress)
        dropped = decisions["stands"].to_pylist().count(False)
        found["operations"] = counts = counts.model_copy(update={"dropped": dropped})
        checks.append(_operations(counts))
    if "events" in ends.topics:
        known = KnownEvents()
        for row in zip(*(events[name].to_pylist() for name in EVENT_COLUMNS), strict=True):
            known.add(*row)
        read = read_events(ends.topics["events"], ends["events"], known, emitted, letters, progress)
        if not running:
            read = read.model_copy(update={"strange": read.strange + known.beyond(ends["events"])})
        found["events"] = read
        checks.append(_events(read, running=running))
    elif events.num_rows and not ends.elsewhere:
        told = f"The store knows {events.num_rows:,} events, and the topic they came from is not here."
        checks.append(checked("events", "wrong", told, "put the topic file back"))
    if store is not None:
        checks += audit(Audited(store, applied, _reached(places, "memory"), events, decisions), progress)
        checks += _embedded(store, running=running)
    return found


def _columns(store: Store | None, table: str, columns: Sequence[str], model: type[Frozen]) -> pa.Table:
    if store is None:
        return arrow_schema(model).empty_table().select(columns)
    return store.tables[table].search().select(list(columns)).to_arrow()


def _take_ends(folder: DataFolder, checks: list[Check]) -> _Ends:
    ends = _Ends({}, {}, folder.is_on_brokers)
    # In the order of the flow, so that what follows from a message is not older than the message.
    for name in TOPICS:
        # Opening a topic makes it; here only what is there is opened.
        if _path(folder, name).is_file():
            try:
                ends.topics[name] = folder.topic(name)
                ends.at[name] = ends.topics[name].end().offset
            except TopicError as error:
                ends.topics.pop(name, None)
                checks.append(checked(f"{name} topic", "wrong", str(error), "put the right topic file back"))
    return ends


def _open(folder: DataFolder, ends: _Ends, checks: list[Check], *, running: bool) -> Store | None:
    # A run that begins is making it; one that goes on says itself when it cannot read it.
    state: State = "note" if running else "wrong"
    if not (folder.path / "store").is_dir():
        if ends["operations"]:
            said = f"There is no store, and the operations topic holds {ends['operations']:,} messages."
            checks.append(checked("store", state, said, STORE))
        return None
    try:
        return folder.store()
    except Exception as error:
        # The database raises what it likes for a damaged table.
        checks.append(checked("store", state, str(error) or type(error).__name__, STORE))
        return None


def _path(folder: DataFolder, name: str) -> Path:
    return folder.path / "topics" / f"{folder.prefix}.{name}.jsonl"


def _topic(folder: DataFolder, name: str, ends: _Ends) -> TopicShown:
    path = _path(folder, name)
    if name not in ends.topics:
        return TopicShown(name=path.stem, bytes=bytes_under(path))
    return TopicShown(name=path.stem, id=ends.topics[name].id, messages=ends[name], bytes=bytes_under(path))


def _name(ends: _Ends, topic: str) -> str | None:
    return ends.topics[topic].name if topic in ends.topics else None


def _place(place: Position, ends: _Ends) -> PlaceShown:
    # Where nobody looked at the topic, its end is at least where the store is.
    end = place.next_offset if ends.elsewhere else ends["operations"]
    return PlaceShown(
        part=place.part,
        topic=place.topic,
        partition=place.partition,
        next_offset=place.next_offset,
        end=end,
        lag=max(0, end - place.next_offset),
    )


def _reached(places: list[PlaceShown], part: str) -> int:
    return max((place.next_offset for place in places if place.part == part), default=0)


def _positions(
    positions: list[Position], places: list[PlaceShown], ends: _Ends, *, running: bool
) -> Iterator[Check]:
    if "operations" not in ends.topics:
        if ends.elsewhere:
            said = "The topics are on brokers, and were not looked at: only the store was."
            yield checked("positions", "note", said, "`lookfirst topics create` checks them, `--health` shows lag")
        elif positions:
            said = "The store was filled from a topic of operations that is not here."
            yield checked("positions", "wrong", said, "put the topic file back")
        return
    topic = ends.topics["operations"]
    if any(place.topic == topic.name and place.topic_id != topic.id for place in positions):
        said = f"The store was filled from another topic than {topic.path}: their ids differ."
        yield checked(
            "positions", "wrong", said, "put the right topic file back, or delete the store to build it anew"
        )
        return
    if any(place.next_offset > place.end for place in places) and not running:
        said = f"The store has applied more than {topic.path} holds: the file was cut."
        yield checked(
            "positions", "wrong", said, "put the whole topic file back, or delete the store to build it anew"
        )
        return
    end = ends["operations"]
    record, memory = end - _reached(places, "record"), end - _reached(places, "memory")
    for part, lag in (("record", record), ("memory", memory)):
        if lag > 0:
            said = f"Of the operations topic the {part} has still to follow: {lag:,}."
            yield checked("positions", "ok" if running else "note", said, None if running else _RUN)
    if max(record, memory) <= 0:
        yield checked("positions", "ok", "Record and memory have followed the operations topic to its end.")


def _operations(counts: OperationCounts) -> Check:
    said = f"{counts.decisions:,} Decisions were applied, {counts.dropped:,} of them dropped as second ones"
    if counts.missing:
        return checked("operations", "wrong", f"{said}, and {counts.missing:,} have no row.", STORE)
    return checked("operations", "ok", f"{said}; each has its row.")


def _events(read: EventCounts, *, running: bool) -> Check:
    said = (
        f"{read.messages:,} messages = {read.decided:,} decided + {read.parked:,} parked + "
        f"{read.unreadable:,} unreadable + {read.repeats:,} repeats + {read.waiting:,} waiting"
    )
    if not read.adds_up:
        said += f", but {read.strange:,} event rows are of messages the topic does not hold"
        return checked("events", "wrong", f"{said}.", "put the whole events topic file back")
    if read.waiting and not running:
        return checked("events", "note", f"{said}.", f"{_RUN} decides what waits")
    return checked("events", "ok", f"{said}.")


def _letters(letters: Letters) -> Iterator[Check]:
    total = letters.kinds.total()
    if letters.damaged:
        said = f"{letters.damaged:,} lines of the dead-letter topic are no dead letters."
        yield checked("dead letters", "note", said, "read them in the file; nothing else needs them")
    if total:
        said = f"{total:,} dead letters are kept."
        yield checked("dead letters", "note", said, "`lookfirst replay dead-letters` once their reasons are gone")
    elif not letters.damaged:
        yield checked("dead letters", "ok", "There are no dead letters.")


def _embedded(store: Store, *, running: bool) -> Iterator[Check]:
    """Whether the lane of meaning knows every row, where there is such a lane."""
    vectors = store.memory.vectors
    if vectors is None:
        return
    path = store.tables.path / f"{VECTORS}.lance"
    try:
        if path.is_dir() and store.tables.find(VECTORS) is None:
            raise StoreError("it cannot be opened")
        behind = vectors.behind()
    except Exception as error:
        said = f"The vectors of the tasks cannot be read ({cause_of(error)})."
        # A run that begins may be making it.
        yield checked("vectors", "note" if running else "wrong", said, f"delete {path}; {_RUN} makes it anew")
        return
    if not behind:
        yield checked("vectors", "ok", "Every task in memory is embedded.")
        return
    said = f"Of the tasks in memory {behind:,} are not embedded: the vector lane does not find them."
    remedy = f"{_RUN} embeds them, but for texts that the embedder refuses"
    yield checked("vectors", "ok" if running else "note", said, None if running else remedy)


def _leftovers(folder: DataFolder, *, running: bool) -> Iterator[Check]:
    """What an interrupted command left."""
    if running:
        return
    for path, remedy in (
        (folder.path / REBUILDING, STORE),
        (folder.path / "store" / DROPPED, "`lookfirst rebuild memory`"),
        (folder.path / BACKUP, "`lookfirst maintain`"),
    ):
        if path.exists():
            yield checked(
                "leftovers", "note", f"{path} was left by a command that was interrupted.", f"{remedy} removes it"
            )

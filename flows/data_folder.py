"""Where an embedded run keeps everything: topics, store and recovery state, in one folder."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bytewax.recovery import RecoveryConfig, init_db_dir

from connectors.lock import in_turn, is_held
from connectors.topic import Topic
from connectors.topic_file import TopicFile
from store import Store
from store.schema import STORE_FORMAT, EmbedderSpec, Settings, StoreError, UsageError

_RECOVERY_PARTITIONS = 4

ON_BROKERS = ".kafka"
"""Ending of the recovery folder of a flow whose topics are on brokers."""

_CAUSE = re.compile(r'Some\("([^"]+)"\)')


@dataclass(frozen=True, slots=True)
class DataFolder:
    """A data folder and what is in it."""

    path: Path
    prefix: str
    embedder: EmbedderSpec | None = None
    far: float | None = None

    @classmethod
    def at(cls, path: Path, settings: Settings) -> DataFolder:
        """The folder with the topic names and the embedder of the settings."""
        return cls(path, settings.topic_prefix, settings.embedding, settings.vector_distance)

    @property
    def recovery(self) -> Path:
        """State of the dataflows."""
        return self.path / "recovery"

    @property
    def roles(self) -> Path:
        """What the processes that share the folder hold, one folder each: `apply`, `decide-0`, …"""
        return self.recovery / "roles"

    @property
    def is_on_brokers(self) -> bool:
        """Whether the store is filled from topics on brokers, so that there are none here."""
        return (self.recovery / f"apply{ON_BROKERS}").is_dir()

    @property
    def is_used(self) -> bool:
        """Whether a process works on the folder at this moment; makes and changes nothing."""
        return is_held(self.recovery) or any(is_held(role) for role in self.roles.glob("*"))

    def topic(self, name: str) -> TopicFile:
        """A topic file, made when it is missing: `events`, `operations` or `dead-letters`.

        Raises UsageError for a folder whose topics are on brokers: an empty file would pass for them.
        """
        if self.is_on_brokers:
            raise UsageError(
                f"The topics of {self.path} are on brokers; name them with --brokers, or in LOOKFIRST_BROKERS."
            )
        return TopicFile(self.path / "topics", f"{self.prefix}.{name}")

    def store(self, *, create: bool = False) -> Store:
        """The store; raises StoreError when there is none and none is to be made."""
        # It brings the database along, which takes a second to import.
        from store import open_store

        return open_store(self.path / "store", create=create, embedder=self.embedder, far=self.far)

    def recovery_config(self, flow: str) -> RecoveryConfig:
        """Recovery of a dataflow; a store that was killed while it was made is made again."""
        folder = self.recovery / flow
        with in_turn(self.recovery / "making"):
            self._make_recovery(flow, folder)
        return RecoveryConfig(str(folder), timedelta(0))

    def _make_recovery(self, flow: str, folder: Path) -> None:
        if not folder.is_dir():
            # Made aside and renamed: the engine cannot use a store that is half made.
            making = self.recovery / f"{flow}.making"
            making.mkdir(parents=True, exist_ok=True)
            for leftover in making.iterdir():
                leftover.unlink()
            try:
                init_db_dir(making, _RECOVERY_PARTITIONS)
            except BaseException as error:
                # The engine's panics are no Exceptions.
                raise StoreError(
                    f"The state in {making} cannot be made: {state_fault(error)}; free some space, or check its "
                    "permissions."
                ) from error
            making.rename(folder)

    def check_state(self) -> None:
        """Mark the recovery folder, or raise StoreError when another release has marked it differently.

        State is pickled: a release that does not know its format must not try to read it.
        """
        mark = self.recovery / "format"
        try:
            with in_turn(self.recovery / "making"):
                if not mark.exists():
                    making = self.recovery / "format.making"
                    making.write_text(f"{STORE_FORMAT}\n", encoding="utf-8")
                    making.replace(mark)
            written = mark.read_text(encoding="utf-8").strip()
        except OSError as error:
            raise StoreError(
                f"Cannot use {mark}: {error.strerror}; free some space, or check its permissions."
            ) from error
        if written != str(STORE_FORMAT):
            raise StoreError(
                f"The state in {self.recovery} has format {written}, this release reads {STORE_FORMAT}; use the "
                "release that wrote it, or delete the folder: events are then read again, none is decided twice."
            )


def state_fault(error: BaseException) -> str | None:
    """What the engine says of its own store when it panics, such as `disk I/O error`; None for other errors."""
    told = str(error)
    if isinstance(error, Exception) and "Sqlite" not in told:
        return None
    found = _CAUSE.search(told)
    return found[1] if found else told


def check_positions(store: Store, operations: Topic) -> dict[int, int]:
    """The offsets the record has reached, by partition; raises StoreError when it is not a store of this topic."""
    # In this order: beside a run, what has been applied by now is on the topic by then.
    places = store.record.positions()
    starts, ends = operations.starts(), operations.ends()
    reached = dict.fromkeys(ends, 0)
    for place in places:
        if place.topic != operations.name:
            continue
        if place.topic_id != operations.id:
            raise StoreError(
                f"The store was filled from topic {place.topic} with id {place.topic_id}, but the id of the "
                f"{operations.where} is {operations.id}: put the right topic back, name the --brokers "
                "that have it, or delete the store to build it anew."
            )
        end = ends.get(place.partition, 0)
        if place.next_offset > end:
            raise StoreError(
                f"The store has applied {place.topic} to offset {place.next_offset}, but the {operations.where} "
                f"ends at {end}: put the whole topic back, or delete the store to build it anew."
            )
        if place.part == "record":
            reached[place.partition] = place.next_offset
    for partition, first in starts.items():
        if reached[partition] < first:
            raise StoreError(
                f"The store has to apply the {operations.where} from offset {reached[partition]} on, but it "
                f"begins at {first}: what was between is lost, because the topic was not kept for ever; put a "
                "store back that has applied it."
            )
    return reached

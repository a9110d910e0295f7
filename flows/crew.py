"""What the processes of one decide must know of each other: who has room, what is on its way, and who is alone.

The engine hands an event that one process has read to the process that keeps its thread. So a source has to know
whether *others* have room, nobody may end while anything is under way anywhere, and a suspect has to be alone in
the whole set. Each process writes a few numbers into a page of memory that all of them map, and never those of
another; being alone is a lock on a file, which the system takes from a process that dies.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from connectors.topic_flow import Room
from store.schema import StoreError

_FIELDS: Final = ("handed", "taken", "messages", "size", "waiting", "under_way", "wants_alone", "stopping")
_NUMBER: Final = struct.Struct("=q")
_ROW: Final = 64
"""Numbers of one process (bytes)."""
_ALL: Final = 1 << 40
"""More than there ever is (count)."""


class Crew:
    """One process among `count`. A crew of one needs no folder, and then nothing is written or locked."""

    def __init__(self, folder: Path | None = None, number: int = 0, count: int = 1) -> None:
        self.number = number
        self.count = count
        self._lock: int | None = None
        self._began: int | None = None
        """The kind of lock that is held."""
        if folder is None:
            self._page: mmap.mmap | bytearray = bytearray(_ROW)
        else:
            self._open(folder)
        for field in _FIELDS:
            self._write(field, 0)

    def handed(self, messages: int) -> None:
        """So many messages were handed over by a source of this process."""
        self._write("handed", self._read("handed", self.number) + messages)

    def took(self, messages: int) -> None:
        """So many of what any source handed over have arrived at this process, or were no events."""
        self._write("taken", self._read("taken", self.number) + messages)

    def publish(self, room: Room, waiting: int, under_way: int) -> None:
        """Say how this process is: its room, what waits at its desk, and what is under way there."""
        self._write("messages", room.messages)
        self._write("size", _ALL if room.size is None else room.size)
        self._write("waiting", waiting)
        self._write("under_way", under_way)

    def room(self) -> Room:
        """How much a source of this process may hand over: its share of what the fullest process has room for."""
        messages = min(self._read("messages", each) for each in range(self.count)) - self.on_the_way
        size = min(self._read("size", each) for each in range(self.count))
        if messages <= 0 or size <= 0:
            return Room(0, 0)
        return Room(max(1, messages // self.count), None if size >= _ALL else max(1, size // self.count))

    @property
    def on_the_way(self) -> int:
        """Messages that were handed over and have not arrived (count)."""
        # What has arrived first: in between more may be handed over, and never less.
        taken = self._sum("taken")
        return max(0, self._sum("handed") - taken)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits and nothing is on its way, in any process."""
        return not self._sum("waiting") and not self.on_the_way and not self._sum("waiting")

    @property
    def is_still(self) -> bool:
        """Whether nothing is under way in any process."""
        return not self._sum("under_way")

    @property
    def is_stopping(self) -> bool:
        """Whether a process of the set is stopping; to be asked only when all have met."""
        return bool(self._sum("stopping"))

    def stop(self) -> None:
        """Tell the others that they are to stop, too: a set ends as a whole."""
        self._write("stopping", 1)

    def begin(self, *, alone: bool) -> bool:
        """Ask to begin judgments, of one suspect or of any; returns whether they may begin.

        While a process waits to be alone no other one begins anything. `over` must follow.
        """
        if self.count == 1:
            return True
        self._write("wants_alone", int(alone))
        if not alone and any(self._read("wants_alone", each) for each in range(self.count) if each != self.number):
            # Also while something is under way here: whoever is never without it would be waited for for ever.
            return False
        wanted = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        if self._began == wanted:
            return True
        assert self._lock is not None  # noqa: S101  a crew of several has a folder
        try:
            fcntl.flock(self._lock, wanted | fcntl.LOCK_NB)
        except BlockingIOError:
            # The system may have let go of the other kind while it tried.
            self._began = None
            return False
        self._write("wants_alone", 0)
        self._began = wanted
        return True

    def withdraw(self) -> None:
        """Nobody here has to be alone any more: the others may begin."""
        self._write("wants_alone", 0)

    def over(self) -> None:
        """Nothing is under way here at present."""
        if self._began is not None and self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
            self._began = None

    def close(self) -> None:
        """Let go of the files, and leave nothing that the next set could take for its own."""
        self._write("stopping", 0)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if isinstance(self._page, mmap.mmap):
            with suppress(BufferError):
                self._page.close()

    def _open(self, folder: Path) -> None:
        size = _ROW * self.count
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / "alone", os.O_RDWR | os.O_CREAT, 0o644)
            descriptor = os.open(folder / "numbers", os.O_RDWR | os.O_CREAT, 0o644)
            try:
                if os.fstat(descriptor).st_size < size:
                    os.ftruncate(descriptor, size)
                self._page = mmap.mmap(descriptor, size)
            finally:
                os.close(descriptor)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"The folder {folder} cannot be shared by the processes of decide: {error}."
            ) from error

    def _read(self, field: str, number: int) -> int:
        found: int = _NUMBER.unpack_from(self._page, number * _ROW + _FIELDS.index(field) * _NUMBER.size)[0]
        return found

    def _sum(self, field: str) -> int:
        return sum(self._read(field, number) for number in range(self.count))

    def _write(self, field: str, value: int) -> None:
        _NUMBER.pack_into(self._page, self.number * _ROW + _FIELDS.index(field) * _NUMBER.size, value)

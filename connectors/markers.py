"""Which events are being judged, written where a crash leaves it: how an event that kills the process is found.

Before events are judged they are marked in a file; afterwards the marks go. A process that ends in order says so
in the same file. One that does not leaves its marks, and the marked events are *suspects* for the next one: they
are judged one at a time, with nothing else under way. Only an event that was alone at an unclean end is charged,
so that events which merely were under way at a kill, however often, are never blamed.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from store.schema import FORMAT, Arrival, Coordinates, Frozen, StoreError
from store.schema.base import FormatVersion


class Suspect(Frozen):
    """An event that was under way at an unclean end."""

    place: Coordinates
    """By which it is known: the same event produced again is another one."""
    event: str
    """Uid of the event."""
    charges: int = 0
    """Unclean ends at which it was alone (count)."""


class _Marks(Frozen):
    """The file."""

    format: FormatVersion = FORMAT
    ended: bool
    """The process that wrote this has ended in order."""
    judging: tuple[Suspect, ...] = ()
    alone: bool = False
    """`judging` is one suspect, and nothing else was under way."""
    suspects: tuple[Suspect, ...] = ()


class Markers:
    """The marks of one process."""

    def __init__(self, path: Path, others: Iterable[Path] = ()) -> None:
        """`others` are those of the processes that decide together with this one, or did: their suspects count."""
        self._path = path
        self._others = tuple(others)
        self._lock = threading.Lock()
        left = _read(path)
        self.unclean = left is not None and not left.ended
        """Whether the process before this one left no end record."""
        self._suspects: dict[Coordinates, Suspect] = {}
        for marks in (left, *map(_read, self._others)):
            for suspect in _suspects_of(marks):
                known = self._suspects.get(suspect.place, suspect)
                self._suspects[suspect.place] = max(known, suspect, key=_charges)
        self._convicted: dict[Coordinates, Suspect] = {}
        self._judging: dict[Coordinates, Suspect] = {}
        self._alone = False
        self._ended = False
        self._changed = True
        self.write()

    def __len__(self) -> int:
        """Suspects that are not cleared yet (count)."""
        return len(self._suspects)

    @property
    def is_alone(self) -> bool:
        """Whether what is being judged is a suspect that has to be alone."""
        return self._alone and bool(self._judging)

    @property
    def suspects(self) -> tuple[Suspect, ...]:
        """Events that are to be judged alone."""
        return tuple(self._suspects.values())

    def charged(self, place: Coordinates) -> int | None:
        """Crashes charged to an event (count); None when it is no suspect."""
        suspect = self._suspects.get(place)
        return suspect.charges if suspect else None

    def enter(self, arrivals: Iterable[Arrival], *, alone: bool = False) -> None:
        """Mark events, durably, before anything is done with them."""
        for arrival in arrivals:
            self._judging[arrival.coordinates] = Suspect(place=arrival.coordinates, event=arrival.event.uid)
        self._alone = alone
        self._changed = True
        self.write(durably=True)

    def leave(self, place: Coordinates) -> None:
        """Take away a mark; `write` makes it known."""
        self._judging.pop(place, None)
        self._changed = True

    def clear(self, place: Coordinates) -> None:
        """The event is settled and the process lives: it is no suspect any more."""
        self._changed |= self._suspects.pop(place, None) is not None

    def convict(self, place: Coordinates) -> None:
        """The event is parked. Remembered until the end record, for until then a crash may undo the parking."""
        suspect = self._suspects.pop(place, None)
        if suspect:
            self._convicted[place] = suspect
            self._changed = True

    def refresh(self) -> None:
        """Suspects that another process has cleared, or convicted, are none any more.

        To be called when all processes of a set have met: before, what another one knows may be from the last set.
        """
        for marks in map(_read, self._others) if self._suspects else ():
            known = {suspect.place for suspect in marks.suspects} if marks else set()
            for place in [place for place in self._suspects if marks and place not in known]:
                self.clear(place)

    def end(self) -> None:
        """Leave the end record: whatever is still marked is nobody's fault."""
        if self._lock.acquire(timeout=1):
            try:
                self._put(_Marks(ended=True, suspects=self.suspects), durably=True)
                self._ended = True
            finally:
                self._lock.release()

    def write(self, *, durably: bool = False) -> None:
        """Write the marks, if any changed since they were last written."""
        with self._lock:
            if self._changed and not self._ended:
                marks = _Marks(
                    ended=False,
                    judging=tuple(self._judging.values()),
                    alone=self._alone and len(self._judging) == 1,
                    suspects=(*self.suspects, *self._convicted.values()),
                )
                self._put(marks, durably)
                self._changed = False

    def _put(self, marks: _Marks, durably: bool) -> None:
        # Renamed into place: a crash leaves the marks before or the marks after, never half of them.
        making = self._path.with_suffix(".making")
        try:
            with making.open("w", encoding="utf-8") as file:
                file.write(marks.model_dump_json())
                if durably:
                    file.flush()
                    os.fdatasync(file.fileno())
            making.replace(self._path)
        except OSError as error:
            raise StoreError(f"Cannot write {self._path}: {error.strerror}; free some space.") from error


def _read(path: Path) -> _Marks | None:
    try:
        written = path.read_bytes()
        # An empty one was left by a power cut: what stood there is gone, and nobody is blamed for it.
        return _Marks.model_validate_json(written) if written else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(f"Cannot read {path}: {error.strerror}.") from error
    except ValidationError as error:
        raise StoreError(
            f"{path} is not of this release, or was damaged: delete it, and the next run takes no event for a "
            "suspect."
        ) from error


def _suspects_of(left: _Marks | None) -> list[Suspect]:
    """Who is suspected after a process: those it suspected, and what it was judging if it left no word."""
    if left is None:
        return []
    suspects = {suspect.place: suspect for suspect in left.suspects}
    for marked in () if left.ended else left.judging:
        known = suspects.get(marked.place, marked)
        suspects[marked.place] = known.model_copy(update={"charges": known.charges + left.alone})
    return list(suspects.values())


def _charges(suspect: Suspect) -> int:
    return suspect.charges

"""A topic as an append-only file: one header line, then one JSON line for each message.

The offset of a message is its place among the lines after the header. Writers of any process take the file's
own short lock for each append. Readers never look past the last whole line, and share that lock: an append that
finds no space is taken back, and nobody may have seen any of it.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from connectors.message import Incoming, Outgoing
from connectors.topic import AT_ONCE, Offsets
from store.schema import FORMAT, Coordinates, TopicError

_HEADER = b'{"format": '

_MARK_EVERY = 1_024
"""Between two places that are remembered (messages): a few bytes for each, and few lines to walk."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where to read on: the offset of the next message and the byte its line starts at."""

    offset: int
    byte: int


def utc_now() -> datetime:
    """The time a message is appended at; the only clock of the pipeline."""
    return datetime.now(UTC)


class TopicFile:
    """One topic of one partition in one file. Safe for several processes; not for several threads at once."""

    def __init__(self, folder: Path, name: str, clock: Callable[[], datetime] = utc_now) -> None:
        self.name = name
        self.path = folder / f"{name}.jsonl"
        self._clock = clock
        self._end: Place | None = None
        self._last: datetime | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TopicError(f"Cannot make the folder {folder}: {error.strerror}.") from error
        with self._locked():
            pass
        self.id, self._start = self._header()
        self._marks = [self._start]
        """Places that were passed, far apart: where to begin when an offset is looked for again."""

    @property
    def start(self) -> Place:
        """The first message."""
        return self._start

    @property
    def where(self) -> str:
        """The file."""
        return f"topic file {self.path}"

    def append(self, messages: Sequence[Outgoing]) -> Coordinates:
        """Append messages, at least one, durably, all or none; returns where the last one stands.

        The time of appending is written into each line and never goes back within the topic.
        """
        with self._locked() as file:
            end = self._find_end(file)
            now = max(self._clock(), self._last or datetime.min.replace(tzinfo=UTC))
            lines = [_line(message, now) for message in messages]
            data = b"".join(lines)
            try:
                _write_at(file.fileno(), data, end.byte)
            except OSError as error:
                # Not the file's own truncate: that would first write again what could not be written.
                os.ftruncate(file.fileno(), end.byte)
                raise TopicError(f"Cannot append to {self.path}: {error.strerror}; free some space.") from error
            self._last = now
            self._end = Place(end.offset + len(lines), end.byte + len(data))
        return Coordinates(topic=self.name, offset=self._end.offset - 1)

    def read(self, place: Place, limit: int, size: int | None = None) -> tuple[list[Incoming], Place]:
        """Up to `limit` messages from `place` on, and the place after them.

        Not many more than `size` bytes of them, but at least one when there is one.
        """
        found: list[Incoming] = []
        end = None if size is None else place.byte + size
        self._mark(place)
        with self._shared() as file:
            file.seek(place.byte)
            while len(found) < limit and (end is None or place.byte < end or not found):
                line = file.readline()
                if not line.endswith(b"\n"):
                    break
                found.append(self._message(line, place.offset))
                place = Place(place.offset + 1, place.byte + len(line))
        return found, place

    def batches(
        self, start: Place | None = None, end: int | None = None, at_once: int = AT_ONCE
    ) -> Iterator[list[Incoming]]:
        """The messages from `start` (else the first) up to the offset `end` (else where the topic ends now).

        At most `at_once` of them at a time, and never none.
        """
        place = start or self._start
        last = self.end().offset if end is None else end
        while place.offset < last:
            found, place = self.read(place, min(at_once, last - place.offset))
            if not found:
                return
            yield found

    def starts(self) -> dict[int, int]:
        """The first offset: a file keeps all of them."""
        return {0: 0}

    def ends(self) -> dict[int, int]:
        """The offset after the last message."""
        return {0: self.end().offset}

    def since(self, moment: datetime) -> dict[int, int]:
        """The first offset: where a moment is in a file, only reading says."""
        return self.starts()

    def walk(
        self, start: Offsets | None = None, end: Offsets | None = None, at_once: int = AT_ONCE
    ) -> Iterator[list[Incoming]]:
        """`batches` between two offsets."""
        begin = self.place_of(start[0]) if start and 0 in start else None
        yield from self.batches(begin, end.get(0, 0) if end is not None else None, at_once)

    def fetch(self, places: Sequence[Coordinates]) -> list[Incoming]:
        """Messages that were read before, by ascending offset; raises TopicError when one is gone."""
        found: list[Incoming] = []
        with self.path.open("rb") as file:
            place = self._start
            for offset in (each.offset for each in places):
                place = max(place, self._mark_before(offset), key=_offset)
                line = b""
                file.seek(place.byte)
                while place.offset <= offset:
                    line = file.readline()
                    if not line.endswith(b"\n"):
                        raise TopicError(
                            f"Offset {offset} of {self.path} was read before and is gone: it was cut."
                        )
                    place = Place(place.offset + 1, place.byte + len(line))
                found.append(self._message(line, offset))
        return found

    def place_of(self, offset: int) -> Place:
        """The place of an offset, found by walking the file; raises TopicError when it is past the end."""
        place = self._mark_before(offset)
        with self.path.open("rb") as file:
            file.seek(place.byte)
            while place.offset < offset:
                self._mark(place)
                line = file.readline()
                if not line.endswith(b"\n"):
                    raise TopicError(
                        f"Offset {offset} is past the end ({place.offset}) of {self.path}: the store or the "
                        "recovery folder belongs to another topic file, or it was cut; put the whole file back."
                    )
                place = Place(place.offset + 1, place.byte + len(line))
        return place

    def end(self) -> Place:
        """The place after the last whole message."""
        with self._shared() as file:
            return self._find_end(file)

    @contextmanager
    def _shared(self) -> Iterator[BinaryIO]:
        with self.path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield file

    @contextmanager
    def _locked(self) -> Iterator[BinaryIO]:
        try:
            # Neither "a" (cannot overwrite a torn line) nor "w" (empties): open, make it if need be.
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise TopicError(f"Cannot open the topic file {self.path}: {error.strerror}.") from error
        with os.fdopen(descriptor, "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._drop_torn_line(file)
                if file.seek(0, os.SEEK_END) == 0:
                    # Begins with _HEADER, by which a header that was torn is known again.
                    header = {"format": FORMAT, "topic": self.name, "id": uuid.uuid4().hex}
                    _write_at(file.fileno(), json.dumps(header).encode() + b"\n", 0)
            except OSError as error:
                raise TopicError(
                    f"Cannot use the topic file {self.path}: {error.strerror}; free some space, or check its "
                    "permissions."
                ) from error
            yield file

    def _drop_torn_line(self, file: BinaryIO) -> None:
        """Under the lock nobody is writing: what follows the last line end was torn by a crash."""
        size = file.seek(0, os.SEEK_END)
        kept = size
        while kept > 0:
            step = min(kept, 65_536)
            file.seek(kept - step)
            found = file.read(step).rfind(b"\n")
            if found >= 0:
                kept = kept - step + found + 1
                break
            kept -= step
        if kept < size:
            file.seek(0)
            if kept == 0 and not file.read(size).startswith(_HEADER[:size]):
                raise TopicError(f"{self.path} is not a topic file: it has no line end.")
            file.truncate(kept)

    def _header(self) -> tuple[str, Place]:
        with self.path.open("rb") as file:
            line = file.readline()
        try:
            header = json.loads(line)
            topic, topic_id, written = header["topic"], header["id"], header["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise TopicError(f"{self.path} is not a topic file: its first line is no header.") from error
        if topic != self.name:
            raise TopicError(f"{self.path} holds the topic {topic}, not {self.name}.")
        if written != FORMAT:
            raise TopicError(
                f"{self.path} has format {written}, this release reads {FORMAT}; use the release that wrote it."
            )
        return topic_id, Place(0, len(line))

    def _find_end(self, file: BinaryIO) -> Place:
        end = self._walk(file, self._end or self._start)
        self._end = end
        return end

    def _walk(self, file: BinaryIO, place: Place) -> Place:
        file.seek(place.byte)
        last = b""
        for line in file:
            if not line.endswith(b"\n"):
                break
            self._mark(place)
            place = Place(place.offset + 1, place.byte + len(line))
            if line.startswith(b'{"at": "'):
                last = line
        if last:
            self._last = max(self._message(last, 0).arrived, self._last or datetime.min.replace(tzinfo=UTC))
        return place

    def _mark(self, place: Place) -> None:
        if place.offset >= self._marks[-1].offset + _MARK_EVERY:
            self._marks.append(place)

    def _mark_before(self, offset: int) -> Place:
        return self._marks[bisect_right(self._marks, offset, key=_offset) - 1]

    def _message(self, line: bytes, offset: int) -> Incoming:
        try:
            fields = json.loads(line)
            key, value, headers = fields["key"], fields["value"], fields.get("headers", {})
            arrived = datetime.fromisoformat(fields["at"])
            if (
                not isinstance(value, str)
                or not isinstance(key, str | None)
                or not isinstance(headers, dict)
                or arrived.tzinfo is None
            ):
                raise ValueError
            return Incoming(self.name, 0, offset, arrived, key, value, headers)
        except (ValueError, KeyError, TypeError, RecursionError):
            # Somebody edited the file: the line keeps its place, and whoever reads it says what it lacks.
            arrived = datetime.fromtimestamp(0, UTC)
            value = line.decode("utf-8", "backslashreplace").rstrip("\n")
            return Incoming(self.name, 0, offset, arrived, None, value)


def _offset(place: Place) -> int:
    return place.offset


def _write_at(descriptor: int, data: bytes, byte: int) -> None:
    rest = memoryview(data)
    while rest:
        written = os.pwrite(descriptor, rest, byte)
        rest, byte = rest[written:], byte + written
    os.fsync(descriptor)


def _line(message: Outgoing, now: datetime) -> bytes:
    fields: dict[str, object] = {"at": now.isoformat(), "key": message.key, "value": message.value}
    if message.headers:
        fields["headers"] = dict(message.headers)
    return json.dumps(fields, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"

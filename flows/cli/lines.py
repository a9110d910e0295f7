"""The lines a run is given: of a file, or of stdin as they come."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from flows.intake import Line
from store.schema import UsageError

STDIN: Final = "-"
_MARK: Final = b"\xef\xbb\xbf"


@dataclass(slots=True)
class InputLines:
    """The lines that are not blank, each with where it was read. Read once."""

    name: str
    file: BinaryIO
    taken: int = 0
    """Lines handed over so far (count)."""
    finished: bool = False
    """The end of the input was reached."""

    def __iter__(self) -> Iterator[Line]:
        try:
            for number, raw in enumerate(self.file, start=1):
                # A byte order mark is how some editors begin a file, not part of its first line. Bytes that are
                # not UTF-8 stay visible: such a line becomes a dead letter, never a crash.
                data = raw.removeprefix(_MARK) if number == 1 else raw
                text = data.decode("utf-8", errors="backslashreplace").rstrip("\r\n")
                if text.strip():
                    self.taken += 1
                    yield Line(text, f"{self.name}:{number}")
        except OSError as error:
            raise UsageError(f"{self.name} cannot be read ({error.strerror}); check it and run again.") from error
        self.finished = True


@contextmanager
def opened(source: str) -> Iterator[InputLines]:
    """Open a file by name, or stdin for `-`; raises UsageError for what cannot be read."""
    if source == STDIN:
        yield InputLines("stdin", _stdin())
        return
    path = Path(source)
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file of events in it, one JSON object a line.")
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise UsageError(f"{path} does not exist; check the path.") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read ({error}); check its permissions.") from error
    with file:
        yield InputLines(source, file)


def _stdin() -> BinaryIO:
    try:
        # A reader of its own: a thread that waits in it would otherwise hold the lock of the interpreter's
        # stdin, and the process could not end before the next line came.
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, io.UnsupportedOperation):
        return sys.stdin.buffer

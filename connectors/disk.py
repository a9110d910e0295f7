"""What the file system is asked for: how large a folder is, and to swap two of them."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_HERE: Final = -100
"""AT_FDCWD: paths are meant from the working folder."""
_EXCHANGE: Final = 2
"""RENAME_EXCHANGE of Linux: both names change hands at one moment."""


def bytes_under(path: Path) -> int:
    """Bytes of a file, or of all files in a folder; what goes away meanwhile does not count."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(FileNotFoundError):
                total += (Path(folder) / name).stat().st_size
    if path.is_file():
        total += path.stat().st_size
    return total


def swap(one: Path, other: Path) -> None:
    """Swap two folders of one file system, so that at each moment there is a whole one under either name.

    Where the system cannot do that, three renames do it, between which `one` is missing for a moment.
    """
    if not _exchanged(one, other):
        aside = other.with_name(f"{other.name}.aside")
        one.rename(aside)
        other.rename(one)
        aside.rename(other)


def _exchanged(one: Path, other: Path) -> bool:
    try:
        rename = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    failed: int = rename(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE)
    return failed == 0

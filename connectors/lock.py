"""One run for a data folder at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.schema import StoreError

_AGAIN = 0.05
"""Time after which a lock that was held is tried once more (s): a probe holds it for a moment."""


@contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; raises StoreError at once when another process holds it.

    The system lets go of the lock when the process ends, however it ends.
    """
    path = folder / "lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"The data folder {folder} cannot be used: {error.strerror}.") from error
    try:
        if not _locked(path, descriptor, fcntl.LOCK_EX):
            time.sleep(_AGAIN)
            if not _locked(path, descriptor, fcntl.LOCK_EX):
                raise StoreError(f"Another run is using {folder}; stop it, or give another --data folder.")
        yield
    finally:
        os.close(descriptor)


def is_held(folder: Path) -> bool:
    """Whether a process holds the folder at this moment; makes and changes nothing."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreError(f"The lock of {folder} cannot be read: {error.strerror}.") from error
    try:
        return not _locked(folder / "lock", descriptor, fcntl.LOCK_SH)
    finally:
        os.close(descriptor)


def _locked(path: Path, descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise StoreError(
            f"{path} cannot be locked ({error.strerror}): put the data folder on a file system that has locks."
        ) from error
    return True

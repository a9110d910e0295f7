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
    """Hold a folder for this process; raises StoreError at once when another process holds or shares it.

    The system lets go of the lock when the process ends, however it ends.
    """
    with _held(folder, fcntl.LOCK_EX):
        yield


@contextmanager
def shared(folder: Path) -> Iterator[None]:
    """Hold a folder together with others that share it; raises StoreError at once when one has it for itself."""
    with _held(folder, fcntl.LOCK_SH):
        yield


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Wait for a folder that others hold for moments only, and hold it."""
    descriptor = _opened(folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
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


@contextmanager
def _held(folder: Path, kind: int) -> Iterator[None]:
    descriptor = _opened(folder)
    try:
        if not _locked(folder / "lock", descriptor, kind):
            time.sleep(_AGAIN)
            if not _locked(folder / "lock", descriptor, kind):
                raise StoreError(f"Another run is using {folder}; stop it, or give another --data folder.")
        yield
    finally:
        os.close(descriptor)


def _opened(folder: Path) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise StoreError(f"The data folder {folder} cannot be used: {error.strerror}.") from error


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

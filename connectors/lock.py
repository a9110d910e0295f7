"""One run for a data folder at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.schema import StoreError


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
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StoreError(f"Another run is using {folder}; stop it, or give another --data folder.") from error
    try:
        yield
    finally:
        os.close(descriptor)

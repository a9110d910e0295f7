"""The engine's recovery stores, seen from outside: what of them nobody needs any more, and how it is removed.

A dataflow keeps its state in SQLite files, `part-N.sqlite3`. Of a key that is done with it keeps an empty row
for ever, and the more rows there are the longer a start takes. While the flow is stopped those rows can go: a row
up to the committed epoch that is empty, or that a newer one up to that epoch replaces, is never loaded again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from connectors.disk import bytes_under
from store.schema import StoreError

BACKUP: Final = "recovery.backup"
"""Copies of the files while they are compacted, beside the folder they are of."""

_PARTS: Final = "*/part-*.sqlite3"

_SUPERSEDED: Final = """
DELETE FROM snaps AS old WHERE snap_epoch <= :committed AND EXISTS (
    SELECT 1 FROM snaps AS newer
    WHERE newer.step_id = old.step_id AND newer.state_key = old.state_key
    AND newer.snap_epoch > old.snap_epoch AND newer.snap_epoch <= :committed
)
"""
_DONE: Final = "DELETE FROM snaps WHERE snap_epoch <= :committed AND ser_change IS NULL"

_STATE: Final = """
SELECT step_id, state_key, MAX(snap_epoch), ser_change FROM snaps WHERE snap_epoch <= :committed
GROUP BY step_id, state_key HAVING ser_change IS NOT NULL
UNION ALL SELECT step_id, state_key, snap_epoch, ser_change FROM snaps WHERE snap_epoch > :committed
ORDER BY 1, 2, 3
"""
"""Everything a start can load: the newest row of each key up to the committed epoch, and all later rows."""
_PROGRESS: Final = (
    "SELECT ex_num, worker_count, resume_epoch FROM exs ORDER BY 1",
    "SELECT ex_num, worker_index, worker_frontier FROM fronts ORDER BY 1, 2",
    "SELECT part_index, commit_epoch FROM commits ORDER BY 1",
    "SELECT part_index, part_count FROM parts ORDER BY 1",
)


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a compaction did to all recovery stores of a folder."""

    rows_before: int = 0
    rows_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    mended: bool = False
    """An interrupted compaction had left a damaged file, which was put back from its backup."""


def state_rows(folder: Path) -> int:
    """Rows of state in all recovery stores of a folder (count)."""
    return sum(_rows(path) for path in _parts(folder))


def compact(folder: Path) -> Compacted:
    """Remove what no start will load from every recovery store in `folder`, and give its space back.

    No flow may be running on it. The files are copied to `recovery.backup` first, and the copies removed once the
    compacted files were opened and hold the same state; raises StoreError, with the files as they were, when they
    do not.
    """
    backup = folder.with_name(BACKUP)
    mended = _take_up(folder, backup)
    files = _parts(folder)
    before = [_fingerprint(path) for path in files]
    rows, size = state_rows(folder), _bytes(files)
    _copy(files, folder, backup)
    try:
        for path in files:
            _compact(path)
    finally:
        same = _is_whole(files, before)
        if same:
            shutil.rmtree(backup)
        else:
            _put_back(folder, backup)
    if not same:
        raise StoreError(f"The compaction of {folder} did not keep its state, so it was undone; nothing is lost.")
    return Compacted(rows, state_rows(folder), size, _bytes(files), mended)


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob(_PARTS))


def _bytes(files: Sequence[Path]) -> int:
    return sum(bytes_under(path) for path in files)


def _rows(path: Path) -> int:
    with _opened(path) as connection:
        return int(connection.execute("SELECT COUNT(*) FROM snaps").fetchone()[0])


def _committed(connection: sqlite3.Connection) -> int:
    (epoch,) = connection.execute("SELECT MIN(commit_epoch) FROM commits").fetchone()
    return -1 if epoch is None else int(epoch)


def _compact(path: Path) -> None:
    with _opened(path) as connection:
        committed = {"committed": _committed(connection)}
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_SUPERSEDED, committed)
        connection.execute(_DONE, committed)
        connection.execute("COMMIT")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _fingerprint(path: Path) -> str:
    """A hash over the progress and everything a start can load."""
    digest = hashlib.sha256()
    with _opened(path) as connection:
        for query in _PROGRESS:
            digest.update(repr(connection.execute(query).fetchall()).encode())
        for row in connection.execute(_STATE, {"committed": _committed(connection)}):
            digest.update(repr(row).encode())
    return digest.hexdigest()


def _is_whole(files: Sequence[Path], state: Sequence[str] | None = None) -> bool:
    """Whether no file is damaged, and together they hold `state`."""
    try:
        return not any(map(_damage, files)) and state in (None, [_fingerprint(path) for path in files])
    except StoreError:
        return False


def _damage(path: Path) -> bool:
    with _opened(path) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() != [("ok",)]


def _take_up(folder: Path, backup: Path) -> bool:
    """Clear away what an interrupted compaction left; returns whether a damaged file had to be put back."""
    shutil.rmtree(_making(backup), ignore_errors=True)
    if not backup.is_dir():
        return False
    whole = _is_whole(_parts(folder))
    if whole:
        shutil.rmtree(backup)
    else:
        _put_back(folder, backup)
    return not whole


def _copy(files: Sequence[Path], folder: Path, backup: Path) -> None:
    making = _making(backup)
    try:
        for path in files:
            target = making / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            # What a kill left in the write-ahead log belongs to the file.
            for each in (path, path.with_name(f"{path.name}-wal")):
                if each.exists():
                    shutil.copy2(each, target.with_name(each.name))
                    _sync(target.with_name(each.name))
        making.mkdir(exist_ok=True)
        making.rename(backup)
    except OSError as error:
        shutil.rmtree(making, ignore_errors=True)
        raise StoreError(f"Cannot copy {folder} to {backup}: {error.strerror}; free some space.") from error


def _put_back(folder: Path, backup: Path) -> None:
    copies = sorted(backup.glob("*/part-*"))
    for copy in copies:
        # Beside, then renamed: a disk that is full must not cost what is there.
        restored = folder / copy.relative_to(backup).with_name(f"{copy.name}.restored")
        shutil.copy2(copy, restored)
        _sync(restored)
    for path in _parts(folder):
        for ending in ("-wal", "-shm"):
            path.with_name(f"{path.name}{ending}").unlink(missing_ok=True)
    for copy in copies:
        target = folder / copy.relative_to(backup)
        target.with_name(f"{copy.name}.restored").replace(target)
    shutil.rmtree(backup)


def _making(backup: Path) -> Path:
    return backup.with_name(f"{backup.name}.making")


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        # Read and write, never make: a file that is missing is somebody's mistake, not an empty store.
        with closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        ) as made:
            yield made
    except sqlite3.Error as error:
        if error.sqlite_errorname == "SQLITE_FULL":
            raise StoreError(f"Cannot compact {path}: the disk is full; free some space.") from error
        raise StoreError(
            f"{path} is not a recovery store this release knows ({error}); put it back from a backup, or move the "
            "recovery folder away: the next run reads the topics again and decides nothing twice."
        ) from error

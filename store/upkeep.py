"""Upkeep of a store while it is written: few fragments, fresh indexes, and old versions that go in time."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import time

from store.tables import MEMORY, RECORD, Tables

_CLEANED_EVERY = 600.0
"""Time between two clean-ups of a table that nothing else makes worn, however short versions are kept (s)."""


@dataclass(slots=True)
class _Wear:
    """How much a table has been written since it was last optimised."""

    rows: int = 0
    commits: int = 0
    size: int = 0
    since: float = 0.0
    """When its old versions were last cleaned up (s since 1970); those of then are the oldest it has."""


@dataclass(slots=True)
class Upkeep:
    """Looks after the tables of one store. Between commits, by whoever commits: there is one of it for a store."""

    tables: Tables
    unindexed_rows: int
    """Rows written to a table before it is optimised (rows), while the table is small."""
    fragments: int
    """Commits to a table before it is optimised (commits), while the table is small."""
    versions_for: float = 600.0
    """Time old versions of a table stay readable (s).

    Each commit makes a version. A handle that looks for the newest version at each read, as all of ours do, needs
    an old one only as long as a read takes. One that does not, such as a notebook's `lancedb.connect(path)`
    without `read_consistency_interval`, keeps the version it was opened at: once that is cleaned up its reads
    fail with "Not found" (`count_rows` may still answer), and are right again after `checkout_latest()`. So at 0
    such a handle fails at once, and so may any read that is under way during a clean-up.
    """
    upkeep_seconds: float = 5.0
    """Time after which `maintain` begins with no further table (s)."""
    clock: Callable[[], float] = time
    _surveyed: bool = False
    _wear: dict[str, _Wear] = field(default_factory=lambda: defaultdict(_Wear))

    def wrote(self, name: str, rows: int = 0) -> None:
        """A table was written, in one commit."""
        self._wear[name].rows += rows
        self._wear[name].commits += 1

    def maintain(self) -> list[str]:
        """Optimise the tables that were written enough since they last were; returns their names.

        Rewriting is put off as a table grows, so that all of it together stays linear in what was written. But old
        versions go only with it: a table that is written at all is not put off for much longer than they are kept.
        When `upkeep_seconds` are used up the rest is left to the next round, which begins with it.
        """
        began = self.clock()
        self._survey()
        unindexed = self.tables["memory"].index_stats("terms_idx")
        if unindexed is not None:
            self._wear["memory"].rows = unindexed.num_unindexed_rows
            self._wear["memory"].size = unindexed.num_indexed_rows
        worn = [name for name, wear in self._wear.items() if self._is_worn(wear, began)]
        done: list[str] = []
        for name in sorted(worn, key=lambda name: self._wear[name].since):
            if done and self.clock() - began >= self.upkeep_seconds:
                break
            self._optimize(name)
            done.append(name)
        return done

    def optimize_all(self) -> None:
        """Optimise every table, worn or not."""
        for name in [*RECORD, *MEMORY]:
            self._optimize(name)

    def _is_worn(self, wear: _Wear, now: float) -> bool:
        if wear.rows >= max(self.unindexed_rows, wear.size // 8):
            return True
        outlived = now - wear.since >= max(self.versions_for, _CLEANED_EVERY)
        return wear.commits >= self.fragments and (wear.rows >= wear.size // 32 or outlived)

    def _survey(self) -> None:
        """Begin with the wear that earlier writers left, or many short runs would never optimise anything."""
        if self._surveyed:
            return
        self._surveyed = True
        for name, spec in {**RECORD, **MEMORY}.items():
            wear, versions = self._wear[name], _version_times(self.tables.path / f"{name}.lance")
            wear.commits = max(wear.commits, len(versions))
            wear.since = min(versions, default=self.clock())
            stats = self.tables[name].index_stats(f"{spec.key}_idx")
            if stats is not None:
                wear.rows, wear.size = max(wear.rows, stats.num_unindexed_rows), stats.num_indexed_rows

    def _optimize(self, name: str) -> None:
        # At 0 the library warns at each call; a millisecond is as short, and was asked for.
        self.tables[name].optimize(cleanup_older_than=timedelta(seconds=max(self.versions_for, 0.001)))
        self._wear[name] = _Wear(size=self.tables[name].count_rows(), since=self.clock())


def _version_times(table: Path) -> list[float]:
    """When each version of a table was made (s since 1970), from its folder: the library reads them all for it."""
    with os.scandir(table / "_versions") as found:
        return [entry.stat().st_mtime for entry in found if entry.name.endswith(".manifest")]

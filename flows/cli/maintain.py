"""`lookfirst maintain`: upkeep of a data folder while nothing runs on it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from flows.cli.console import cell, emit, page
from flows.cli.options import data_option, json_option
from flows.cli.steps import steps
from flows.data_folder import DataFolder
from flows.maintain import Freed
from flows.maintain import maintain as maintain_folder
from store.schema import load_settings


@click.command()
@data_option
@json_option("One JSON object with what was freed instead.")
def maintain(data: Path, as_json: bool) -> None:
    """Make a data folder small and quick again while no run is using it.

    Removes what the recovery stores keep of keys that are done with, optimises every table, and removes its old
    versions. A run does most of this by itself; the recovery stores only ever shrink here.
    """
    settings = load_settings()
    with steps() as progress:
        freed = maintain_folder(DataFolder.at(data, settings), settings, progress)
    if as_json:
        emit(json.dumps(for_programs(freed)))
    else:
        for line in for_people(freed):
            page().print(cell(line))


def for_programs(freed: Freed) -> dict[str, object]:
    """What was freed, as plain values."""
    recovery = freed.recovery
    return {
        "recovery_rows_removed": recovery.rows_before - recovery.rows_after if recovery else 0,
        "recovery_rows": recovery.rows_after if recovery else 0,
        "recovery_bytes_freed": recovery.bytes_before - recovery.bytes_after if recovery else 0,
        "recovery_mended": recovery.mended if recovery else False,
        "store_bytes_before": freed.store_bytes_before,
        "store_bytes_after": freed.store_bytes_after,
    }


def for_people(freed: Freed) -> list[str]:
    """The same in sentences."""
    lines = []
    if freed.recovery:
        done = freed.recovery
        if done.mended:
            lines.append("An interrupted compaction had damaged the recovery stores; they were put back first.")
        lines.append(
            f"Recovery stores: {done.rows_before - done.rows_after:,} of {done.rows_before:,} rows removed, "
            f"{size(done.bytes_before)} before, {size(done.bytes_after)} now."
        )
    if freed.store_bytes_before is None or freed.store_bytes_after is None:
        lines.append("There is no store.")
    else:
        lines.append(
            f"Tables: optimised, {size(freed.store_bytes_before)} before, {size(freed.store_bytes_after)} now. "
            "Old versions stay readable for LOOKFIRST_VERSIONS_FOR seconds."
        )
    return lines


def size(count: int) -> str:
    """Bytes for a person."""
    return f"{count / 1e6:,.1f} MB"

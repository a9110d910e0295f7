"""`lookfirst rebuild`: what can be made anew from what it was made from."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from flows.cli.console import cell, emit, page
from flows.cli.options import brokers_option, data_option, json_option
from flows.cli.steps import steps
from flows.data_folder import DataFolder
from flows.rebuild import rebuild_memory, rebuild_store
from store.schema import load_settings


@click.group()
def rebuild() -> None:
    """Make memory anew from the record, or the whole store from the operations topic.

    No run may be using the folder. Close notebooks that have a table open, or have them open it again.
    """


@rebuild.command("memory")
@data_option
@json_option("One JSON object with the count instead.")
def memory(data: Path, as_json: bool) -> None:
    """Throw away the copy that is searched and make it anew from the record."""
    settings = load_settings()
    with steps() as progress:
        tasks = rebuild_memory(DataFolder.at(data, settings), settings, progress)
    if as_json:
        emit(json.dumps({"tasks": tasks}))
    else:
        page().print(cell(f"Memory holds {tasks:,} tasks, as the record does."))


@rebuild.command("store")
@data_option
@brokers_option("Read the operations topic on these brokers instead of the one in the folder.")
@json_option("One JSON object with the counts instead.")
def store(data: Path, brokers: str | None, as_json: bool) -> None:
    """Apply the whole operations topic to a new store, and put it in the place of the old one."""
    settings = load_settings()
    with steps() as progress:
        rebuilt = rebuild_store(DataFolder.at(data, settings), settings, progress, brokers)
    if as_json:
        emit(json.dumps(asdict(rebuilt)))
        return
    made = f"{rebuilt.messages:,} messages applied: {rebuilt.tasks:,} tasks, {rebuilt.events:,} events"
    page().print(cell(f"{made}, {rebuilt.dropped:,} second decisions dropped, {rebuilt.unreadable:,} unreadable."))

"""Real exports through the commands, when the public data sets are here (setting LOOKFIRST_DATA)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sample import opened
from tests.workplace import rows_of

IRC = ["--map", "id=i,at=ts,author=user,text=text,thread=file", "--zone", "UTC"]
TABLES = ("changes", "tasks", "people", "sessions", "decisions", "events")


def lookfirst(*arguments: str, given: bytes | None = None) -> bytes:
    """What a command prints, run as its own process; fails when it does."""
    command = [sys.executable, "-m", "flows.cli.main", *arguments]
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout


def imported_and_run(path: Path, *source: str) -> dict[str, Any]:
    """An import piped into a run; the run's counts."""
    events = lookfirst("import", *source)
    counts: dict[str, Any] = json.loads(
        lookfirst("run", "--from", "-", "--data", str(path), "--json", given=events)
    )
    return counts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "source"),
    [
        (1_382, ["slack", "slack_houstondatavis.zip"]),
        (3_266, ["jsonl", "ubuntu_meeting/events.jsonl", *IRC]),
    ],
)
def test_every_real_message_is_decided_once(
    tmp_path: Path, shared_data: Path, count: int, source: list[str]
) -> None:
    """A real export is decided to the last message, each task says why, and a second run adds nothing."""
    kind, name, *options = source
    arguments = [kind, str(shared_data / name), *options]
    first = imported_and_run(tmp_path, *arguments)
    assert (count, count) == (first["read"], first["decided"] + first["parked"])
    assert 0 == first["parked"] == first["unreadable"] == first["dropped"]
    before = rows_of(opened(tmp_path), TABLES)
    for task in before["tasks"][:: max(1, len(before["tasks"]) // 5)]:
        story = json.loads(lookfirst("why", task["id"], "--data", str(tmp_path), "--json"))
        created = story["steps"][0]
        assert created["event"]["text"]
        assert {"text", "thread", "standby_tasks"} <= {read["name"] for read in created["view"]["reads"]}
        assert "create" == created["operation"]["kind"]
    second = imported_and_run(tmp_path, *arguments)
    assert (count, 0) == (second["already_decided"], second["decided"])
    assert before == rows_of(opened(tmp_path), TABLES)

"""`lookfirst run` as a process of its own: started, watched by what it leaves on disk, and killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from connectors.message import Outgoing
from connectors.topic_file import TopicFile
from store.schema.event import key_of
from store.schema.identity import event_uid
from tests.conftest import REPOSITORY

KILLED = -9
"""Return code of a process that got SIGKILL, from outside or from itself."""

_POLL = 0.005
"""Time between two looks, at least (s)."""


def start(path: Path, *options: str, **settings: str) -> subprocess.Popen[str]:
    """`lookfirst run` over a data folder; `settings` are variables, such as `LOOKFIRST_EPOCH="0.1"`.

    Its stdin is a pipe, for `--from -`.
    """
    command = [sys.executable, "-m", "flows.cli.main", "run", "--data", str(path), "--json", *options]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOOKFIRST_")}
    return subprocess.Popen(
        command,
        cwd=REPOSITORY,
        env={**kept, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str], timeout: float = 600) -> dict[str, Any]:
    """The counts of a run that is left to itself; fails when it does not end in order."""
    out, err = ended(process, timeout)
    assert 0 == process.returncode, f"return code {process.returncode}: {err}"
    counts: dict[str, Any] = json.loads(out)
    return counts


def ended(process: subprocess.Popen[str], timeout: float = 600) -> tuple[str, str]:
    """What a process has printed by its end; one that does not end in time is killed and TimeoutExpired raised."""
    try:
        return process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise


def kill(process: subprocess.Popen[str]) -> bool:
    """SIGKILL; False when the process had ended by itself, which it must have done in order."""
    process.kill()
    _, err = process.communicate()
    assert process.returncode in (KILLED, 0), f"return code {process.returncode}: {err}"
    return process.returncode == KILLED


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str], timeout: float = 180) -> bool:
    """Wait for something the process does; False when it ended first."""
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        if condition():
            return True
        if process.poll() is not None:
            return False
        if began > deadline:
            kill(process)
            raise AssertionError(f"nothing came within {timeout:g} s")
        # Looking reads files: most of the time is left to who is looked at.
        time.sleep(max(_POLL, 4 * (time.monotonic() - began)))


def produce(path: Path, lines: Iterable[str]) -> None:
    """Append events to the events topic of a data folder, as a producer does."""
    made = [Outgoing(key_of(line), line, {"origin": f"made:{n}"}) for n, line in enumerate(lines, 1)]
    topic_of(path, "events").append(made)


def topic_path(path: Path, name: str) -> Path:
    """The file of a topic: `events`, `operations` or `dead-letters`."""
    return path / "topics" / f"lookfirst.{name}.jsonl"


def topic_of(path: Path, name: str) -> TopicFile:
    """A topic of a data folder, made when it is missing."""
    return TopicFile(path / "topics", f"lookfirst.{name}")


def messages(path: Path, name: str) -> list[dict[str, Any]]:
    """The messages of a topic, as they stand in its whole lines."""
    file = topic_path(path, name)
    lines = file.read_bytes().split(b"\n")[1:-1] if file.exists() else []
    return [json.loads(json.loads(line)["value"]) for line in lines]


def written(path: Path, name: str = "operations") -> int:
    """Messages of a topic, by its whole lines."""
    file = topic_path(path, name)
    return max(0, file.read_bytes().count(b"\n") - 1) if file.exists() else 0


def suspects(path: Path) -> set[str]:
    """Uids of the events that an unclean end left under suspicion, less those that are settled on the topic."""
    file = path / "recovery" / "in_flight.json"
    marks = json.loads(file.read_bytes()) if file.exists() else {}
    named = {suspect["event"] for suspect in marks.get("suspects", ())}
    return named - settled(path) if named else named


def settled(path: Path) -> set[str]:
    """Uids of the events that were decided or parked, by the operations topic."""
    events = (message["arrival"]["event"] for message in messages(path, "operations") if "arrival" in message)
    return {event_uid(event["workspace"], event["source"], event["thread"], event["id"]) for event in events}

"""The sample and what a paced run makes of it, as a person would write it down.

`python -m tests.sample` runs it and writes `expected.json` anew.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.judge.rules import RulesJudge
from flows.tally import Tally
from store import Store
from store.schema import Settings, load_settings

SAMPLE = Path(__file__).resolve().parent.parent / "deploy" / "sample"
EVENTS = 200
"""Events of the sample (count)."""
REPEATS = 2
"""Lines that say an event once more (count)."""
LINES = EVENTS + REPEATS


def sample_lines() -> list[Line]:
    """The events of the sample, in the order they arrive."""
    lines = (SAMPLE / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [Line(text, f"events.jsonl:{number}") for number, text in enumerate(lines, start=1)]


def run_embedded(path: Path, lines: list[Line], *, paced: bool, settings: Settings | None = None) -> Tally:
    """One embedded run with the offline judge."""
    effective = settings or load_settings()
    return EmbeddedRun(DataFolder.at(path, effective), effective, RulesJudge(), paced=paced).run(lines)


def opened(path: Path) -> Store:
    """The store of a data folder."""
    return DataFolder.at(path, load_settings()).store()


def record_of(store: Store) -> dict[str, Any]:
    """Tasks and outcomes without ids and arrival times: what stands in `expected.json`."""
    people = {row["id"]: row["names"][0] for row in store.record.arrow("people").to_pylist()}
    events = {row["id"]: row for row in store.record.arrow("events").to_pylist()}
    tasks = [
        {
            "title": row["title"],
            "state": row["state"],
            "due": row["due"].isoformat() if row["due"] else None,
            "assignees": [people[person] for person in row["assignees"]],
            "requester": people.get(row["requester"]),
            "thread": row["thread"],
            "body": row["body"],
            "events": [f"{events[e]['thread']}#{events[e]['source_id']}" for e in row["evidence"]],
        }
        for row in sorted(store.record.arrow("tasks").to_pylist(), key=lambda row: (row["created"], row["title"]))
    ]
    outcomes = {
        f"{row['thread']}#{row['source_id']}": row["outcome"]
        for row in sorted(events.values(), key=lambda row: row["seq"])
    }
    return {"tasks": tasks, "events": outcomes, "people": sorted(people.values())}


def write_expected() -> None:
    """Run the sample and write the expected record anew; read the difference before you keep it."""
    with tempfile.TemporaryDirectory() as folder:
        run_embedded(Path(folder), sample_lines(), paced=True)
        text = json.dumps(record_of(opened(Path(folder))), ensure_ascii=False, indent=1)
    (SAMPLE / "expected.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_expected()

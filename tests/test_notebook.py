"""The notebook: run as it stands, over a real store, while a run writes to it."""

from __future__ import annotations

import ast
import json
import re
import shutil
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.font_manager
import nbformat
import pandas as pd
import pytest
from nbclient import NotebookClient

from store import open_store
from store.schema import EmbedderSpec, load_settings
from tests.conftest import REPOSITORY
from tests.oracle import moment, rows_of_messages
from tests.process import ended, messages, start, wait_until
from tests.sample import EVENTS, opened, run_embedded, sample_lines

NOTEBOOK = REPOSITORY / "deploy" / "notebooks" / "query.ipynb"
WORKSPACE = "default"
LAUNCH = datetime(2026, 3, 24, 18, tzinfo=UTC)
STATES = ["done", "cancelled", "blocked", "in_progress", "open"]
LIVE = ("open", "in_progress", "blocked")
EMBEDDER = "tests.test_notebook:pairs"
LINES_AT_MOST = 15
"""Lines of a cell that is easily read (count)."""
ENOUGH = 20_000
"""Events that keep a run busy for longer than the notebook takes (count)."""

Row = Mapping[str, Any]
Outputs = Mapping[str, list[Row]]
"""What each cell shows, by its id."""


def pairs(spec: EmbedderSpec) -> SimpleNamespace:
    """An embedder without a model: counts of the pairs of letters of a text."""
    return SimpleNamespace(dimensions=64, far=1.0, embed=lambda texts: [_pairs(text) for text in texts])


def _pairs(text: str) -> list[float]:
    counts = Counter((ord(first) * 31 + ord(second)) % 64 for first, second in pairwise(text))
    return [1.0 + counts[place] for place in range(64)]


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample, run once with an embedder; to be copied."""
    path = tmp_path_factory.mktemp("notebook")
    run_embedded(path, sample_lines(), paced=False, settings=load_settings(embedder=EMBEDDER))
    return path


@pytest.fixture
def data(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it, and a kernel that is sent there and leaves nothing elsewhere."""
    shutil.copytree(sample, tmp_path / "data")
    monkeypatch.setenv("LOOKFIRST_FOLDER", str(tmp_path / "data"))
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))  # the embedder of the store is one of the tests'
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    # Made where it is missing; else the kernel would say so in the middle of a cell.
    matplotlib.font_manager.fontManager.findfont("DejaVu Sans")
    return tmp_path / "data"


def notebook() -> nbformat.NotebookNode:
    """The notebook as it is in the repository."""
    return nbformat.read(NOTEBOOK, as_version=4)


def executed(*wanted: str) -> Outputs:
    """The outputs of the code cells by id: of all, or of those named. Raises CellExecutionError."""
    found = notebook()
    found.cells = [cell for cell in found.cells if cell.cell_type == "code" and (not wanted or cell.id in wanted)]
    NotebookClient(found, timeout=300, startup_timeout=300, kernel_name="python3").execute()
    return {cell.id: cell.outputs for cell in found.cells}


def text_of(outputs: list[Row]) -> str:
    """The one thing a cell shows, as plain text."""
    (shown,) = outputs
    return str(shown["text"] if shown["output_type"] == "stream" else shown["data"]["text/plain"])


def as_of(path: Path, when: datetime) -> Mapping[str, str]:
    """States of the tasks by id, from no more than the messages of events that had happened."""
    said = [message for message in messages(path, "operations") if message["kind"] == "decision"]
    topic = [(message, place, LAUNCH) for place, message in enumerate(said)]
    known = [each for each in topic if moment(each[0]["arrival"]["event"]["at"]) <= when]
    found = rows_of_messages(known)["tasks"]
    return {row["id"]: row["state"] for row in found if row["workspace"] == WORKSPACE}


def test_the_notebook_is_kept_clean() -> None:
    """No output, no count of executions, no place on anybody's machine, and metadata that say Python alone."""
    found = notebook()
    nbformat.validate(found)
    code = [cell for cell in found.cells if cell.cell_type == "code"]
    assert [] == [cell.id for cell in code if cell.outputs or cell.execution_count is not None]
    assert [] == [cell.id for cell in found.cells if cell.metadata]
    assert {"kernelspec", "language_info"} == set(found.metadata)
    assert {"name": "python"} == dict(found.metadata.language_info)
    written = NOTEBOOK.read_text(encoding="utf-8")
    assert [] == re.findall(
        r"(?<![\w$.])(?:/(?:home|root|Users|tmp|work|opt|mnt|var)\b|[A-Z]:\\\\)[^\s\"]*", written
    )


def test_the_notebook_reads_well() -> None:
    """Each cell of code is short and has words above it; the first words say what to run before."""
    cells = notebook().cells
    assert "`make demo`" in cells[0].source
    for above, cell in pairwise(cells):
        if cell.cell_type == "code":
            assert "markdown" == above.cell_type
            assert len(cell.source.splitlines()) <= LINES_AT_MOST


def test_the_notebook_takes_one_thing_of_ours() -> None:
    """`from store import open_store` is all that is imported of this project."""
    ours = {folder.name for folder in REPOSITORY.iterdir() if (folder / "__init__.py").exists()}
    assert {"store", "flows", "connectors", "tests"} == ours
    imported = []
    for cell in notebook().cells:
        for node in ast.walk(ast.parse(cell.source)) if cell.cell_type == "code" else ():
            if isinstance(node, ast.Import):
                imported += [(name.name.split(".")[0], None) for name in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported += [((node.module or "").split(".")[0], name.name) for name in node.names]
    assert [("store", "open_store")] == [each for each in imported if each[0] in ours]


@pytest.mark.slow
def test_every_cell_shows_what_the_record_says(data: Path, tmp_path: Path) -> None:
    """All of it runs while a run writes events of another workspace, and each figure is the record's."""
    store = opened(data)
    record = {name: store.record.arrow(name).to_pylist() for name in ("tasks", "events", "people")}
    more = tmp_path / "more.jsonl"
    more.write_text("".join(f"{_of_another_workspace(number)}\n" for number in range(ENOUGH)), encoding="utf-8")
    process = start(data, "--from", str(more))
    try:
        assert wait_until(lambda: store.record.count("events") > EVENTS, process)
        before = store.record.count("events")
        outputs = executed()
        assert process.poll() is None
        assert before < store.record.count("events")
        assert len(record["tasks"]) < store.record.count("tasks")
    finally:
        process.send_signal(signal.SIGINT)
        _, err = ended(process)
    assert 0 == process.returncode, err
    assert [] == [cell for cell, shown in outputs.items() for each in shown if each.get("name") == "stderr"]
    _assert_figures(outputs, record)
    _assert_found(outputs, data, record["tasks"])
    _assert_past(outputs, data, record)
    assert "image/png" in outputs["plot"][0]["data"]


@pytest.mark.slow
def test_without_vectors_the_notebook_says_so(data: Path) -> None:
    """A store that was filled without an embedder has no vectors: the cell says so, and the others are as ever."""
    shutil.rmtree(data / "store" / "vectors.lance")
    outputs = executed("open", "arrow", "text", "vector")
    assert "This store has no vectors: it was filled without an embedder.\n" == text_of(outputs["vector"])
    assert 5 == len(_ids(outputs["text"]))


def _of_another_workspace(number: int) -> str:
    event = {"id": str(number), "workspace": "night", "source": "chat", "thread": f"hall-{number % 50}"}
    said = {
        "at": "2026-04-13T22:00:00Z",
        "author": {"id": "n"},
        "text": f"Please replace LAMP-{number} in the hall.",
    }
    return json.dumps(event | said)


def _assert_figures(outputs: Outputs, record: Mapping[str, list[Row]]) -> None:
    tasks, events, people = record["tasks"], record["events"], record["people"]
    assert f"{len(tasks)} tasks, {EVENTS} events, {len(people)} people\n" == text_of(outputs["arrow"])
    states = pd.Series(Counter(task["state"] for task in tasks), name="count").sort_index().rename_axis("state")
    assert _shown(states) == text_of(outputs["states"])
    dates = [str(task["due"]) for task in tasks if task["state"] in LIVE and task["due"]]
    assert sorted(dates)[:10] == re.findall(r"\d{4}-\d\d-\d\d", text_of(outputs["due"]))
    outcomes = pd.DataFrame(events)
    assert _shown(pd.crosstab(outcomes["source"], outcomes["outcome"])) == text_of(outputs["outcomes"])
    last = sorted(people, key=lambda person: person["last_seen"], reverse=True)[:10]
    assert [] == [person["names"] for person in last if person["names"][0] not in text_of(outputs["people"])]
    assert _shown(_hands(tasks, people)) == text_of(outputs["hands"])
    assert _shown(_talk(tasks, events)) == text_of(outputs["talk"])


def _shown(frame: pd.DataFrame | pd.Series) -> str:
    # A kernel has no terminal whose width it could fill.
    with pd.option_context("display.max_columns", 20):
        return repr(frame)


def _hands(tasks: list[Row], people: list[Row]) -> pd.DataFrame:
    names = {person["id"]: person["names"][0] for person in people}
    hands = sorted({person for task in tasks for person in task["assignees"]})
    rows = []
    for hand in hands:
        states = [task["state"] for task in tasks if hand in task["assignees"]]
        rows.append((names[hand], sum(state in LIVE for state in states), states.count("done")))
    rows.sort(key=lambda row: (-row[1], -row[2], row[0]))
    return pd.DataFrame(rows, columns=["person", "live", "done"])


def _talk(tasks: list[Row], events: list[Row]) -> pd.DataFrame:
    by_id = {event["id"]: event for event in events}
    rows = []
    for task in tasks:
        said = [by_id[uid] for uid in task["evidence"]]
        times = [event["at"] for event in said]
        days = round((max(times) - min(times)).total_seconds() / 86_400, 1)
        rows.append((task["title"], len(said), sorted({event["source"] for event in said}), days))
    rows.sort(key=lambda row: (-row[1], row[0]))
    return pd.DataFrame(rows[:8], columns=["title", "messages", "sources", "days"])


def _assert_found(outputs: Outputs, path: Path, tasks: list[Row]) -> None:
    bodies = {task["id"]: task["body"] for task in tasks}
    for cell, word in (("text", "tide gauge"), ("japanese", "展示会")):
        found = _ids(outputs[cell])
        assert found
        assert set(found) <= bodies.keys()
        assert word in bodies[found[0]]
    spec = load_settings(embedder=EMBEDDER).embedding
    memory = open_store(path / "store", embedder=spec).memory
    assert memory.vector(WORKSPACE, "somebody has to look at the measuring device", 4) == _ids(outputs["vector"])


def _ids(outputs: list[Row]) -> list[str]:
    return re.findall(r"t-[0-9a-f]{24}", text_of(outputs))


def _assert_past(outputs: Outputs, path: Path, record: Mapping[str, list[Row]]) -> None:
    now = {task["id"]: task["state"] for task in record["tasks"]}
    moves = Counter((state, now[task]) for task, state in as_of(path, LAUNCH).items())
    expected = pd.DataFrame(
        [(*move, count) for move, count in sorted(moves.items())], columns=["at the launch", "now", "tasks"]
    )
    assert _shown(expected) == text_of(outputs["past"])
    times = [event["at"] for event in record["events"]]
    moments = pd.date_range(min(times), max(times), periods=41)[::10]
    looks = [Counter(as_of(path, when.to_pydatetime()).values()) for when in moments]
    history = pd.DataFrame(looks, index=moments, columns=STATES).fillna(0).astype(int)
    assert _shown(history) == text_of(outputs["history"])

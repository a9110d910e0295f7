"""A kill at every named place: what was there before stays, and the next run completes the rest."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from store.schema import load_settings
from store.schema.failpoint import FAILPOINTS, VARIABLE
from tests.audit import audit
from tests.judges import event_only
from tests.process import KILLED, ended, produce, start, topic_path
from tests.sample import opened, sample_lines
from tests.workplace import rows_of

EVENTS = 20
SMALL = {"LOOKFIRST_EPOCH": "0.02", "LOOKFIRST_SOURCE_BATCH": "4", "LOOKFIRST_WAVE": "2"}
"""Many small commits, so that every place is come to more than once."""
SECOND = ("append.after", "commit.changes.after", "commit.events.before", "commit.memory.before", "judgment.after")
"""Places where a process is killed the second time it comes there, too."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """A data folder that nobody killed, and its rows."""
    path = tmp_path_factory.mktemp("whole")
    produce(path, [line.text for line in sample_lines()[:EVENTS]])
    complete(path)
    return path, rows_of(opened(path))


def complete(path: Path) -> None:
    """Run to the end, in this process."""
    settings = load_settings()
    EmbeddedRun(DataFolder.at(path, settings), settings, event_only(settings)).run()


@pytest.mark.promise("R52", "Q2")
@pytest.mark.parametrize("place", [*FAILPOINTS, *(f"{name}:2" for name in SECOND)])
def test_killed_there_and_run_again(tmp_path: Path, whole: tuple[Path, dict[str, list[Any]]], place: str) -> None:
    """A process that dies there leaves what the next run completes to the rows of one that nobody killed."""
    (tmp_path / "topics").mkdir()
    shutil.copy(topic_path(whole[0], "events"), tmp_path / "topics")
    process = start(tmp_path, LOOKFIRST_JUDGE="tests.judges:event_only", **SMALL, **{VARIABLE: place})
    _, err = ended(process, 120)
    assert KILLED == process.returncode, err
    complete(tmp_path)
    assert [] == audit(tmp_path, whole[1]).faults

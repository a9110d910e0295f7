"""The benches at tiny sizes: their figures are whole. How fast they are is for whoever reads them."""

from __future__ import annotations

import json
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from flows.bench.decisions import decisions
from flows.bench.overhead import Overhead
from flows.bench.replay import Replay
from flows.bench.resume import BenchError, Resume, resume
from flows.cli.main import main
from store.schema import Create, Settings, parse_message

SEED = 11


def figures(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    """What a bench printed as JSON, after a look that the file holds the same."""
    out = tmp_path / "figures.json"
    assert 0 == main(["bench", *arguments, "--out", str(out), "--json"])
    printed, _ = capsys.readouterr()
    written = json.loads(out.read_text(encoding="utf-8"))
    assert json.loads(printed) == written
    assert arguments[0] == written["bench"]
    return list(written["figures"])


def names(figure: type) -> list[str]:
    """The fields of a figure in their order."""
    return [field.name for field in fields(figure)]


def test_replay_applies_the_whole_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each length has its figures, and the store then has every task that was created."""
    found = figures(tmp_path, capsys, "replay", "--messages", "20", "--messages", "40", "--seed", str(SEED))
    assert [names(Replay)] * 2 == [list(each) for each in found]
    for each, messages in zip(found, (20, 40), strict=True):
        operations = [o for decision in decisions(messages, SEED, Settings()) for o in decision.operations]
        created = sum(isinstance(operation, Create) for operation in operations)
        assert (messages, len(operations), created) == (each["messages"], each["operations"], each["tasks"])
        assert each["operations_per_second"] > 0
        assert each["bare_operations_per_second"] > 0
        assert each["share_of_bare"] > 0


def test_overhead_counts_its_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every event was looked for, and the same reads were made again, bare."""
    (found,) = figures(tmp_path, capsys, "overhead", "--rows", "30", "--events", "20", "--seed", str(SEED))
    assert names(Overhead) == list(found)
    assert (30, 20) == (found["rows"], found["events"])
    assert found["queries_per_event"] >= 1
    assert found["reads"] > 0
    assert found["share_of_bare"] > 0


@pytest.mark.slow
def test_resume_times_a_run_after_a_kill(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After the kill there is state to take up, and the run that takes it up decides."""
    (found,) = figures(tmp_path, capsys, "resume", "--threads", "300")
    assert names(Resume) == list(found)
    assert 300 == found["threads"]
    assert min(found[name] for name in names(Resume)) > 0


@pytest.mark.slow
def test_a_run_that_decides_nothing_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of the bench that ends by itself is told with its last words, and no figure is made up."""
    settings = Settings()
    monkeypatch.setenv("LOOKFIRST_WAVE", "none")
    with pytest.raises(BenchError, match="LOOKFIRST_WAVE"):
        resume(1, settings, lambda _: None)


def test_made_up_decisions_are_the_same_for_the_same_seed() -> None:
    """The topic of a bench can be made again, and every message of it can be read."""
    limits = Settings()
    first, second = ([each.model_dump_json() for each in decisions(40, SEED, limits)] for _ in range(2))
    assert first == second
    assert first != [each.model_dump_json() for each in decisions(40, SEED + 1, limits)]
    assert first == [parse_message(line).model_dump_json() for line in first]


def test_made_up_decisions_have_the_shape_of_a_busy_team() -> None:
    """Once there are enough tasks each View is full; every kind of operation is there, some messages carry two."""
    made = list(decisions(160, SEED, Settings()))
    assert {(12, 5)} == {(len(each.view.slices), len(each.view.standby.tasks)) for each in made[80:]}
    assert any(each.view.thread_rows for each in made)
    kinds = {operation.kind for each in made for operation in each.operations}
    assert {"create", "update", "matched", "not_a_task"} == kinds
    assert {1, 2} == {len(each.operations) for each in made}
    assert all(a.arrival.seq < b.arrival.seq for a, b in pairwise(made))

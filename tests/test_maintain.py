"""Upkeep with no run in progress: the recovery stores shrink, and the next run goes on as if nothing had been."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest
from bytewax.testing import run_main

import connectors.recovery_store
from connectors.lock import exclusive, is_held
from connectors.markers import Markers
from connectors.message import Outgoing
from connectors.recovery_store import Compacted, compact, state_rows
from connectors.topic_file import utc_now
from connectors.topic_flow import TopicSink, TopicSource
from flows.bench.nothing import EmptyLooker, EmptyRecord
from flows.calls import Calls
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.decide import decide
from flows.desk import Desk
from flows.embedded import EmbeddedRun
from flows.maintain import maintain
from flows.overlay import Overlay
from flows.tally import Tally
from flows.taps import EventsTap, Signals
from store.schema import Settings, StoreError, load_settings
from store.schema.identity import event_uid
from store.tables import RECORD
from tests.sample import opened
from tests.test_embedded import lines_of, scripted
from tests.workplace import START, Script, create_or_match, rows_of

Captured = pytest.CaptureFixture[str]


def empty_rows(path: Path) -> int:
    """Rows of the recovery stores that say a key is done with (count)."""
    found = 0
    for part in sorted((path / "recovery").glob("*/part-*.sqlite3")):
        with sqlite3.connect(part) as connection:
            found += connection.execute("SELECT COUNT(*) FROM snaps WHERE ser_change IS NULL").fetchone()[0]
        connection.close()
    return found


def stopped(path: Path, after: int, first: int, end: int) -> EmbeddedRun:
    """A run over the events from `first` to `end`, stopped at its `after`-th judgment, with events pending."""
    settings = load_settings(wave=2, source_batch=8)
    run = EmbeddedRun(DataFolder.at(path, settings), settings, Script())

    def rule(event: object, view: object) -> object:
        if len(judge.views) == after:
            run.stop()
        return create_or_match(event, view)  # type: ignore[arg-type]

    judge = Script(rule=rule)  # type: ignore[arg-type]
    run.judge = judge
    run.run(lines_of(end, threads=40)[first:])
    return run


def upkeep(path: Path) -> Compacted:
    """What `maintain` did to the recovery stores."""
    settings = load_settings()
    done = maintain(DataFolder.at(path, settings), settings).recovery
    assert done
    return done


def test_a_run_goes_on_after_compaction(tmp_path: Path) -> None:
    """Stopped with events pending and compacted: the next run decides those and the rest, nothing twice."""
    scripted(tmp_path, lines_of(40, threads=40))
    first = stopped(tmp_path, 5, 40, 60).tally
    done = upkeep(tmp_path)
    assert done.rows_after < done.rows_before
    rest = scripted(tmp_path, lines_of(130, threads=40)[60:]).tally
    assert 130 == 40 + first.decided + rest.decided
    assert 0 == rest.repeated == rest.dropped
    assert 130 == opened(tmp_path).record.count("events")
    assert 40 == opened(tmp_path).record.count("tasks")


def test_compaction_of_a_finished_folder_leaves_only_places(tmp_path: Path) -> None:
    """With nothing pending every bucket is done with: its rows go, the places stay, and nothing is read again."""
    scripted(tmp_path, lines_of(100, threads=50))
    before, tables = empty_rows(tmp_path), rows_of(opened(tmp_path), tuple(RECORD))
    assert before > 10
    done = upkeep(tmp_path)
    assert (before, 0) == (done.rows_before - done.rows_after, empty_rows(tmp_path))
    assert not (tmp_path / "recovery.backup").exists()
    again = upkeep(tmp_path)
    assert again.rows_before == again.rows_after == done.rows_after
    tally = scripted(tmp_path, []).tally
    assert (0, 0) == (tally.read, tally.applied)
    assert tables == rows_of(opened(tmp_path), tuple(RECORD))


def test_superseded_rows_go_and_later_ones_stay(tmp_path: Path) -> None:
    """Up to the committed epoch the newest row of a key stays; rows after it stay all, empty ones too."""
    scripted(tmp_path, lines_of(3))
    part = next(iter(sorted((tmp_path / "recovery" / "decide").glob("part-*.sqlite3"))))
    with sqlite3.connect(part) as connection:
        connection.execute("DELETE FROM snaps")
        connection.execute("UPDATE commits SET commit_epoch = 10")
        rows = [
            ("a", 1, b"old"),
            ("a", 9, b"new"),
            ("b", 2, b"gone"),
            ("b", 10, None),
            ("c", 11, None),
            ("c", 3, b"c"),
        ]
        connection.executemany("INSERT INTO snaps VALUES ('', 's', ?, ?, ?)", rows)
    connection.close()
    compact(tmp_path / "recovery")
    with sqlite3.connect(part) as connection:
        found = connection.execute("SELECT state_key, snap_epoch, ser_change FROM snaps ORDER BY 1, 2").fetchall()
    connection.close()
    assert [("a", 9, b"new"), ("c", 3, b"c"), ("c", 11, None)] == found


def test_a_compaction_that_loses_state_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong in between is noticed before the backup goes: the files are as they were."""
    first = stopped(tmp_path, 5, 0, 60).tally
    rows = state_rows(tmp_path / "recovery")
    with monkeypatch.context() as patched:
        patched.setattr(connectors.recovery_store, "_DONE", "DELETE FROM snaps WHERE snap_epoch <= :committed")
        with pytest.raises(StoreError, match="it was undone; nothing is lost"):
            compact(tmp_path / "recovery")
    assert rows == state_rows(tmp_path / "recovery")
    assert not (tmp_path / "recovery.backup").exists()
    rest = scripted(tmp_path, []).tally
    assert (60, 0) == (first.decided + rest.decided, rest.repeated)


def test_an_interrupted_compaction_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed with a file damaged: the next upkeep puts the backup back and says so; the run goes on from there."""
    first = stopped(tmp_path, 10, 0, 60).tally
    part = next(iter(sorted((tmp_path / "recovery" / "decide").glob("part-*.sqlite3"))))

    def killed(*_: object) -> None:
        part.write_bytes(part.read_bytes()[:1000])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(connectors.recovery_store, "_compact", killed)
        patched.setattr(connectors.recovery_store, "_put_back", killed)
        with pytest.raises(KeyboardInterrupt):
            compact(tmp_path / "recovery")
    assert (tmp_path / "recovery.backup").is_dir()
    assert upkeep(tmp_path).mended
    assert not (tmp_path / "recovery.backup").exists()
    rest = scripted(tmp_path, []).tally
    assert (60, 0) == (first.decided + rest.decided, rest.repeated)


def test_a_foreign_file_is_told(tmp_path: Path) -> None:
    """A file that is no recovery store is named, and left as it is."""
    part = tmp_path / "recovery" / "decide" / "part-0.sqlite3"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"something else entirely" * 100)
    with pytest.raises(StoreError, match=r"part-0\.sqlite3 is not a recovery store this release knows"):
        compact(tmp_path / "recovery")
    assert b"something" == part.read_bytes()[:9]


def test_no_upkeep_beside_a_run(tmp_path: Path) -> None:
    """While a run holds the folder there is no upkeep; a probe sees that, and holds nobody up."""
    scripted(tmp_path, lines_of(3))
    folder = DataFolder.at(tmp_path, load_settings())
    assert not is_held(folder.recovery)
    with exclusive(folder.recovery):
        assert is_held(folder.recovery)
        with pytest.raises(StoreError, match="Another run is using"):
            maintain(folder, Settings())
    assert not is_held(folder.recovery)
    assert not is_held(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


class AllDecided(EmptyRecord):
    """Knows of every event that it was decided, but of one."""

    def __init__(self, fresh: str) -> None:
        self._fresh = fresh

    def events(self, ids: Iterable[str]) -> dict[str, Any]:
        return {uid: SimpleNamespace(decision="d") for uid in ids if uid != self._fresh}


def comes(number: int) -> Outgoing:
    """An event without text in a thread of its own: it needs no judge."""
    event = {
        "id": "1",
        "source": "s",
        "thread": f"t{number}",
        "at": START.isoformat(),
        "text": "",
        "author": {"id": "a"},
    }
    return Outgoing(f"default/t{number}", json.dumps(event))


def deciding(path: Path, last: int) -> float:
    """The decide dataflow over a topic until it is drained; returns seconds to the decision of the last event."""
    settings = load_settings(wave=4_096, read_ahead=8_192, source_batch=1_024)
    folder = DataFolder.at(path, settings)
    events, operations = folder.topic("events"), folder.topic("operations")
    record = AllDecided(event_uid("default", "s", f"t{last}", "1"))
    markers = Markers(folder.path / "in_flight.json")
    calls = Calls(Script(), 1.0)
    looker = EmptyLooker(settings)
    desk = Desk(record, looker, Overlay(), calls, "script/1", settings, utc_now, markers, lambda _: [])
    signals = Signals.fresh()
    signals.input_closed.set()
    decided: list[float] = []
    flow = decide(
        TopicSource(events, EventsTap(desk, signals, 1.0), settings.source_batch),
        desk,
        TopicSink(operations, written=lambda _: decided.append(monotonic())),
        TopicSink(folder.topic("dead-letters")),
        Tally(),
        settings.buckets,
    )
    began = monotonic()
    run_main(flow, epoch_interval=timedelta(milliseconds=100), recovery_config=folder.recovery_config("decide"))
    markers.end()
    return decided[0] - began


def resumed(path: Path, threads: int) -> tuple[int, float]:
    """So many threads come and go; rows their state leaves, and seconds from the next start to its decision."""
    topic = DataFolder.at(path, load_settings()).topic("events")
    for first in range(0, threads, 10_000):
        topic.append([comes(number) for number in range(first, min(threads, first + 10_000))])
    deciding(path, threads - 1)
    rows = state_rows(path / "recovery")
    topic.append([comes(threads)])
    return rows, deciding(path, threads)


@pytest.mark.slow
def test_threads_that_have_gone_cost_nothing(tmp_path: Path) -> None:
    """After 100,000 threads the state is as small, and the next start as quick, as after 1,000."""
    few, quick = resumed(tmp_path / "few", 1_000)
    many, slow = resumed(tmp_path / "many", 100_000)
    print(f"rows {few} and {many}, seconds to the first decision {quick:.2f} and {slow:.2f}")
    assert few <= many <= Settings().buckets + 8
    assert slow < 5 * quick + 1


def test_the_command_says_what_it_freed(tmp_path: Path, capsys: Captured) -> None:
    """Sentences for people, counts for programs, and one sentence where there is nothing."""
    scripted(tmp_path, lines_of(30))
    assert 0 == main(["maintain", "--data", str(tmp_path)])
    out, _ = capsys.readouterr()
    assert "rows removed" in out
    assert "Tables: optimised" in out
    assert 0 == main(["maintain", "--data", str(tmp_path), "--json"])
    counts = json.loads(capsys.readouterr()[0])
    assert 0 == counts["recovery_rows_removed"]
    assert counts["store_bytes_after"] > 0
    assert 1 == main(["maintain", "--data", str(tmp_path / "nowhere")])
    out, err = capsys.readouterr()
    assert ("", True, 1) == (out, "There is nothing in" in err, err.count("\n"))
    assert not (tmp_path / "nowhere").exists()

"""Kills and stops of the real process: what a short soak, a bulk import and an event that kills leave behind."""

from __future__ import annotations

import json
import os
import random
import signal
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from store.schema import Event, parse_event
from store.schema.identity import decision_id
from tests.audit import audit
from tests.judges import POISON, WITNESS, is_refused
from tests.process import (
    KILLED,
    ended,
    finish,
    kill,
    messages,
    produce,
    start,
    suspects,
    wait_until,
    written,
)
from tests.sample import EVENTS, LINES, SAMPLE, opened, run_embedded, sample_lines
from tests.soak import Soak
from tests.workplace import rows_of

KILLS = 20
SMALL = {"LOOKFIRST_EPOCH": "0.05", "LOOKFIRST_WAVE": "4"}
"""Decisions reach the topic a few at a time, so that there is a middle to kill in."""

pytestmark = pytest.mark.slow


def made(count: int, text: str = "please do number {0} of ABC-{0}", threads: int = 64) -> list[str]:
    """Lines of events over some threads."""
    return [
        json.dumps(
            {
                "id": str(number),
                "source": "chat",
                "thread": f"t{number % threads}",
                "at": "2024-05-01T09:00:00Z",
                "author": {"id": f"u{number % 3}", "name": f"Person {number % 3}"},
                "text": text.format(number),
            }
        )
        for number in range(count)
    ]


def events_of(lines: list[str]) -> list[Event]:
    """The lines that are events."""
    return [parse_event(line) for line in lines if line.startswith("{")]


def decided(path: Path) -> list[str]:
    """Uids of the events with a Decision on the topic, in its order."""
    found = messages(path, "operations")
    return [message["view"]["event"] for message in found if message["kind"] == "decision"]


def outcomes(path: Path) -> dict[str, str]:
    """What became of each event, by uid."""
    return {row["id"]: row["outcome"] for row in rows_of(opened(path), ["events"])["events"]}


@pytest.mark.promise("R52", "Q2")
def test_killed_runs_end_in_the_same_record(tmp_path: Path) -> None:
    """Twenty kills at random, by four judges: nothing lost, doubled or parked, rows as if nobody had killed."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")
    lines = [line.text for line in sample_lines()[:70]]
    soak = Soak(tmp_path, lines, KILLS, random.Random(seed), Console(), deque())
    assert [] == soak.run()
    assert KILLS == soak.killed


@pytest.mark.promise("Q2")
def test_counts_add_up_after_a_kill_in_a_bulk_import(tmp_path: Path) -> None:
    """Killed while an import streams in: what came is decided, pending, parked or unreadable, and nothing else."""
    broken = ["not an event", "[]"]
    lines = [*made(80), broken[0], *made(160)[80:], broken[1]]
    process = start(tmp_path, "--from", "-", LOOKFIRST_JUDGE="tests.judges:particular", **SMALL)
    assert process.stdin
    process.stdin.write("\n".join(lines[:120]) + "\n")
    process.stdin.flush()
    assert wait_until(lambda: 20 < written(tmp_path) and 120 == written(tmp_path, "events"), process)
    assert kill(process)
    came = 119
    before = messages(tmp_path, "operations")
    had = {kind: sum(message["kind"] == kind for message in before) for kind in ("decision", "parked")}
    pending = came - sum(had.values())
    assert 0 < pending < came - 20

    # What is left is decided from the topic and the state alone.
    rest = finish(start(tmp_path, LOOKFIRST_JUDGE="tests.judges:particular"))
    came_in = rest["read"] + rest["resumed"]
    parts = ("decided", "already_decided", "parked", "unreadable")
    assert came_in == sum(rest[part] for part in parts)
    assert pending == rest["decided"] + rest["parked"] - _again(before, tmp_path)
    refused = {event.uid for event in events_of(lines[:120]) if is_refused(event)}
    checked = audit(tmp_path)
    assert (came, came - len(refused), 1) == (checked.events, checked.decided, checked.unreadable)
    assert refused == set(checked.parked)
    assert ((), (), ()) == (checked.lost, checked.duplicated, checked.differences)

    # Then the import once more, from its beginning: the rest is decided, the first half was before.
    (tmp_path / "all.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    whole = finish(
        start(tmp_path, "--from", str(tmp_path / "all.jsonl"), LOOKFIRST_JUDGE="tests.judges:particular")
    )
    refused = {event.uid for event in events_of(lines) if is_refused(event)}
    assert (162, 162) == (whole["produced"], sum(whole[part] for part in parts))
    assert (checked.decided, len(refused), 2) == (whole["already_decided"], whole["parked"], whole["unreadable"])
    checked = audit(tmp_path)
    assert (160, 160 - len(refused)) == (checked.events, checked.decided)
    assert refused == set(checked.parked)
    assert ((), (), ()) == (checked.lost, checked.duplicated, checked.differences)


def _again(before: list[dict[str, Any]], path: Path) -> int:
    """Parked events that were parked once more: a kill may come between the message and the note of it."""
    parked = [
        message["arrival"]["coordinates"]["offset"] for message in messages(path, "operations")[len(before) :]
    ]
    had = {message["arrival"]["coordinates"]["offset"] for message in before if message["kind"] == "parked"}
    return sum(offset in had for offset in parked)


@pytest.mark.promise("Q5")
@pytest.mark.parametrize("cap", [1, 3])
def test_an_event_that_kills_the_process_is_found(tmp_path: Path, cap: int) -> None:
    """One of 64 under way kills the process each time: it is parked within its cap, the others are decided."""
    lines = [*made(40), made(64, "take number {0}, the DEADLY one")[40], *made(64)[41:]]
    produce(tmp_path, lines)
    variables = {"LOOKFIRST_JUDGE": "tests.judges:poison", "LOOKFIRST_RETRY_CAP": str(cap), POISON: "DEADLY"}
    deaths = 0
    while True:
        process = start(tmp_path, **variables)
        _, err = ended(process, 120)
        if process.returncode == 0:
            break
        assert KILLED == process.returncode, err
        deaths += 1
        assert deaths <= 1 + cap, "it is not found"
    poisonous = events_of(lines)[40]
    found = audit(tmp_path)
    assert (64, 63, (poisonous.uid,)) == (found.events, found.decided, found.parked)
    assert ((), (), ()) == (found.lost, found.duplicated, found.differences)
    (letter,) = messages(tmp_path, "dead-letters")
    assert poisonous == parse_event(letter["raw"])
    # The cap is reached by its own deaths only: the first, with 63 others, is charged to nobody.
    assert 1 + cap == deaths


@pytest.mark.promise("Q5")
def test_events_that_were_under_way_at_kills_are_not_charged(tmp_path: Path) -> None:
    """Killed again and again with many judgments under way and a cap of one crash: none of them is parked."""
    produce(tmp_path, made(400))
    settings = {"LOOKFIRST_JUDGE": "tests.judges:poison", "LOOKFIRST_RETRY_CAP": "1", "LOOKFIRST_EPOCH": "0.1"}
    # Fewer than usual, because each of them is judged alone after a kill.
    settings["LOOKFIRST_INFLIGHT"] = "16"
    kills = before = 0
    while kills < 3:
        process = start(tmp_path, **settings)
        # Not while one is judged alone: it would rightly be charged.
        if not wait_until(lambda before=before: written(tmp_path) > before and not suspects(tmp_path), process):
            break
        if not kill(process):
            break
        kills, before = kills + 1, written(tmp_path)
    assert 2 <= kills
    finish(start(tmp_path, **settings))
    found = audit(tmp_path)
    assert (400, 400, []) == (found.events, found.decided, found.faults)


@pytest.mark.promise("R52")
def test_what_was_visible_stands_before_anything_is_written(tmp_path: Path) -> None:
    """Killed before the first write: Decisions stand with their Views, no row does; each is then applied once."""
    produce(tmp_path, [line.text for line in sample_lines()[:20]])
    process = start(tmp_path, LOOKFIRST_FAILPOINT="commit.changes.before", **SMALL)
    ended(process, 120)
    assert KILLED == process.returncode
    emitted = messages(tmp_path, "operations")
    assert emitted
    needed = {"text", "thread", "standby_tasks", "standby_people"}
    assert all(needed <= {read["name"] for read in message["view"]["reads"]} for message in emitted)
    tables = ("changes", "tasks", "people", "sessions", "decisions", "events")
    assert {table: [] for table in tables} == rows_of(opened(tmp_path), tables)
    finish(start(tmp_path))
    kept = {row["decision"]: row for row in rows_of(opened(tmp_path), ["decisions"])["decisions"]}
    for message in emitted:
        assert message == json.loads(kept[decision_id(message["view"]["event"])]["message"])
    assert [] == audit(tmp_path).faults


@pytest.mark.promise("D9")
def test_an_event_sent_again_after_a_kill_keeps_its_first_decision(tmp_path: Path) -> None:
    """Sent again in other words to a judge that always answers differently: what was decided before stands."""
    produce(tmp_path, made(60))
    settings = {"LOOKFIRST_JUDGE": "tests.judges:contrary"}
    process = start(tmp_path, **settings, **SMALL)
    assert wait_until(lambda: 10 < written(tmp_path), process)
    assert kill(process)
    first = messages(tmp_path, "operations")
    (tmp_path / "again.jsonl").write_text("\n".join(made(60, "do {0} again")) + "\n", encoding="utf-8")
    counts = finish(start(tmp_path, "--from", str(tmp_path / "again.jsonl"), **settings))
    assert 60 == counts["produced"] <= counts["already_decided"]
    after = messages(tmp_path, "operations")
    assert (first, 60) == (after[: len(first)], len(after))
    standing = {row["decision"]: row for row in rows_of(opened(tmp_path), ["decisions"])["decisions"]}
    for message in first:
        assert message == json.loads(standing[decision_id(message["view"]["event"])]["message"])
    assert [] == audit(tmp_path).faults


@pytest.mark.promise("R48")
def test_doing_nothing_is_done_also_after_a_kill(tmp_path: Path) -> None:
    """An event of which nothing came counts as processed: after a kill it is neither judged nor written again."""
    lines = made(60)
    produce(tmp_path, lines)
    witness = tmp_path / "asked"
    settings = {"LOOKFIRST_JUDGE": "tests.judges:witnessed", WITNESS: str(witness)}
    process = start(tmp_path, **settings, **SMALL)
    assert wait_until(lambda: 15 < written(tmp_path), process)
    assert kill(process)
    before = decided(tmp_path)
    witness.unlink()
    (tmp_path / "again.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    counts = finish(start(tmp_path, "--from", str(tmp_path / "again.jsonl"), **settings))
    assert (0, 0) == (counts["parked"], counts["dropped"])
    assert set() == set(before) & set(witness.read_text(encoding="utf-8").split())
    found = outcomes(tmp_path)
    assert 0 < sum(found[uid] == "not_a_task" for uid in before)
    assert {"created", "not_a_task"} == set(found.values())
    assert [] == audit(tmp_path).faults


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_stops_in_order(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end the run with 0 and no traceback; the next run reads no event twice."""
    process = start(tmp_path, "--paced", "--from", str(SAMPLE / "events.jsonl"))
    assert wait_until(lambda: 5 <= written(tmp_path), process)
    process.send_signal(number)
    out, err = ended(process, 60)
    assert (0, False) == (process.returncode, "Traceback" in err), err
    first = json.loads(out)
    second = finish(start(tmp_path))
    assert first["produced"] == first["read"] + second["read"]
    assert EVENTS == first["decided"] + second["decided"] or first["produced"] < LINES
    assert [] == audit(tmp_path).faults


def test_second_signal_ends_at_once(tmp_path: Path) -> None:
    """Whoever asks twice is not made to wait, and nothing that was decided is lost."""
    process = start(tmp_path, "--paced", "--from", str(SAMPLE / "events.jsonl"))
    assert wait_until(lambda: 3 <= written(tmp_path), process)
    process.send_signal(signal.SIGTERM)
    os.kill(process.pid, signal.SIGTERM)
    ended(process, 10)
    run_embedded(tmp_path, sample_lines(), paced=False)
    assert EVENTS == opened(tmp_path).record.count("events") == written(tmp_path)
    assert [] == audit(tmp_path).faults

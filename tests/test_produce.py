"""`produce` and `import --brokers`: what is appended, what is refused, and how it stops and waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from connectors.imported import Imported
from connectors.message import Incoming, Outgoing
from connectors.topic_file import TopicFile
from flows.cli.main import main
from flows.intake import Line
from flows.judge.rules import RulesJudge
from flows.produce import Production, Refused, judged
from store.schema import Coordinates, TopicError, UsageError
from tests.conftest import REPOSITORY
from tests.kafka_process import Site
from tests.kafka_process import wait_until as kafka_wait_until
from tests.process import finish, start, wait_until, written
from tests.test_rebuild_kafka import ran, site

Captured = pytest.CaptureFixture[str]

__all__ = ["site"]

_DEADLINE = 60.0


def line(number: int, thread: str = "ops/1", text: str = "Please renew the certificate by Friday.") -> str:
    """One event as a line of input."""
    event = {"id": str(number), "source": "chat", "thread": thread, "at": "2026-03-02T09:00:00Z", "text": text}
    return json.dumps(event, ensure_ascii=False)


def lines_of(count: int) -> list[Imported]:
    """So many events, read."""
    return [Imported(line(number), f"made:{number}", None) for number in range(1, count + 1)]


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A file of three events of two threads, a blank line, and two lines that are none."""
    path = tmp_path / "events.jsonl"
    lines = [line(1), "", line(2, "é"), "{broken", line(3)]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe not text\n")
    return path


@pytest.fixture
def topic(tmp_path: Path) -> TopicFile:
    """A topic in a file."""
    return TopicFile(tmp_path / "topics", "lookfirst.events")


def messages(topic: TopicFile) -> list[Incoming]:
    """What it holds."""
    return [each for found in topic.walk() for each in found]


def started(*arguments: str, **settings: str) -> subprocess.Popen[str]:
    """`lookfirst produce -` as a process of its own, with a pipe."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LOOKFIRST_")}
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli.main", "produce", "-", *arguments],
        cwd=REPOSITORY,
        env={**kept, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def soon(condition: Callable[[], bool], timeout: float = _DEADLINE) -> None:
    """Wait for something that happens in another thread or process."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "nothing came in time"
        time.sleep(0.01)


def test_lines_are_appended_to_the_folder(events: Path, tmp_path: Path, capsys: Captured) -> None:
    """Each with its thread's key and where it was read; what is no event goes as it is, and is told."""
    data = tmp_path / "data"
    assert 0 == main(["produce", str(events), "--data", str(data)])
    out, err = capsys.readouterr()
    path = data / "topics" / "lookfirst.events.jsonl"
    said = f"5 lines appended to the topic file {path}: 3 events, 2 that a run will put in the dead letters."
    assert said == " ".join(out.split())
    first, second, last = err.splitlines()
    assert first.startswith(f"- {events}:4: not JSON")
    assert second.startswith(f"- {events}:6: not JSON")
    assert f"A run in progress decides them, else the next `lookfirst run --data {data}` does." == last
    found = messages(TopicFile(data / "topics", "lookfirst.events"))
    assert ["default/ops/1", "default/é", None, "default/ops/1", None] == [each.key for each in found]
    assert [line(1), line(2, "é"), "{broken", line(3), "\\xff\\xfe not text"] == [each.value for each in found]
    assert [f"{events}:{n}" for n in (1, 3, 4, 5, 6)] == [each.headers["origin"] for each in found]


@pytest.mark.promise("D9")
def test_the_same_file_again_is_decided_once(events: Path, tmp_path: Path, capsys: Captured) -> None:
    """Appended twice, and once more after the decision: three Decisions in all."""
    data = ["--data", str(tmp_path / "data")]
    for again, expected in ((2, (3, 3)), (1, (0, 3))):
        for _ in range(again):
            assert 0 == main(["produce", str(events), *data, "--json"])
            counts = json.loads(capsys.readouterr().out)
            assert (5, 3, 2, []) == tuple(counts[name] for name in ("appended", "events", "unreadable", "refused"))
        assert 0 == main(["run", *data, "--json"])
        counts = json.loads(capsys.readouterr().out)
        assert expected == (counts["decided"], counts["already_decided"])


@pytest.mark.slow
def test_beside_a_run(events: Path, tmp_path: Path, capsys: Captured) -> None:
    """A run that waits for its input decides what was produced meanwhile."""
    data = tmp_path / "data"
    run = start(data, "--from", "-", LOOKFIRST_EPOCH="0.1")
    assert run.stdin
    run.stdin.write(line(9) + "\n")
    run.stdin.flush()
    assert wait_until(lambda: written(data) == 1, run)
    assert 0 == main(["produce", str(events), "--data", str(data)])
    assert wait_until(lambda: written(data) == 4, run)
    assert 4 == finish(run)["decided"]


def test_a_pipe_is_appended_as_it_comes(tmp_path: Path) -> None:
    """Each line is in the topic while the next one is not written yet; Ctrl-C ends in order and says how many."""
    data = tmp_path / "data"
    process = started("--data", str(data))
    assert process.stdin
    for count in (1, 2, 3):
        process.stdin.write(line(count) + "\n")
        process.stdin.flush()
        assert wait_until(lambda count=count: written(data, "events") == count, process)  # type: ignore[misc]
    process.send_signal(signal.SIGINT)
    # The pipe stays open: nobody waits for its end.
    assert 0 == process.wait(_DEADLINE)
    out, err = process.communicate()
    assert "3 lines appended to" in out
    assert "Stopped: of stdin the first 3 lines were taken" in err
    assert "Traceback" not in err


def test_nothing_to_produce(tmp_path: Path, capsys: Captured) -> None:
    """A file without events is said to be one, and no error; a file that is not there is wrong usage."""
    path = tmp_path / "empty.jsonl"
    path.write_text("\n \n")
    assert 0 == main(["produce", str(path), "--data", str(tmp_path / "data")])
    assert f"{path} has no events.\n" == capsys.readouterr().err
    assert 2 == main(["produce", "nowhere.jsonl", "--data", str(tmp_path / "none")])
    assert "nowhere.jsonl does not exist" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["produce", "-", "--backfill"], "--backfill waits for `lookfirst run decide` on Kafka; name --brokers"),
        (["import", "jsonl", "x", "--backfill"], "--backfill waits for `lookfirst run decide` on Kafka"),
        (["import", "jsonl", "x", "--out", "y", "--brokers", "z:1"], "--out and --brokers are two places"),
        (["produce", __file__, "--brokers", "nowhere"], "'nowhere' is no broker"),
        (["import", "jsonl", __file__, "--brokers", "nowhere"], "'nowhere' is no broker"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence and exit code 2."""
    monkeypatch.delenv("LOOKFIRST_BROKERS", raising=False)
    assert 2 == main(arguments)
    out, err = capsys.readouterr()
    assert ("", 1) == (out, err.count("\n"))
    assert said in err


def test_an_import_is_sent_only_when_it_is_told_to(
    events: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers in the environment do not redirect what goes to stdout."""
    monkeypatch.setenv("LOOKFIRST_BROKERS", "127.0.0.1:1")
    assert 0 == main(["import", "jsonl", str(events)])
    assert 5 == capsys.readouterr().out.count("\n")


def test_what_is_too_long_is_left_out(topic: TopicFile) -> None:
    """Bytes are counted and not characters, up to the limit itself; each is told, and the others go."""
    told: list[Refused] = []
    longest = len(line(1, text="é" * 100).encode())
    made = Production(topic, longest=longest, refuse=told.append)
    texts = ("é" * 100, "é" * 101, "e" * 200, "e" * 201, "hi")
    made.run([Imported(line(1, text=text), f"made:{n}", None) for n, text in enumerate(texts)])
    assert [Refused("made:1", longest + 2), Refused("made:3", longest + 1)] == told == made.refused
    assert 3 == made.appended == made.events
    assert ["made:0", "made:2", "made:4"] == [each.headers["origin"] for each in messages(topic)]


def test_batches_are_bounded(topic: TopicFile, monkeypatch: pytest.MonkeyPatch) -> None:
    """By lines and by characters, and a reader never runs far ahead."""
    sizes: list[int] = []
    append = TopicFile.append

    def noted(topic: TopicFile, batch: Sequence[Outgoing]) -> Coordinates:
        sizes.append(len(batch))
        return append(topic, batch)

    monkeypatch.setattr(TopicFile, "append", noted)
    read = 0

    def counted() -> Iterator[Imported]:
        nonlocal read
        for read, each in enumerate(lines_of(5_000), 1):  # noqa: B007  it is looked at below
            yield each

    def ahead() -> None:
        assert read <= made.appended + 1_000 + 2_000 + 1

    made = Production(topic, pace=ahead)
    made.run(counted())
    assert (5_000, 5_000) == (sum(sizes), made.appended)
    assert max(sizes) <= 1_000
    sizes.clear()
    Production(topic).run([Imported(line(n, text="x" * 5_000_000), f"made:{n}", None) for n in range(5)])
    assert 5 == sum(sizes)
    assert max(sizes) <= 2


def test_a_stop_appends_what_was_read(topic: TopicFile) -> None:
    """What a pipe has handed over by then cannot be read again; what comes later is left alone."""
    more = threading.Event()

    def pipe() -> Iterator[Imported]:
        yield from lines_of(3)
        more.wait(_DEADLINE)
        yield Imported(line(4), "made:4", None)

    made = Production(topic)
    run = threading.Thread(target=made.run, args=(pipe(),))
    run.start()
    soon(lambda: made.appended == 3)
    made.stop()
    run.join(_DEADLINE)
    assert not run.is_alive()
    more.set()
    assert 3 == made.appended == len(messages(topic))


def test_an_input_that_breaks_off(topic: TopicFile) -> None:
    """What was read before is in, then it is told what went wrong."""

    def breaks() -> Iterator[Imported]:
        yield from lines_of(3)
        raise UsageError("tape cannot be read")

    made = Production(topic)
    with pytest.raises(UsageError, match="tape cannot be read"):
        made.run(breaks())
    assert 3 == made.appended == len(messages(topic))


def test_a_topic_that_fails_says_what_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The disk is full after a thousand lines: they are in, the sentence says so, and nobody hangs."""
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(line(n) for n in range(3_000)))
    append = TopicFile.append
    left = 1_000

    def full(topic: TopicFile, batch: Sequence[Outgoing]) -> Coordinates:
        nonlocal left
        left -= len(batch)
        if left < 0:
            raise TopicError("Cannot append: No space left on device; free some space.")
        return append(topic, batch)

    monkeypatch.setattr(TopicFile, "append", full)
    assert 1 == main(["produce", str(path), "--data", str(tmp_path / "data")])
    out, err = capsys.readouterr()
    there = len(messages(TopicFile(tmp_path / "data" / "topics", "lookfirst.events")))
    first, second = err.splitlines()
    assert "" == out
    assert first.startswith(f"At least {there:,} lines of {path} are in the topic file")
    assert second.startswith("Cannot append: No space left")


def test_lines_are_judged_as_they_are() -> None:
    """The verdict is that of the pipeline, and the text stays what it was."""
    texts = [line(1), " {broken\r", '{"id": "1"}']
    found = list(judged(Line(text, f"in:{n}") for n, text in enumerate(texts)))
    assert texts == [each.line for each in found]
    assert [True, False, False] == [each.problem is None for each in found]


def by_origin(site: Site, name: str = "events") -> dict[str, Incoming]:
    """The messages of a topic by where they were read."""
    return {each.headers["origin"]: each for each in site.incoming(name)}


@pytest.mark.broker
def test_lines_are_appended_to_kafka(site: Site, events: Path, capsys: Captured) -> None:
    """A thread stays in one partition, in order; what is none becomes a dead letter, and nothing is made here."""
    assert 0 == main(["produce", str(events), "--brokers", site.brokers, "--data", str(site.path)])
    out, err = capsys.readouterr()
    assert f"5 lines appended to the topic {site.prefix}.events at {site.brokers}: 3 events, 2 that" in out
    assert f"`lookfirst run decide --brokers {site.brokers}` decides them" in err
    found = by_origin(site)
    assert [f"{events}:{n}" for n in (1, 3, 4, 5, 6)] == sorted(found)
    first, last = found[f"{events}:1"], found[f"{events}:5"]
    assert (first.partition, "default/ops/1") == (last.partition, last.key)
    assert first.offset < last.offset
    assert [] == list(site.path.iterdir())
    tally = ran(site, RulesJudge())
    assert (3, 2, 0) == (tally.decided, tally.unreadable_events, tally.unkeyed)
    letters = site.messages("dead-letters")
    assert {f"{events}:4", f"{events}:6"} == {letter["origin"] for letter in letters}


@pytest.mark.broker
@pytest.mark.promise("D9")
def test_produced_to_kafka_again_it_is_decided_once(site: Site, events: Path) -> None:
    """The same file, an hour later or at once: the first Decision stands."""
    for decided in (3, 0):
        assert 0 == main(["produce", str(events), "--brokers", site.brokers])
        assert decided == ran(site, RulesJudge()).decided
    assert 10 == site.written("events")
    assert 3 == site.written("operations")


@pytest.mark.broker
def test_what_is_too_long_for_kafka_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Its place, its size and the remedy are told, the others go, and the exit code is 1; so for an import."""
    path = tmp_path / "long.jsonl"
    path.write_text("\n".join((line(1), line(2, text="é" * 450_000), line(3))), encoding="utf-8")
    size = len(line(2, text="é" * 450_000).encode())
    assert 1 == main(["produce", str(path), "--brokers", site.brokers])
    out, err = capsys.readouterr()
    assert "2 events; 1 line refused." in out
    assert f"{path}:2 was not sent: it has {size:,} bytes, and at most 900,000 travel on Kafka; shorten" in err
    assert [f"{path}:1", f"{path}:3"] == sorted(by_origin(site))

    assert 1 == main(["import", "jsonl", str(path), "--brokers", site.brokers])
    out, err = capsys.readouterr()
    assert "2 events; 1 line refused." in out
    assert "long.jsonl:2 was not sent: it has" in err
    assert 4 == site.written("events")

    monkeypatch.setenv("LOOKFIRST_MESSAGE_KILOBYTES", "1000")
    assert 0 == main(["produce", str(path), "--brokers", site.brokers, "--json"])
    counts = json.loads(capsys.readouterr().out)
    assert (3, []) == (counts["appended"], counts["refused"])


@pytest.mark.broker
def test_an_import_goes_to_kafka(site: Site, tmp_path: Path, capsys: Captured) -> None:
    """A Slack export is sent as events, keyed by their threads, and the counts are told; also as a backfill."""
    folder = tmp_path / "export" / "general"
    folder.mkdir(parents=True)
    said = [{"ts": f"143354321{n}.000123", "user": "U1", "text": f"hi {n}"} for n in range(3)]
    (folder / "2015-06-05.json").write_text(json.dumps(said))
    command = ["import", "slack", str(folder.parent), "--workspace", "acme", "--brokers", site.brokers]
    assert 0 == main([*command, "--backfill"])
    out, err = capsys.readouterr()
    assert ("", f"3 lines appended to the topic {site.prefix}.events at {site.brokers}: 3 events.\n") == (err, out)
    found = [json.loads(each.value) for each in site.incoming("events")]
    assert {"acme"} == {each["workspace"] for each in found}
    assert {each.key for each in site.incoming("events")} == {f"acme/{each['thread']}" for each in found}


@pytest.mark.broker
def test_a_pipe_goes_to_kafka_as_it_comes(site: Site) -> None:
    """Each line is there while the next one is not written yet; its end ends it."""
    process = started("--brokers", site.brokers, LOOKFIRST_TOPIC_PREFIX=site.prefix)
    assert process.stdin
    for count in (1, 2, 3):
        process.stdin.write(line(count) + "\n")
        process.stdin.flush()
        assert wait_until(lambda count=count: site.written("events") == count, process)  # type: ignore[misc]
    out, _ = process.communicate(timeout=_DEADLINE)
    assert 0 == process.returncode
    assert "3 events." in out


@pytest.mark.broker
def test_a_backfill_waits_for_decide(site: Site, tmp_path: Path) -> None:
    """Five may be undecided and five go at once: never more than ten ahead, and on as they are decided."""
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(line(n, f"t/{n}") for n in range(30)))
    process = site.run("produce", "produce", str(path), "--backfill", "--json", LOOKFIRST_BACKFILL_AHEAD="5")
    assert kafka_wait_until(lambda: site.written("events") == 10, [process])
    decided = 0
    while process.code is None:
        assert site.written("events") <= decided + 10
        decided += ran(site, RulesJudge()).decided
    counts = process.counts()
    assert (30, False, 30) == (counts["appended"], counts["stopped"], site.written("events"))
    assert decided >= 20


@pytest.mark.broker
def test_a_backfill_that_waits_is_stopped(site: Site, tmp_path: Path) -> None:
    """Nobody decides: it ends in order, appends no line that can be read again, and says how far it was."""
    path = tmp_path / "many.jsonl"
    path.write_text("\n".join(line(n) for n in range(30)))
    process = site.run("produce", "produce", str(path), "--backfill", "--json", LOOKFIRST_BACKFILL_AHEAD="5")
    assert kafka_wait_until(lambda: site.written("events") == 10, [process])
    process.stop()
    counts = process.counts()
    assert (10, True) == (counts["appended"], counts["stopped"])
    assert f"Stopped: of {path} the first 10 lines were taken" in process.said
    assert 10 == site.written("events")

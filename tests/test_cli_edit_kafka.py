"""`edit`, `delete` and `restore` on Kafka: the operation stands in its thread's partition and is applied."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from connectors.kafka_client import Brokers
from connectors.message import Incoming, Outgoing
from flows.apply_run import ApplyRun
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.rebuild import rebuild_store
from store.schema import Settings, TaskRow
from tests.broker import fresh_prefix
from tests.kafka_process import Site, beside
from tests.sample import opened, run_embedded, sample_lines
from tests.test_embedded import lines_of, scripted
from tests.test_rebuild_kafka import applied, ran, settings_of, site, topic_of
from tests.workplace import Script, create_or_match, event

pytestmark = pytest.mark.broker

Captured = pytest.CaptureFixture[str]

__all__ = ["site"]


@pytest.fixture
def made(site: Site) -> Site:
    """A site after a run, in which there is one task."""
    site.produce([event("order a printer", id="1").model_dump_json()])
    assert 1 == ran(site, Script(rule=create_or_match)).decided
    return site


def task(site: Site) -> TaskRow:
    """The task, as the record has it."""
    (row,) = opened(site.path).record.listed("tasks", TaskRow, newest="updated", limit=9)
    return row


def by_hand(site: Site) -> list[tuple[Incoming, dict[str, Any]]]:
    """A person's operations on the topic, in order."""
    read = ((incoming, json.loads(incoming.value)) for incoming in site.incoming("operations"))
    return [(incoming, said) for incoming, said in read if said["kind"] in ("edit", "delete", "restore")]


def command(site: Site, *words: str) -> int:
    """A command over the site."""
    return main([*words, "--brokers", site.brokers, "--data", str(site.path)])


@contextmanager
def applying(site: Site) -> Iterator[None]:
    """Apply beside something else."""
    settings = settings_of(site)
    run = ApplyRun(DataFolder.at(site.path, settings), settings, Brokers.at(site.brokers, settings), print)
    with beside(run):
        yield


def test_an_edit_is_applied_from_the_topic(made: Site, capsys: Captured) -> None:
    """It is appended with its thread's key, the sentence names who applies it, and the next apply does."""
    before = task(made)
    assert 0 == command(made, "edit", before.id[:12], "--title", "Order two printers", "--by", "Anna")
    out, err = capsys.readouterr()
    assert "order a printer → Order two printers" in out
    run = f"lookfirst run apply --brokers {made.brokers} --data {made.path}"
    assert f"A run in progress applies it at once, else the next `{run}` does.\n" == err
    assert before == task(made)
    ((incoming, said),) = by_hand(made)
    assert ("default/t", before.id, "Anna") == (incoming.key, said["row"], said["by"])
    assert not (made.path / "topics").exists()

    applied(made)
    assert "Order two printers" == task(made).title
    capsys.readouterr()
    assert 0 == main(["why", before.id, "--data", str(made.path)])
    assert "Anna, in person" in capsys.readouterr().out


def test_equal_commands_are_two_operations(made: Site, capsys: Captured) -> None:
    """Deleted, restored, deleted, nothing of it applied: each knows the one before, and no two ids are equal."""
    row = task(made).id
    for word in ("delete", "restore", "delete"):
        assert 0 == command(made, word, row)
    assert 2 == command(made, "delete", row)
    assert "is deleted already; nothing was appended." in capsys.readouterr().err
    assert 2 == command(made, "edit", row, "--state", "done")
    assert "`lookfirst restore" in capsys.readouterr().err
    first, _, third = (said for _, said in by_hand(made))
    assert {**first, "id": third["id"]} == third
    assert first["id"] != third["id"]
    applied(made)
    assert 0 == opened(made.path).record.count("tasks")
    assert 0 == command(made, "restore", row)
    applied(made)
    assert row == task(made).id


def test_a_wait_ends_when_it_is_applied_or_in_time(made: Site, capsys: Captured) -> None:
    """With apply in progress it is told to be applied; without, that it is not lost, and by what it will be."""
    row = task(made).id
    with applying(made):
        assert 0 == command(made, "edit", row, "--state", "blocked", "--wait", "60", "--json")
        assert "blocked" == task(made).state
    out, err = capsys.readouterr()
    assert "It is applied.\n" == err
    printed = json.loads(out)
    ((incoming, said),) = by_hand(made)
    assert said == printed["operation"]
    assert (incoming.topic, incoming.partition, incoming.offset, True) == (
        printed["topic"],
        printed["partition"],
        printed["offset"],
        printed["applied"],
    )
    assert 1 == command(made, "edit", row, "--state", "done", "--wait", "0.1")
    said_last = capsys.readouterr().err
    assert "It was appended and is not lost, but no run applied it within 0.1 s" in said_last
    assert f"`lookfirst run apply --brokers {made.brokers} --data {made.path}` does." in said_last
    assert 2 == len(by_hand(made))


def test_operations_of_several_partitions(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """An edit stands behind the messages of its thread; what is not applied is found in every partition."""
    run_embedded(tmp_path / "files", sample_lines(), paced=False)
    operations = DataFolder.at(tmp_path / "files", settings_of(site)).topic("operations")
    monkeypatch.setenv("LOOKFIRST_TOPIC_PREFIX", prefix := fresh_prefix())
    topic = topic_of(site, f"{prefix}.operations", 3)
    for found in operations.walk():
        topic.append([Outgoing(each.key, each.value) for each in found])
    settings = Settings(topic_prefix=prefix, kafka_answer=20)
    folder = DataFolder.at(site.path, settings)
    rebuild_store(folder, settings, brokers=site.brokers)
    partition_of = {each.key: each.partition for found in topic.walk() for each in found}
    rows = opened(site.path).record.listed("tasks", TaskRow, newest="updated", limit=100)
    of_partition = {partition_of[f"{row.workspace}/{row.thread}"]: row.id for row in rows}
    assert {0, 1, 2} == of_partition.keys()

    capsys.readouterr()
    ids = set()
    for words, (partition, row) in zip(
        (("delete",), ("delete", "restore", "delete"), ("delete",)), sorted(of_partition.items()), strict=True
    ):
        before = topic.ends()
        for word in words:
            assert 0 == command(site, word, row, "--json")
            ids.add(json.loads(capsys.readouterr().out)["operation"]["id"])
        assert {**before, partition: before[partition] + len(words)} == topic.ends()
    assert 5 == len(ids)
    topic.close()
    rebuild_store(folder, settings, brokers=site.brokers)
    left = opened(site.path).record.listed("tasks", TaskRow, newest="updated", limit=100)
    assert {row.id for row in rows} - set(of_partition.values()) == {row.id for row in left}


def test_another_topic_and_no_broker_append_nothing(
    made: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A store of other topics, brokers that do not answer, an address that is none: one sentence each."""
    monkeypatch.setenv("LOOKFIRST_KAFKA_ANSWER", "1")
    row, end = task(made).id, made.topic("operations").ends()
    files = tmp_path / "files"
    scripted(files, lines_of(3))
    (other, *_) = opened(files).record.arrow("tasks")["id"].to_pylist()
    for code, said, given in (
        (1, "The store was filled from topic", [other, "--brokers", made.brokers, "--data", str(files)]),
        (1, "no broker answers at 127.0.0.1:1", [row, "--brokers", "127.0.0.1:1", "--data", str(made.path)]),
        (2, "'nowhere' is no broker", [row, "--brokers", "nowhere", "--data", str(made.path)]),
    ):
        capsys.readouterr()
        assert code == main(["delete", *given])
        out, err = capsys.readouterr()
        assert ("", 1) == (out, err.count("\n"))
        assert said in err
    assert end == made.topic("operations").ends()


def test_without_brokers_it_says_so(made: Site, capsys: Captured) -> None:
    """A folder whose topics are on brokers: edit and produce ask for them, and make no topic file."""
    row = task(made).id
    for words in (["delete", row], ["produce", __file__]):
        assert 2 == main([*words, "--data", str(made.path)])
        assert "are on brokers; name them with --brokers" in capsys.readouterr().err
    assert not (made.path / "topics").exists()

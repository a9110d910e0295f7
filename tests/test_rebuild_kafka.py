"""The store made anew from the operations topic on brokers: equal to the live one, and never from a part."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient, TopicPartition

from connectors.kafka_client import Brokers
from connectors.kafka_topic import KafkaTopic
from connectors.message import Outgoing
from flows.apply_run import ApplyRun
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.decide_run import DecideRun
from flows.judge.contract import Judge
from flows.judge.rules import RulesJudge
from flows.rebuild import REBUILDING, rebuild_store
from flows.tally import Tally
from store.schema import Settings, StoreError, TopicError, load_settings
from tests.broker import fresh_prefix
from tests.kafka_process import Site
from tests.sample import EVENTS, SAMPLE, opened, run_embedded, sample_lines
from tests.workplace import rows_of

pytestmark = pytest.mark.broker

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def site(tmp_path: Path, brokers: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A folder with topics of its own, whose prefix the commands of this process know, too."""
    with Site.at(tmp_path / "data", brokers) as made:
        monkeypatch.setenv("LOOKFIRST_TOPIC_PREFIX", made.prefix)
        yield made


def settings_of(site: Site) -> Settings:
    """Settings for runs in this process."""
    return Settings(topic_prefix=site.prefix, epoch=0.1, kafka_answer=20)


def applied(site: Site) -> Tally:
    """Apply what is in the topic now."""
    settings = settings_of(site)
    folder, at = DataFolder.at(site.path, settings), Brokers.at(site.brokers, settings)
    return ApplyRun(folder, settings, at, print, until_end=True).run()


def ran(site: Site, judge: Judge) -> Tally:
    """Decide what is in the topic now, and apply it."""
    settings = settings_of(site)
    folder, at = DataFolder.at(site.path, settings), Brokers.at(site.brokers, settings)
    applied(site)
    tally = DecideRun(folder, settings, at, print, until_end=True, judge=judge).run()
    applied(site)
    return tally


def topic_of(site: Site, name: str, partitions: int) -> KafkaTopic:
    """A topic that is made here."""
    with KafkaAdminClient(bootstrap_servers=site.brokers) as admin:
        admin.create_topics(
            {name: {"num_partitions": partitions, "replication_factor": 1}}, wait_for_metadata=True
        )
    return KafkaTopic(Brokers.at(site.brokers, settings_of(site)), name)


@pytest.mark.promise("T7")
def test_the_store_is_equal_to_the_live_one(site: Site, tmp_path: Path, capsys: Captured) -> None:
    """The sample, decided on Kafka and edited: rebuilt in its place and in a new folder, the rows are the same."""
    at = ["--brokers", site.brokers, "--data"]
    assert 0 == main(["produce", str(SAMPLE / "events.jsonl"), "--brokers", site.brokers])
    assert EVENTS == ran(site, RulesJudge()).decided
    task = site.rows()["tasks"][0]
    assert 0 == main(["edit", task["id"], "--title", "By hand", *at, str(site.path)])
    site.topic("operations").append([Outgoing(None, "{}")])
    applied(site)
    before = site.rows()
    assert "By hand" in {row["title"] for row in before["tasks"]}

    capsys.readouterr()
    assert 0 == main(["rebuild", "store", *at, str(site.path), "--json"])
    counts = json.loads(capsys.readouterr().out)
    assert (EVENTS + 2, 1, EVENTS) == (counts["messages"], counts["unreadable"], counts["events"])
    assert before == site.rows()
    assert not (site.path / REBUILDING).exists()
    assert 0 == applied(site).applied

    assert 0 == main(["rebuild", "store", *at, str(tmp_path / "other")])
    assert before == rows_of(opened(tmp_path / "other"))


def test_operations_of_several_partitions(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same operations in three partitions make the same rows, and each has its position."""
    settings = load_settings()
    run_embedded(tmp_path / "files", sample_lines(), paced=False)
    operations = DataFolder.at(tmp_path / "files", settings).topic("operations")
    monkeypatch.setenv("LOOKFIRST_TOPIC_PREFIX", prefix := fresh_prefix())
    topic = topic_of(site, f"{prefix}.operations", 3)
    for found in operations.walk():
        topic.append([Outgoing(each.key, each.value) for each in found])
    ends = topic.ends()
    topic.close()
    assert 0 not in ends.values()

    settings = load_settings()
    rebuilt = rebuild_store(DataFolder.at(site.path, settings), settings, brokers=site.brokers)
    assert EVENTS == rebuilt.messages
    store = opened(site.path)
    assert rows_of(opened(tmp_path / "files")) == rows_of(store)
    places = [place for place in store.record.positions() if place.part == "record"]
    assert ends == {place.partition: place.next_offset for place in places}


def test_a_topic_that_was_cut_is_refused(site: Site, capsys: Captured) -> None:
    """Its first message was deleted: one sentence, and the store stays as it is."""
    site.topic("operations").append([Outgoing("default/t", "{}") for _ in range(3)])
    applied(site)
    name = site.topic("operations").name
    with KafkaAdminClient(bootstrap_servers=site.brokers) as admin:
        admin.delete_records({TopicPartition(name, 0): 2})
    before = [place.next_offset for place in opened(site.path).record.positions()]
    capsys.readouterr()
    for folder in (site.path, site.path.with_name("none")):
        assert 1 == main(["rebuild", "store", "--brokers", site.brokers, "--data", str(folder)])
        out, err = capsys.readouterr()
        assert ("", 1) == (out, err.count("\n"))
        assert f"Partition 0 of the topic {name} at {site.brokers} begins at offset 2 and no longer at 0" in err
    assert before == [place.next_offset for place in opened(site.path).record.positions()]
    assert not site.path.with_name("none").exists()


def test_what_does_not_belong_together_is_refused(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A topic that is not there, a folder of files beside brokers, and one of brokers without them."""
    applied(site)
    folder = DataFolder.at(site.path, settings_of(site))
    with pytest.raises(StoreError, match="is filled from a topic on brokers; name them with --brokers"):
        rebuild_store(folder, settings_of(site))
    assert not (site.path / "topics").exists()

    run_embedded(tmp_path / "files", sample_lines()[:5], paced=False)
    before = rows_of(opened(tmp_path / "files"))
    assert 1 == main(["rebuild", "store", "--brokers", site.brokers, "--data", str(tmp_path / "files")])
    assert "The store was filled from topic" in capsys.readouterr().err
    assert before == rows_of(opened(tmp_path / "files"))

    absent = Settings(topic_prefix="test-of-nobody", kafka_answer=20)
    with pytest.raises(TopicError, match="lookfirst topics create"):
        rebuild_store(DataFolder.at(tmp_path / "new", absent), absent, brokers=site.brokers)
    assert not (tmp_path / "new").exists()

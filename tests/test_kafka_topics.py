"""`lookfirst topics create`: topics as a run needs them, each difference with its remedy, what forbids a run."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from connectors.kafka_admin import TopicsReport, create_topics, topic_faults
from connectors.kafka_client import Brokers
from connectors.kafka_rules import differences, duration, megabytes, rules
from connectors.kafka_topic import KafkaTopic
from connectors.message import Outgoing
from flows.cli.main import main
from store.schema import Settings, TopicError
from tests.broker import fresh_prefix, make_topics

Captured = pytest.CaptureFixture[str]

BY_ARRIVAL = {"message.timestamp.type": "LogAppendTime"}
FOR_EVER = {"retention.ms": "-1", "retention.bytes": "-1", "cleanup.policy": "delete"}
LARGE = {"max.message.bytes": "8010000"}


@pytest.fixture
def prefix() -> str:
    """A prefix of topics that nobody else has."""
    return fresh_prefix()


@pytest.fixture
def admin(brokers: str) -> Iterator[KafkaAdminClient]:
    """Somebody who sets topics up by hand."""
    with KafkaAdminClient(bootstrap_servers=brokers) as client:
        yield client


def at(brokers: str, **settings: Any) -> Brokers:
    """The brokers of the tests."""
    return Brokers.at(brokers, Settings(**settings))


def settings_of(admin: KafkaAdminClient, topic: str) -> dict[str, str]:
    """The settings of a topic that differ from the broker's, as the broker says."""
    found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])["topic"][topic]
    return {name: each["value"] for name, each in found.items()}


def made_by_hand(admin: KafkaAdminClient, topic: str, partitions: int = 1, **configs: str) -> None:
    """A topic as somebody else would set it up; in names of settings `_` stands for a dot."""
    dotted = {name.replace("_", "."): value for name, value in configs.items()}
    admin.create_topics({topic: {"num_partitions": partitions, "configs": dotted}}, wait_for_metadata=True)


def said(report: TopicsReport, *, forbids: bool) -> list[str]:
    """The differences that forbid a run, or the others."""
    return [each.said for each in report.differences if each.forbids == forbids]


@pytest.mark.broker
def test_missing_topics_are_made_as_a_run_needs_them(brokers: str, prefix: str, admin: KafkaAdminClient) -> None:
    """Events by arrival in so many partitions, operations and dead letters for ever in one; a run may begin."""
    report = create_topics(at(brokers), prefix, partitions=5)
    assert report.is_fit
    assert () == report.differences
    assert (f"{prefix}.events keeps events for 7 days; a replay reaches as far back as that.",) == report.notes
    assert [(f"{prefix}.events", 5), (f"{prefix}.operations", 1), (f"{prefix}.dead-letters", 1)] == [
        (each.name, each.partitions) for each in report.topics
    ]
    assert all(each.made and each.replicas == 1 and not each.altered for each in report.topics)
    events = settings_of(admin, f"{prefix}.events")
    assert BY_ARRIVAL.items() <= events.items()
    assert not {"retention.ms", "retention.bytes", "max.message.bytes"} & events.keys()
    for name in ("operations", "dead-letters"):
        assert (BY_ARRIVAL | FOR_EVER | LARGE).items() <= settings_of(admin, f"{prefix}.{name}").items()
    assert [] == topic_faults(at(brokers), prefix)


@pytest.mark.broker
def test_the_largest_operation_fits(brokers: str, prefix: str) -> None:
    """What a producer lets through, the topics take, also when nothing of it can be compressed."""
    asked = at(brokers, kafka_compression="none", operation_megabytes=2)
    create_topics(asked, prefix)
    for name in ("operations", "dead-letters"):
        topic = KafkaTopic(asked, f"{prefix}.{name}")
        try:
            assert 0 == topic.append([Outgoing("thread", "x" * 1_999_800, {"header": "y" * 50})]).offset
            with pytest.raises(TopicError, match="Cannot append"):
                topic.append([Outgoing("thread", "x" * 2_000_100)])
        finally:
            topic.close()


@pytest.mark.broker
def test_large_events_have_room_where_they_are_wanted(brokers: str, prefix: str, admin: KafkaAdminClient) -> None:
    """A new topic takes events as large as the setting says, also beyond the broker's own limit."""
    report = create_topics(at(brokers, message_kilobytes=3_000), prefix)
    assert () == report.differences
    assert "3010000" == settings_of(admin, f"{prefix}.events")["max.message.bytes"]


@pytest.mark.broker
def test_a_second_call_changes_nothing(brokers: str, prefix: str, admin: KafkaAdminClient) -> None:
    """Topics that are right are found right; with fewer partitions than asked there is a note and no fault."""
    create_topics(at(brokers), prefix, partitions=2)
    before = admin.describe_topics([f"{prefix}.events"])
    report = create_topics(at(brokers), prefix, partitions=3, replication=2, alter=True)
    assert report.is_fit
    assert not any(each.made or each.altered for each in report.topics)
    assert before == admin.describe_topics([f"{prefix}.events"])
    assert (
        f"{prefix}.events has 2 partitions, not 3; they are left as they are, because with more of them the "
        "events of a thread would stand in two."
    ) in report.notes
    assert f"{prefix}.operations has a replication of 1, not 2; Kafka's own tools change that." in report.notes


@pytest.mark.broker
def test_differences_are_told_with_their_remedy_and_altered_when_asked(
    brokers: str, prefix: str, admin: KafkaAdminClient
) -> None:
    """Topics set up by hand: a sentence for each difference, nothing changed; with `alter`, all is right."""
    made_by_hand(admin, f"{prefix}.events", cleanup_policy="compact")
    made_by_hand(admin, f"{prefix}.operations", 3, retention_ms="604800000", retention_bytes="1000000000")
    made_by_hand(admin, f"{prefix}.dead-letters", retention_ms="5400000", max_message_bytes="9000000")
    report = create_topics(at(brokers), prefix, partitions=1)
    by, events, operations = (
        "`lookfirst topics create --alter` sets it to",
        f"{prefix}.events",
        f"{prefix}.operations",
    )
    assert [
        f"{events} has message.timestamp.type=CreateTime, so producers would say when events arrived; "
        f"{by} LogAppendTime.",
        f"{operations} has message.timestamp.type=CreateTime, so producers would say when operations arrived; "
        f"{by} LogAppendTime.",
        f"{events} has cleanup.policy=compact, so all but the last of the events of a thread would be lost; "
        f"{by} delete.",
        f"{operations} has retention.ms=604800000, so operations would be lost after 7 days; {by} -1.",
        f"{operations} has retention.bytes=1000000000, so operations beyond the newest 1,000 MB would be lost; "
        f"{by} -1.",
        f"{operations} has max.message.bytes=1048588, so operations of 8 MB would be refused; {by} 8010000.",
    ] == said(report, forbids=True)
    assert [
        f"{prefix}.dead-letters has message.timestamp.type=CreateTime, so producers would say when dead letters "
        f"arrived; {by} LogAppendTime.",
        f"{prefix}.dead-letters has retention.ms=5400000, so dead letters would be lost after 1.5 hours; {by} -1.",
    ] == said(report, forbids=False)
    assert said(report, forbids=True) == topic_faults(at(brokers), prefix)
    assert not report.is_fit
    assert "604800000" == settings_of(admin, operations)["retention.ms"]

    report = create_topics(at(brokers), prefix, partitions=1, alter=True)
    assert () == report.differences
    assert {
        events: {"message.timestamp.type", "cleanup.policy"},
        operations: {"message.timestamp.type", "retention.ms", "retention.bytes", "max.message.bytes"},
        f"{prefix}.dead-letters": {"message.timestamp.type", "retention.ms"},
    } == {each.name: set(each.altered) for each in report.topics}
    assert [
        f"What was written to {events} before keeps the time that its producers gave it.",
        f"What was written to {operations} before keeps the time that its producers gave it.",
        f"What was written to {prefix}.dead-letters before keeps the time that its producers gave it.",
        f"{operations} has 3 partitions where one is meant: one writer applies operations, and their order is the "
        "truth.",
    ] == list(report.notes[:-1])
    assert BY_ARRIVAL | FOR_EVER | LARGE == settings_of(admin, operations) | {"cleanup.policy": "delete"}
    assert "9000000" == settings_of(admin, f"{prefix}.dead-letters")["max.message.bytes"]
    assert [] == topic_faults(at(brokers), prefix)


@pytest.mark.broker
def test_somebody_else_makes_a_topic_at_the_same_moment(brokers: str, prefix: str) -> None:
    """Six at once: each topic is made by one of them, and all are content."""
    reports: list[TopicsReport] = []
    together = threading.Barrier(6)

    def make() -> None:
        together.wait()
        reports.append(create_topics(at(brokers), prefix))

    makers = [threading.Thread(target=make) for _ in range(6)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert 6 == len(reports)
    assert all(report.is_fit for report in reports)
    made = sorted(state.name for report in reports for state in report.topics if state.made)
    assert [f"{prefix}.dead-letters", f"{prefix}.events", f"{prefix}.operations"] == made


@pytest.mark.broker
def test_what_cannot_be_made_is_one_sentence(brokers: str, prefix: str) -> None:
    """Two copies on one broker: the topic is named, with what the broker says."""
    with pytest.raises(TopicError, match=rf"The topic {prefix}.events cannot be made: .*replicat.*[^.]\.$"):
        create_topics(at(brokers), prefix, replication=2)


@pytest.mark.broker
def test_faults_of_topics_that_are_missing_or_made_by_the_tests(
    brokers: str, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing topic is somebody else's business, and what the other tests use is fit for a run."""
    assert [] == topic_faults(at(brokers), prefix)
    make_topics(brokers, prefix)
    assert [] == topic_faults(at(brokers), prefix)
    assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.broker
def test_the_command_line_for_people(
    brokers: str, prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured, admin: KafkaAdminClient
) -> None:
    """A table, the sentences beneath it, and 1 while something forbids a run; `--alter` mends it."""
    monkeypatch.setenv("LOOKFIRST_TOPIC_PREFIX", prefix)
    monkeypatch.setenv("LOOKFIRST_BROKERS", brokers)
    made_by_hand(
        admin, f"{prefix}.operations", message_timestamp_type="LogAppendTime", max_message_bytes="8388608"
    )
    assert 1 == main(["topics", "create", "--partitions", "2"])
    out = capsys.readouterr().out
    assert [
        f"{prefix}.events made 2 1 7 days of arrival 1.05 MB",
        f"{prefix}.operations there 1 1 7 days of arrival 8.39 MB",
        f"{prefix}.dead-letters made 1 1 for ever of arrival 8.01 MB",
    ] == [" ".join(line.split()) for line in out.splitlines() if line.startswith(f" {prefix}.")]
    assert "so operations would be lost after 7 days; `lookfirst topics create --alter` sets it to -1." in out
    assert 0 == main(["topics", "create", "--partitions", "2", "--alter"])
    assert f"{prefix}.operations    altered" in capsys.readouterr().out


@pytest.mark.broker
def test_the_command_line_for_programs(
    brokers: str, prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: Captured, admin: KafkaAdminClient
) -> None:
    """One object with the topics, the differences and the notes."""
    monkeypatch.setenv("LOOKFIRST_TOPIC_PREFIX", prefix)
    made_by_hand(admin, f"{prefix}.operations", cleanup_policy="compact,delete")
    assert 1 == main(["topics", "create", "--brokers", brokers, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert not told["fit"]
    assert [f"{prefix}.events", f"{prefix}.operations", f"{prefix}.dead-letters"] == [
        each["name"] for each in told["topics"]
    ]
    assert {"message.timestamp.type", "cleanup.policy", "retention.ms", "max.message.bytes"} == {
        each["config"] for each in told["differences"]
    }
    assert 8 == told["topics"][0]["partitions"]
    assert "compact,delete" == told["topics"][1]["configs"]["cleanup.policy"]


def test_how_long_and_how_much() -> None:
    """Times and sizes as people say them."""
    assert ["7 days", "1 day", "1.5 hours", "2 minutes", "1 second", "20 milliseconds"] == [
        duration(each) for each in ("604800000", "86400000", "5400000", "120000", "1000", "20")
    ]
    assert ["8.01 MB", "1.05 MB", "0.9 MB", "1,073.74 MB", "20,000,000 MB"] == [
        megabytes(each) for each in ("8010000", "1048588", "900000", "1073741824", "20000000000000")
    ]


def test_a_topic_set_up_by_the_rules_has_no_difference() -> None:
    """The values that are told as remedies satisfy their own rules, and what is not known is no difference."""
    known: dict[str, Mapping[str, str]] = {f"p.{name}": {} for name in ("events", "operations", "dead-letters")}
    assert [] == list(differences("p", known, Settings()))
    for rule in rules(Settings()):
        known[f"p.{rule.topic}"] = {**known[f"p.{rule.topic}"], rule.config: rule.value}
    assert [] == list(differences("p", known, Settings()))

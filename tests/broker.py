"""A real Kafka for tests: one broker for the session, and topics of a prefix of its own for each test."""

from __future__ import annotations

import itertools
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NoReturn

import pytest
from kafka.admin import KafkaAdminClient

from connectors.dev_broker import DevBroker
from connectors.kafka_jars import default_cache, resolve_jars
from store.schema import LookfirstError

POM: Final = Path(__file__).resolve().parent.parent / "deploy" / "kafka" / "pom.xml"

_count = itertools.count(1)
_session = secrets.token_hex(3)


def kafka_jars() -> Path:
    """The folder with Kafka's jars; where it cannot be had, the test is skipped, and fails in CI."""
    try:
        return resolve_jars(POM, default_cache(), print)
    except LookfirstError as error:
        _missing(error)


@pytest.fixture(scope="session")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a broker that all tests share: the one in LOOKFIRST_TEST_BROKERS, or one of this session."""
    if named := os.environ.get("LOOKFIRST_TEST_BROKERS"):
        yield named
        return
    broker = DevBroker(tmp_path_factory.mktemp("kafka"), jars=kafka_jars())
    try:
        broker.start()
    except LookfirstError as error:
        _missing(error)
    try:
        yield broker.brokers
    finally:
        broker.stop()


def fresh_prefix() -> str:
    """A prefix of topics that no other test has, in this session or another one on the same broker."""
    return f"test-{_session}-{next(_count)}"


def make_topics(brokers: str, prefix: str, partitions: int = 3) -> None:
    """`<prefix>.events`, `.operations` and `.dead-letters`, as a run wants them; usable on return."""
    by_arrival = {"message.timestamp.type": "LogAppendTime"}
    large = {"max.message.bytes": str(8 << 20)}
    kept = {"retention.ms": "-1", "cleanup.policy": "delete"}
    wanted = {
        f"{prefix}.events": _topic(partitions, by_arrival),
        f"{prefix}.operations": _topic(1, by_arrival | large | kept),
        f"{prefix}.dead-letters": _topic(1, by_arrival | large),
    }
    with KafkaAdminClient(bootstrap_servers=brokers) as admin:
        admin.create_topics(wanted, wait_for_metadata=True)


def _topic(partitions: int, configs: dict[str, str]) -> dict[str, object]:
    return {"num_partitions": partitions, "replication_factor": 1, "configs": configs}


def _missing(error: LookfirstError) -> NoReturn:
    reason = f"there is no Kafka to test with: {error}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)

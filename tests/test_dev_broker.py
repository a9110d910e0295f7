"""A real Kafka on this machine: what it keeps, how it ends, and what is said when it cannot be had."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from connectors.dev_broker import HOST, DevBroker, free_port
from connectors.kafka_jars import java_command, resolve_jars
from store.schema import LookfirstError
from tests.broker import POM, fresh_prefix, kafka_jars, make_topics
from tests.conftest import REPOSITORY

_PATIENCE = 30.0
"""Time after which something that should have happened did not (s)."""


@pytest.fixture
def broker(tmp_path: Path) -> DevBroker:
    """One that is not started, over a folder of its own."""
    return DevBroker(tmp_path / "kafka", jars=kafka_jars())


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Put a program on a PATH that has nothing else: its name and what its shell script does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    def put(name: str, script: str) -> None:
        path = folder / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        path.chmod(0o755)

    return put


@pytest.mark.broker
@pytest.mark.parametrize("ended", [DevBroker.stop, DevBroker.kill])
def test_what_was_written_is_there_after_another_start(
    broker: DevBroker, ended: Callable[[DevBroker], None]
) -> None:
    """A broker that was stopped or killed comes back at the same address with its topics and their records."""
    with broker:
        address, topic = broker.brokers, f"{(prefix := fresh_prefix())}.events"
        make_topics(address, prefix)
        with KafkaProducer(bootstrap_servers=address) as producer:
            sent = producer.send(topic, key=b"w/t", value=b"hello", partition=1).get(_PATIENCE)
        ended(broker)
        assert not _answers(broker.port)
        broker.start()
        assert address == broker.brokers
        with KafkaConsumer(bootstrap_servers=address, auto_offset_reset="none") as consumer:
            place = TopicPartition(topic, sent.partition)
            consumer.assign([place])
            consumer.seek(place, sent.offset)
            (record,) = _polled(consumer, place)
    assert (b"w/t", b"hello", 1) == (record.key, record.value, record.timestamp_type)
    assert not _answers(broker.port)


@pytest.mark.broker
def test_a_broker_ends_with_the_process_that_started_it(broker: DevBroker) -> None:
    """A killed test or a killed command leaves no broker behind."""
    script = (
        "import os, signal, sys; from pathlib import Path; from connectors.dev_broker import DevBroker\n"
        "DevBroker(Path(sys.argv[1]), jars=Path(sys.argv[2]), port=int(sys.argv[3])).start()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", script, str(broker.folder), str(kafka_jars()), str(broker.port)]
    assert -signal.SIGKILL == subprocess.run(command, cwd=REPOSITORY).returncode
    _until(lambda: not _answers(broker.port))
    # The folder is let go of as well.
    with broker:
        assert _answers(broker.port)


@pytest.mark.broker
def test_one_broker_for_a_folder_and_one_for_a_port(broker: DevBroker) -> None:
    """The second one says what is in its way, and the first one goes on."""
    with broker:
        other = DevBroker(broker.folder, jars=kafka_jars())
        with pytest.raises(
            LookfirstError, match=r"Another broker runs in .*/kafka; stop it, or name another folder"
        ):
            other.start()
        other = DevBroker(broker.folder.parent / "other", jars=kafka_jars(), port=broker.port)
        with pytest.raises(LookfirstError, match=f"Port {broker.port} of 127.0.0.1 is in use; stop what uses it"):
            other.start()
        make_topics(broker.brokers, fresh_prefix())


@pytest.mark.broker
def test_a_listener_that_wants_a_password(tmp_path: Path) -> None:
    """Other listeners are set up by properties, and who may log in by arguments of the first start."""
    port, asks = free_port(), free_port()
    listeners = f"PLAINTEXT://{HOST}:{port},SASL_PLAINTEXT://{HOST}:{asks}"
    properties = {
        "listeners": listeners,
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    users = ("--add-scram", "SCRAM-SHA-256=[name=ann,password=not-a-secret]")
    with DevBroker(
        tmp_path, jars=kafka_jars(), port=port, properties=properties, format_arguments=users
    ) as broker:
        make_topics(broker.brokers, prefix := fresh_prefix())
        with KafkaProducer(
            bootstrap_servers=f"{HOST}:{asks}",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-256",
            sasl_plain_username="ann",
            sasl_plain_password="not-a-secret",  # noqa: S106  the broker of this test alone knows it
        ) as producer:
            assert 0 == producer.send(f"{prefix}.operations", b"hello").get(_PATIENCE).offset


@pytest.mark.broker
def test_a_setting_that_kafka_refuses_is_told(tmp_path: Path) -> None:
    """A broker that does not come up says what its log says, and ends."""
    broker = DevBroker(tmp_path, jars=kafka_jars(), properties={"num.io.threads": "none"})
    with pytest.raises(LookfirstError, match=r"num\.io\.threads"):
        broker.start()
    assert not _answers(broker.port)


@pytest.mark.broker
def test_the_command_runs_a_broker_until_it_is_told_to_stop(tmp_path: Path) -> None:
    """`lookfirst dev-broker` says the address and the log, and ends with 0 on SIGTERM; a port in use is told."""
    kafka_jars()
    port = free_port()
    command = [sys.executable, "-m", "flows.cli.main", "dev-broker", "--folder", str(tmp_path)]
    command += ["--port", str(port)]
    running = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stderr is not None
        said = running.stderr.readline()
        assert f"answers at 127.0.0.1:{port} until Ctrl-C; its log is {tmp_path}/broker.log." in said
        second = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
        assert (1, f"Port {port} of 127.0.0.1 is in use; stop what uses it, or take another.\n") == (
            second.returncode,
            second.stderr,
        )
        running.terminate()
        rest = running.communicate(timeout=_PATIENCE)[1]
    finally:
        running.kill()
        running.communicate()
    assert (0, "Stopped.") == (running.returncode, rest.splitlines()[-1])
    assert not _answers(port)


def test_without_java(programs: Callable[[str, str], None], tmp_path: Path) -> None:
    """That Java is missing or too old is one sentence, before anything is fetched or made."""
    broker = DevBroker(tmp_path / "kafka", jars=tmp_path)
    for ask in (broker.start, lambda: resolve_jars(POM, tmp_path / "cache", print)):
        with pytest.raises(LookfirstError, match="needs Java 17 or newer, and there is no `java` on the PATH"):
            ask()
    assert not broker.folder.exists()
    programs("java", "echo 'openjdk version \"11.0.2\" 2019-01-15' >&2")
    with pytest.raises(LookfirstError, match=r"needs Java 17 or newer, and .*/java is 11; set JAVA_HOME"):
        java_command()


def test_without_maven(programs: Callable[[str, str], None], tmp_path: Path) -> None:
    """Maven is asked for when it is needed: for an empty cache; what it says when it fails is told."""
    programs("java", "echo 'openjdk version \"17.0.1\" 2021-10-19' >&2")
    cache = tmp_path / "cache"
    with pytest.raises(LookfirstError, match="is fetched by Maven, once, and there is no `mvn` on the PATH"):
        resolve_jars(POM, cache, print)
    programs("mvn", "echo '[ERROR] Kafka is nowhere to be had'; echo '[ERROR] Run me again with -e'; exit 1")
    with pytest.raises(LookfirstError, match=r"Maven could not fetch Kafka .*: Kafka is nowhere to be had$"):
        resolve_jars(POM, cache, print)
    assert ["lock"] == [path.name for path in cache.iterdir()]


def test_two_starters_fetch_once(programs: Callable[[str, str], None], tmp_path: Path) -> None:
    """Whoever comes second waits for the first and takes what it has fetched."""
    programs("java", "echo 'openjdk version \"21\" 2023-09-19' >&2")
    programs(
        "mvn",
        f"echo called >> {tmp_path}/calls; sleep 0.3\n"
        'for each in "$@"; do case "$each" in -DoutputDirectory=*) to="${each#*=}";; esac; done\n'
        'mkdir "$to"; touch "$to/kafka_2.13-4.jar"',
    )
    told: list[str] = []
    with ThreadPoolExecutor(2) as starters:
        found = list(starters.map(lambda _: resolve_jars(POM, tmp_path / "cache", told.append), range(2)))
    assert 1 == len(told)
    assert "called\n" == (tmp_path / "calls").read_text()
    assert found[0] == found[1]
    assert ["kafka_2.13-4.jar"] == [path.name for path in found[0].iterdir()]


def _polled(consumer: KafkaConsumer, place: TopicPartition) -> list:
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        if found := consumer.poll(timeout_ms=500).get(place):
            return found
    raise AssertionError(f"nothing came from {place}")


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1):
        return True
    return False


def _until(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + _PATIENCE
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)

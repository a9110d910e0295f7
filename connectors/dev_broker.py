"""A real Apache Kafka for tests and trials, without Docker: one node as a subprocess.

It is for one machine and one person: plain text on the loopback address, one copy of everything, a small heap.
"""

from __future__ import annotations

import base64
import errno
import fcntl
import json
import os
import random
import re
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from connectors.kafka_jars import java_command
from store.schema import LookfirstError

HOST: Final = "127.0.0.1"
_STARTING: Final = 60.0
"""Time a broker may take until it answers (s)."""
_STOPPING: Final = 20.0
"""Time a broker may take to stop in order, before it is killed (s)."""
_POLL: Final = 0.02

_PORTS: Final = range(20_000, 32_000)
"""Where free ports are looked for: below those that systems give to outgoing connections. While a broker is down
its port must not be given away, and a client that knocks there must not meet itself."""

_JVM: Final = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
"""Starting fast counts for more than throughput here."""

_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")

_ONE_OF_EVERYTHING: Final[Mapping[str, str]] = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # After a kill the controller takes the broker in again when the session of the one before is over.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": str(2 << 20),
}

_STARTED: Final = "Kafka Server started"
"""What the broker logs when its listeners are open and the controller has taken it in."""

_LOGGING: Final = """\
status = warn
shutdownHook = disable
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = %d{ISO8601} %p %m (%c{1})%n
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
# It lists every setting several times a start; what was set stands in server.properties.
logger.settings.name = org.apache.kafka.common.config
logger.settings.level = warn
"""

# The shell becomes the broker, so its process id is the broker's. Beside it stays one that reads from a pipe whose
# other end this process holds: a line means that the broker was stopped, the end of the pipe that this process is
# no more, however it ended.
_WATCHED: Final = """\
exec 3<&0 </dev/null
(
    read -r _ && exit
    kill -TERM $$
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        sleep 1
        kill -0 $$ 2>/dev/null || exit
    done
    kill -KILL $$
) <&3 &
exec "$@" 3<&-
"""


class DevBroker:
    """One broker over a folder: what was written is there again after `stop` or `kill` and another `start`.

    `properties` override or add to the broker's own. Other `listeners` than plain text on `port` may be named (one
    of them on `port`, the others on a `free_port()`); the controller's is added. `format_arguments` are for the
    first start over a folder, such as `--add-scram`. Relative paths in either start at the folder. The port is
    chosen once when it is 0, and stays.

    The broker ends with this process, also when it is killed: a small shell beside it waits for that. It does not
    notice while a fork of this process lives on. `start` raises LookfirstError when Java is missing, the port is
    taken, another broker runs in the folder, or this one does not come up.
    """

    def __init__(
        self,
        folder: Path,
        *,
        jars: Path,
        port: int = 0,
        properties: Mapping[str, str] | None = None,
        format_arguments: Sequence[str] = (),
    ) -> None:
        self.folder = folder.resolve()
        self.port = port or free_port()
        self._jars = jars.resolve()
        self._properties = dict(properties or {})
        named = re.findall(r":(\d+)", self._properties.get("listeners", ""))
        self._controller = free_port(besides={self.port, *map(int, named)})
        self._format_arguments = tuple(format_arguments)
        self._process: subprocess.Popen[bytes] | None = None
        self._held: int | None = None
        """The lock of the folder, open while the broker runs."""

    @property
    def brokers(self) -> str:
        """HOST:PORT, for clients."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The log since the last start; that of the start before is beside it."""
        return self.folder / "broker.log"

    def start(self) -> None:
        """Return when the broker answers; nothing is done while it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self._end()
        java = java_command()
        _check_free(self.port)
        try:
            self._hold()
            self._prepare()
            self._format(java)
            self._process = self._run(java)
            self._wait_until_started(self._process)
        except OSError as error:
            self._end()
            raise LookfirstError(f"Kafka cannot use the folder {self.folder}: {error.strerror}.") from error
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        """Stop in order, or kill what does not stop in 20 s, or at once when interrupted."""
        process = self._process
        if process is None:
            return
        try:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOPPING)
        finally:
            self._end()

    def kill(self) -> None:
        """End it as a crash would."""
        self._end()

    def wait(self) -> None:
        """Return when the broker has ended by itself; raises LookfirstError with the reason in its log."""
        if self._process is not None:
            code = self._process.wait()
            raise LookfirstError(f"Kafka ended with {code}: {self._reason()}; see {self.log}.")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _hold(self) -> None:
        """Take the folder, before anything in it is changed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._held = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise LookfirstError(
                f"Another broker runs in {self.folder}; stop it, or name another folder."
            ) from error

    def _prepare(self) -> None:
        (self.folder / "log4j2.properties").write_text(_LOGGING, encoding="ascii")
        lines = "".join(f"{name}={_escaped(value)}\n" for name, value in self._settings().items())
        written = self.folder / "server.properties"
        # It may hold passwords of listeners.
        written.touch(0o600)
        written.chmod(0o600)
        written.write_text(lines, encoding="ascii")
        with suppress(FileNotFoundError):
            self.log.replace(self.log.with_name("broker.before.log"))

    def _settings(self) -> dict[str, str]:
        given = {
            "listeners": f"PLAINTEXT://{self.brokers}",
            "listener.security.protocol.map": ",".join(f"{each}:{each}" for each in _PROTOCOLS),
            "auto.create.topics.enable": "false",
            **_ONE_OF_EVERYTHING,
            **self._properties,
        }
        return {
            **given,
            "process.roles": "broker,controller",
            "node.id": "1",
            "log.dirs": "data",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{HOST}:{self._controller}",
            "listeners": f"{given['listeners']},CONTROLLER://{HOST}:{self._controller}",
            "listener.security.protocol.map": f"{given['listener.security.protocol.map']},CONTROLLER:PLAINTEXT",
        }

    def _format(self, java: str) -> None:
        """Give the folder its cluster id, once; the file that says so is the last that the tool writes."""
        if (self.folder / "data" / "meta.properties").exists():
            return
        ran = subprocess.run(
            [
                *self._java(java),
                "kafka.tools.StorageTool",
                "format",
                f"--cluster-id={_cluster_id()}",
                "--config=server.properties",
                *self._format_arguments,
            ],
            cwd=self.folder,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if ran.returncode:
            raise LookfirstError(f"Kafka cannot format {self.folder}: {_reason(ran.stdout + ran.stderr)}.")

    def _java(self, java: str) -> list[str]:
        logging = "-Dlog4j2.configurationFile=log4j2.properties"
        return [java, *_JVM, logging, "-cp", str(self._jars / "*")]

    def _run(self, java: str) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                ["/bin/sh", "-c", _WATCHED, "sh", *self._java(java), "kafka.Kafka", "server.properties"],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # A Ctrl-C in the terminal is for this process, which then stops the broker in order.
                process_group=0,
            )

    def _wait_until_started(self, process: subprocess.Popen[bytes]) -> None:
        until = time.monotonic() + _STARTING
        while _STARTED not in self.log.read_text(errors="replace"):
            if process.poll() is not None:
                raise LookfirstError(f"Kafka did not start: {self._reason()}; see {self.log}.")
            if time.monotonic() > until:
                raise LookfirstError(f"Kafka did not start within {_STARTING:.0f} s; see {self.log}.")
            time.sleep(_POLL)

    def _reason(self) -> str:
        return _reason(self.log.read_text(errors="replace"))

    def _end(self) -> None:
        """Kill whatever still lives, and let go of the process that watches."""
        process, self._process = self._process, None
        if process is not None:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            assert process.stdin is not None  # noqa: S101  it was started with a pipe
            with suppress(BrokenPipeError):
                process.stdin.write(b"\n")
                process.stdin.close()
        held, self._held = self._held, None
        if held is not None:
            os.close(held)


def free_port(besides: Set[int] = frozenset()) -> int:
    """A port of the loopback address that nobody listens on, out of the range that is not given away."""
    for port in random.sample(_PORTS, len(_PORTS)):
        if port not in besides:
            with suppress(OSError):
                _bind(port)
                return port
    raise LookfirstError(f"No port of {HOST} from {_PORTS.start} to {_PORTS.stop} is free.")


def _check_free(port: int) -> None:
    try:
        _bind(port)
    except OSError as error:
        why = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise LookfirstError(f"Port {port} of {HOST} {why}; stop what uses it, or take another.") from error


def _bind(port: int) -> None:
    with socket.socket() as probe:
        # As the broker does: a connection that has just ended keeps nobody out.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((HOST, port))


def _cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")


def _escaped(value: str) -> str:
    """A value as a line of Java properties takes it, which knows JSON's escapes; PEM texts have lines."""
    return json.dumps(value)[1:-1]


def _reason(log: str) -> str:
    """The innermost cause that a log of Java tells of, or its last line."""
    causes = re.findall(
        r"^(?:Caused by: |Exception in thread \S+ )?(?:\w+\.)+\w*(?:Exception|Error): (.+)", log, re.MULTILINE
    )
    return str(causes[-1]).rstrip(". ") if causes else _last(log)


def _last(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip().rstrip(".") if lines else "it said nothing"

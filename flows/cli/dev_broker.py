"""`lookfirst dev-broker`: a real Kafka on this machine, for trials, without Docker."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import click

from connectors.dev_broker import DevBroker
from connectors.kafka_jars import default_cache, kafka_version, resolve_jars
from flows.cli.console import say
from store.schema import LookfirstError

FOLDER: Final = Path("data/kafka")

_POMS: Final = (
    Path(__file__).resolve().parents[2] / "deploy" / "kafka" / "pom.xml",
    Path(sys.prefix) / "share" / "lookfirst" / "kafka" / "pom.xml",
)
"""Where the file stands that names the version of Kafka: in a clone, and where it was installed."""


@click.command("dev-broker")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=FOLDER,
    show_default=True,
    metavar="DIR",
    help="Folder with the topics and the broker's log; they are there again at the next start.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=9092,
    show_default=True,
    metavar="N",
    help="Port on 127.0.0.1.",
)
@click.option(
    "--pom",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Maven file that names the version of Kafka, instead of the one that comes with lookfirst.",
)
def dev_broker(folder: Path, port: int, pom: Path | None) -> None:
    """Run Apache Kafka on this machine until Ctrl-C, for trials: plain text, one node.

    It needs Java 17 or newer; the first start also needs Maven, which fetches Kafka once.
    """
    named = pom or _pom()
    with _quiet_end():
        jars = resolve_jars(named, default_cache(), say)
        with DevBroker(folder, jars=jars, port=port) as broker:
            say(f"Kafka {kafka_version(named)} answers at {broker.brokers} until Ctrl-C; its log is {broker.log}.")
            say(f"In another terminal: lookfirst topics create --brokers {broker.brokers}")
            broker.wait()


def _pom() -> Path:
    for path in _POMS:
        if path.is_file():
            return path
    raise LookfirstError(
        f"The file that names the version of Kafka is not at {_POMS[-1]}; name a Maven file with --pom FILE."
    )


@contextmanager
def _quiet_end() -> Iterator[None]:
    """Ctrl-C and SIGTERM are how it ends in order; a second one does not wait for the broker."""
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    except KeyboardInterrupt:
        say("Stopped.")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

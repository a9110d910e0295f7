"""`bench replay`: operations a second into an empty store, beside the bare rate of validating the same lines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from pathlib import Path

from bytewax.testing import run_main

from connectors.topic_file import TopicFile
from connectors.topic_flow import TopicSink, TopicSource
from flows.apply import StoreSink, apply
from flows.bench.decisions import decisions
from flows.data_folder import DataFolder
from flows.maintain import writer_of
from flows.parse import outgoing
from flows.tally import Tally
from flows.taps import OperationsTap, Signals
from store.schema import Decision, Settings, parse_message

_AT_ONCE = 500
"""Messages made, or read to be validated, at once (count)."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The figures of one length of the topic."""

    messages: int
    operations: int
    message_characters: int
    """Mean length of a message."""
    operations_per_second: float
    """Through the dataflow that applies: read, validated, committed by epochs, followed by memory, maintained."""
    bare_operations_per_second: float
    """Each line validated into its message, and nothing else done."""
    share_of_bare: float
    tasks: int
    """Rows of the store afterwards."""


def replay(messages: int, settings: Settings, seed: int, say: Callable[[str], None]) -> Replay:
    """Write a topic of `messages` Decisions, apply it to an empty store, then validate its lines again, bare."""
    with tempfile.TemporaryDirectory(prefix="lookfirst-bench-") as path:
        folder = DataFolder.at(Path(path), settings)
        topic = folder.topic("operations")
        say(f"writing a topic of {messages:,} decisions")
        operations = _write(topic, decisions(messages, seed, settings))
        say("applying it to an empty store")
        took = _apply(folder, topic, settings)
        say("validating the same lines, bare")
        bare, characters = _validate(topic)
        tasks = folder.store().record.count("tasks")
    return Replay(
        messages=messages,
        operations=operations,
        message_characters=round(characters / messages),
        operations_per_second=round(operations / took, 1),
        bare_operations_per_second=round(operations / bare, 1),
        share_of_bare=round(bare / took, 4),
        tasks=tasks,
    )


def _write(topic: TopicFile, made: Iterator[Decision]) -> int:
    """Append the Decisions; returns how many operations they carry."""
    operations = 0
    while batch := list(islice(made, _AT_ONCE)):
        operations += sum(len(decision.operations) for decision in batch)
        topic.append([outgoing(decision) for decision in batch])
    return operations


def _apply(folder: DataFolder, topic: TopicFile, settings: Settings) -> float:
    """Seconds that the real dataflow takes, from its start to its last commit."""
    store = folder.store(create=True)
    writer = writer_of(store, settings)
    signals = Signals.fresh()
    # Nobody decides: the source ends with the topic.
    signals.decided.set()
    tally = Tally()
    flow = apply(
        TopicSource(topic, OperationsTap(signals), settings.source_batch),
        StoreSink(writer, topic.name, topic.id, tally),
        TopicSink(folder.topic("dead-letters")),
    )
    recovery = folder.recovery_config("apply")
    start = time.perf_counter()
    run_main(flow, epoch_interval=timedelta(seconds=settings.epoch), recovery_config=recovery)
    return time.perf_counter() - start


def _validate(topic: TopicFile) -> tuple[float, int]:
    """Seconds that validating takes, and the characters that were validated; reading the file is not timed."""
    took, characters = 0.0, 0
    for found in topic.batches():
        lines = [incoming.value for incoming in found]
        start = time.perf_counter()
        for line in lines:
            parse_message(line)
        took += time.perf_counter() - start
        characters += sum(map(len, lines))
    return took, characters

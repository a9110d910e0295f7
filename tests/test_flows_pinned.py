"""What the recovery store is keyed by is pinned: a step that is renamed silently loses its state."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bytewax.dataflow import Dataflow

from connectors.kafka_client import Brokers
from connectors.kafka_flow import KafkaPlace, KafkaSink, KafkaSource, Reading
from connectors.kafka_lag import KafkaLag
from connectors.kafka_topic import KafkaTopic
from connectors.topic_file import Place, TopicFile
from connectors.topic_flow import PARTITION, TopicSink, TopicSource
from flows.apply import MEMORY, STORE, StoreSink, apply
from flows.data_folder import DataFolder
from flows.decide import bucket_of, decide
from flows.pending import Held, Judged, Pending
from flows.tally import Tally
from flows.taps import OperationsTap, Signals
from store.schema import Arrival, Coordinates, Settings
from tests.workplace import START, Workplace, event


def own_steps(flow: Dataflow) -> list[tuple[str, str]]:
    """Kind and id of the steps that a flow is wired from."""
    return [(type(step).__name__, step.step_id) for step in flow.substeps]


def stateful_steps(flow: Dataflow) -> set[tuple[str, str]]:
    """The innermost steps that the recovery store keeps something for, by the id it keeps it under."""
    stateful = {"input", "output", "stateful_batch"}
    return {(kind, step_id) for kind, step_id in _cores(flow) if kind in stateful}


def _cores(parent: Any) -> Iterator[tuple[str, str]]:
    for step in parent.substeps:
        if step.substeps:
            yield from _cores(step)
        else:
            yield type(step).__name__, step.step_id


def topic(folder: Path) -> TopicFile:
    """Any topic."""
    return TopicFile(folder, "lookfirst.events")


def source(folder: Path) -> TopicSource:
    """A source over it."""
    return TopicSource(topic(folder), OperationsTap(Signals.fresh()), 1)


@pytest.mark.promise("T14")
def test_steps_of_decide_are_pinned(workplace: Workplace, tmp_path: Path) -> None:
    """Ids of `decide`; the judge's state is what is pending, the sinks' that they were written."""
    sink = TopicSink(topic(tmp_path))
    flow = decide(source(tmp_path), workplace.desk, sink, sink, Tally(), 64)
    assert "decide" == flow.flow_id
    assert {
        ("input", "decide.events"),
        ("stateful_batch", "decide.judge"),
        ("output", "decide.operations"),
        ("output", "decide.dead-letters"),
    } == stateful_steps(flow)
    assert [
        ("input", "decide.events"),
        ("map", "decide.parse"),
        ("branch", "decide.readable"),
        ("map", "decide.thread"),
        ("stateful_batch", "decide.judge"),
        ("map", "decide.unkey"),
        ("map", "decide.settled"),
        ("flat_map", "decide.operation"),
        ("output", "decide.operations"),
        ("flat_map", "decide.unreadable"),
        ("flat_map", "decide.parked"),
        ("merge", "decide.letters"),
        ("output", "decide.dead-letters"),
    ] == own_steps(flow)


@pytest.mark.promise("T14")
def test_steps_of_apply_are_pinned(workplace: Workplace, tmp_path: Path) -> None:
    """Ids of `apply`; it keeps only where it has read to and that its sinks were written."""
    store = StoreSink(workplace.writer, "lookfirst.operations", "id", Tally())
    flow = apply(source(tmp_path), store, TopicSink(topic(tmp_path)))
    assert "apply" == flow.flow_id
    assert {
        ("input", "apply.operations"),
        ("output", "apply.store"),
        ("output", "apply.dead-letters"),
    } == stateful_steps(flow)
    assert [
        ("input", "apply.operations"),
        ("map", "apply.parse"),
        ("flat_map", "apply.parts"),
        ("output", "apply.store"),
        ("flat_map", "apply.unreadable"),
        ("output", "apply.dead-letters"),
    ] == own_steps(flow)


@pytest.mark.promise("T14")
def test_partition_names_are_pinned(workplace: Workplace, tmp_path: Path) -> None:
    """Memory's sorts after the record's: snapshots are taken in this order."""
    assert ("0", "store", "store.memory") == (PARTITION, STORE, MEMORY)
    assert [STORE, MEMORY] == sorted((MEMORY, STORE))
    assert ["0"] == source(tmp_path).list_parts() == TopicSink(topic(tmp_path)).list_parts()
    assert 0 == TopicSink(topic(tmp_path)).part_fn(PARTITION)
    store = StoreSink(workplace.writer, "lookfirst.operations", "id", Tally())
    parts = store.list_parts()
    assert ["store", "store.memory"] == parts == [parts[store.part_fn(part)] for part in parts]


@pytest.mark.promise("T14")
def test_names_on_kafka_are_pinned() -> None:
    """One part for each partition, by its number; one for each sink; and the place that is pickled."""
    topic = cast(KafkaTopic, SimpleNamespace(partitions=3))
    lag = KafkaLag(Brokers.at("127.0.0.1:1", Settings()), "lookfirst.events", "lookfirst.decide")
    made = KafkaSource(Reading(topic, 1), OperationsTap(Signals.fresh()), lag)
    assert ["0", "1", "2"] == made.list_parts()
    assert (["0"], 0) == (KafkaSink(topic).list_parts(), KafkaSink(topic).part_fn("any"))
    assert ("connectors.kafka_flow", "KafkaPlace") == (KafkaPlace.__module__, KafkaPlace.__qualname__)
    assert ["topic_id", "offset"] == [field.name for field in dataclasses.fields(KafkaPlace)]
    assert KafkaPlace("x", 3) == pickle.loads(pickle.dumps(KafkaPlace("x", 3)))  # noqa: S301


def test_recovery_partitions_are_pinned(tmp_path: Path) -> None:
    """Their number cannot change after they were made; nothing superseded is kept; making it twice is once."""
    folder = DataFolder.at(tmp_path, Settings())
    made = folder.recovery_config("decide")
    assert [f"part-{number}.sqlite3" for number in range(4)] == sorted(
        path.name for path in (tmp_path / "recovery" / "decide").iterdir()
    )
    again = folder.recovery_config("decide")
    assert (str(tmp_path / "recovery" / "decide"), timedelta(0)) == (str(made.db_dir), made.backup_interval)
    assert str(made.db_dir) == str(again.db_dir)
    assert not (tmp_path / "recovery" / "decide.making").exists()


def test_recovery_store_that_was_half_made_is_made_again(tmp_path: Path) -> None:
    """A kill while it was made leaves a folder of another name, which is emptied and used."""
    making = tmp_path / "recovery" / "apply.making"
    making.mkdir(parents=True)
    (making / "part-0.sqlite3").write_bytes(b"half")
    DataFolder.at(tmp_path, Settings()).recovery_config("apply")
    assert 4 == len(list((tmp_path / "recovery" / "apply").iterdir()))
    assert not making.exists()


def test_names_in_a_data_folder_are_pinned(tmp_path: Path) -> None:
    """Where topics, store and state are, by their names on disk."""
    folder = DataFolder.at(tmp_path, Settings())
    folder.store(create=True)
    for name in ("events", "operations", "dead-letters"):
        folder.topic(name)
    folder.recovery_config("decide")
    assert ["recovery", "store", "topics"] == sorted(path.name for path in tmp_path.iterdir())
    assert ["lookfirst.dead-letters.jsonl", "lookfirst.events.jsonl", "lookfirst.operations.jsonl"] == sorted(
        path.name for path in (tmp_path / "topics").iterdir()
    )


def test_bucket_of_a_thread_is_pinned() -> None:
    """Threads must meet their own state again, in every process and after every restart."""
    keys = [
        bucket_of(buckets)(_arrival(thread))[0]
        for buckets, thread in ((64, "t"), (64, "会议"), (1, "t"), (4096, "t"))
    ]
    assert ["0057", "0010", "0000", "1337"] == keys
    assert 64 == Settings.model_fields["buckets"].default


@pytest.mark.promise("T14")
def test_what_is_pickled_is_pinned() -> None:
    """Recovery state is pickled: the classes keep their modules, names and fields."""
    assert ("flows.pending", "Pending") == (Pending.__module__, Pending.__qualname__)
    waits = ["arrival", "attempts", "tries", "failing_since", "not_before", "rejected", "judged"]
    assert waits == [field.name for field in dataclasses.fields(Pending)]
    assert ("flows.pending", "Judged") == (Judged.__module__, Judged.__qualname__)
    assert ["span", "view", "operations"] == [field.name for field in dataclasses.fields(Judged)]
    assert ("flows.pending", "Held") == (Held.__module__, Held.__qualname__)
    assert ["key", "place"] == [field.name for field in dataclasses.fields(Held)]
    assert ("connectors.topic_file", "Place", ["offset", "byte"]) == (
        Place.__module__,
        Place.__qualname__,
        [field.name for field in dataclasses.fields(Place)],
    )
    pending = (Pending(_arrival("t"), attempts=2, not_before=START),)
    assert (pending, Place(3, 99)) == pickle.loads(pickle.dumps((pending, Place(3, 99))))  # noqa: S301


def _arrival(thread: str) -> Arrival:
    place = Coordinates(topic="lookfirst.events", offset=0)
    return Arrival(event=event("x", thread=thread), arrived=START, coordinates=place)

"""The second opinion on what a topic amounts to is the store's, too."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flows.apply import record_positions
from store import open_store
from store.commit import StoreWriter
from store.derive import Applied
from store.schema import Decision, NotATask, parse_event
from store.upkeep import Upkeep
from tests.audit import audit
from tests.oracle import rows_of_messages, rows_of_topic
from tests.process import produce, topic_path
from tests.sample import opened, run_embedded, sample_lines
from tests.strategies import applied, batches, cuts, decisions, histories
from tests.workplace import rows_of


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A free run of the sample."""
    path = tmp_path_factory.mktemp("oracle")
    run_embedded(path, sample_lines(), paced=False)
    return path


def test_oracle_and_store_agree_on_the_sample(sample: Path) -> None:
    """Read as lines of JSON and folded in plain dicts, the sample's topic gives the rows of the store."""
    assert rows_of_topic(topic_path(sample, "operations")) == rows_of(opened(sample))


def test_oracle_sees_a_row_that_is_wrong(sample: Path, tmp_path: Path) -> None:
    """One word changed in one message of the topic, or one message less, is a difference."""
    expected = rows_of(opened(sample))
    header, *lines = topic_path(sample, "operations").read_bytes().splitlines(keepends=True)
    create = next(n for n, line in enumerate(lines) if b'\\"kind\\":\\"create\\"' in line)
    message = json.loads(json.loads(lines[create])["value"])
    (title, *_) = [said["title"] for said in message["operations"] if said["kind"] == "create"]
    changed = lines[create].replace(f'"title\\":\\"{title}'.encode(), b'"title\\":\\"another')
    other = tmp_path / "topic.jsonl"
    for wrong in ([*lines[:create], changed, *lines[create + 1 :]], lines[:-1]):
        other.write_bytes(header + b"".join(wrong))
        assert expected != rows_of_topic(other)


def test_audit_finds_what_is_lost_doubled_and_unfinished(sample: Path, tmp_path: Path) -> None:
    """Nothing is wrong with a finished folder; an event too many and a Decision too many each are."""
    assert [] == audit(sample).faults
    shutil.copytree(sample, tmp_path, dirs_exist_ok=True)
    lost = parse_event(
        '{"id": "new", "source": "s", "thread": "t", "at": "2024-05-01T09:00:00Z", "text": "hello"}'
    )
    produce(tmp_path, [lost.model_dump_json()])
    operations = topic_path(tmp_path, "operations")
    again = operations.read_bytes().splitlines(keepends=True)[1]
    operations.write_bytes(operations.read_bytes() + again)
    found = audit(tmp_path)
    doubled = json.loads(json.loads(again)["value"])["view"]["event"]
    assert ((lost.uid,), (doubled,), ()) == (found.lost, found.duplicated, found.parked)
    assert ["record", "memory"] == [told.split()[1] for told in found.differences]


@st.composite
def topics(draw: st.DrawFn) -> list[Applied]:
    """A topic in which some events were decided twice, differently, and some messages stand twice."""
    found = draw(histories(parked=2))
    decided = [each.message for each in found if isinstance(each.message, Decision)]
    operations = [operation for decision in decided for operation in decision.operations]
    tasks = sorted({operation.task for operation in operations if not isinstance(operation, NotATask)})
    extra = draw(st.lists(st.sampled_from(found), max_size=2))
    second = draw(st.lists(st.sampled_from(decided), max_size=2))
    again = [draw(decisions(decision.arrival, [*tasks, "t-never"])) for decision in second]
    messages = [each.message for each in (*found, *extra)] + again
    last = found[-1].arrived
    times = [each.arrived for each in found] + [last] * (len(messages) - len(found))
    return [applied(message, n, when) for n, (message, when) in enumerate(zip(messages, times, strict=True))]


@given(topic=topics(), data=st.data())
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_oracle_and_store_agree_on_any_topic(topic: list[Applied], data: st.DataObject) -> None:
    """Creates, updates, edits, deletes, restores, second Decisions and repeats, in batches of any size."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder), create=True)
        writer = StoreWriter(store.tables, store.record, store.memory, Upkeep(store.tables, 512, 48))
        for batch in batches(topic, data.draw(cuts(len(topic)))):
            writer.commit(batch, record_positions(batch, "lookfirst.operations", "id"))
        found = rows_of(store)
    raw = [(json.loads(each.raw), each.coordinates.offset, each.arrived) for each in topic]
    assert rows_of_messages(raw) == found

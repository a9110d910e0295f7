"""The vector lane in a judgment: how it is asked for, what it shows, and what waits while it cannot."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flows.daemons import Daemons
from flows.retrieve.look import Looker
from flows.retrieve.plan import plan, words_of
from store.schema import (
    ClassifiedFailure,
    Complete,
    Create,
    Decision,
    Empty,
    Failed,
    FailureClass,
    Matched,
    NotATask,
    Settings,
    Update,
    describe,
)
from store.vector_writer import VectorWriter
from tests.embedders import BUSY, HASHED, Switches, fresh_switches
from tests.looking import law, look, numbered, outcome, plant
from tests.test_vectors import embed_all
from tests.workplace import Script, Workplace, answer, create, event, matched, nothing, update

LIMITS = Settings(embedder=HASHED)
FENCE = "The fence of the northern yard has to be painted before winter"


@pytest.fixture
def switches() -> Iterator[Switches]:
    """The embedder of these tests, which begins well."""
    with fresh_switches() as fresh:
        yield fresh


@pytest.fixture
def workplace(tmp_path: Path, script: Script, switches: Switches) -> Iterator[Workplace]:
    """A desk over a store with a vector lane; no provider is ever left alone."""
    with Workplace.opened(tmp_path / "store", script, Settings(embedder=HASHED, breaker_after=1_000)) as opened:
        yield opened


def embed_rows(workplace: Workplace) -> None:
    """Bring the vectors to where memory is."""
    assert workplace.store.memory.vectors
    writer = VectorWriter(workplace.store.memory.vectors, 1_000)
    writer.survey()
    embed_all(writer)


@pytest.mark.promise("R11")
@law
@given(st.text(max_size=300), st.integers(1, 6), st.integers(1, 8))
def test_a_plan_with_a_vector_query_keeps_to_the_cap(text: str, queries: int, query_terms: int) -> None:
    """Never more than the cap, at most one for vectors, none for marks alone; words are always asked for."""
    limits = Settings(embedder=HASHED, queries=queries, query_terms=query_terms)
    planned = plan(event(f"{text} TASK-42 see https://example.org/a"), limits)
    lanes = [query.lane for query in planned]
    assert len(planned) <= queries
    assert lanes.count("vector") <= 1
    assert "text" in lanes
    assert "vector" not in [query.lane for query in plan(event("👍 … !!!"), limits)]


def test_the_vector_query_is_the_head_of_what_was_said() -> None:
    """Of a long event the head, as the setting says, subject first; beside it there is room for three others."""
    words = " ".join(f"word{number}" for number in range(2_000))
    planned = plan(event(words, subject="Yard"), LIMITS)
    assert ["vector", "text", "text", "text"] == [query.lane for query in planned]
    assert f"Yard\n{words}"[:600] == planned[0].terms[0]
    lanes = [query.lane for query in plan(event(f"TASK-42 {words}"), LIMITS)]
    assert ["exact", "vector", "text", "text"] == lanes


def test_a_row_is_shown_by_the_vector_lane(workplace: Workplace) -> None:
    """Its lane is named with its rank, and the read of it is complete."""
    [task] = plant(workplace, event(FENCE, id="fence", thread="yard"))
    embed_rows(workplace)
    view = look(workplace, event("has the fence of the northern yard been painted"), LIMITS)
    assert Complete() == outcome(view, "vector")
    [shown] = [row for row in view.slices if row.row_id == task.id]
    assert ("vector", 1) in [(rank.lane, rank.rank) for rank in shown.lanes]


@pytest.mark.promise("L10")
def test_a_row_that_is_not_embedded_is_lag_and_is_found_by_its_words(workplace: Workplace) -> None:
    """The lane says how many rows it cannot know of, the text lane has them; once embedded they are in both."""
    [task] = plant(workplace, event(FENCE, id="fence", thread="yard"))
    asked = event("has the fence of the northern yard been painted")
    before = look(workplace, asked, LIMITS)
    assert (Empty(lag=1), Complete()) == (outcome(before, "vector"), outcome(before, "text"))
    assert "empty, 1 operations behind" == describe(outcome(before, "vector"))
    assert [task.id] == [row.row_id for row in before.slices]
    embed_rows(workplace)
    after = look(workplace, asked, LIMITS)
    assert (Complete(), Complete()) == (outcome(after, "vector"), outcome(after, "text"))
    assert ["text", "vector"] == sorted(rank.lane for row in after.slices for rank in row.lanes)


def test_a_search_that_was_begun_ahead_lags_by_what_was_missing_then(workplace: Workplace) -> None:
    """Rows that are embedded between a search and the look that uses it still count as not seen by it."""
    plant(workplace, event(FENCE, id="fence", thread="yard"))
    arrival = workplace.arrive(event("has the fence of the northern yard been painted"))
    workplace.overlay.settle(workplace.overlay.oldest(9))
    with Daemons(4, "read") as pool:
        looker = Looker(workplace.store, workplace.overlay, LIMITS, pool)
        looker.ask_ahead([arrival])
        found = [looker._ahead.asked[key]() for key in looker._ahead.asked]
        assert looker._ahead.unembedded is not None
        assert 1 == looker._ahead.unembedded()
        embed_rows(workplace)
        [view] = looker.look([arrival], {})
    assert [] in found
    assert Empty(lag=1) == outcome(view, "vector")


def test_without_an_embedder_no_lane_has_failed(tmp_path: Path, script: Script) -> None:
    """A lane that is not configured is not asked, not read, and keeps nothing from being created."""
    with Workplace.opened(tmp_path / "store", script, Settings()) as workplace:
        script.then(create(FENCE))
        decision = workplace.decided(FENCE)
    assert [Create] == [type(operation) for operation in decision.operations]
    [view] = decision.views
    assert "vector" not in [query.lane for query in view.queries]
    assert "vector" not in [read.name for read in view.reads]


@pytest.mark.promise("C10", "R23")
@pytest.mark.parametrize("proposal", [create(FENCE), nothing()])
def test_while_the_lane_fails_neither_a_create_nor_a_not_a_task_stands(
    workplace: Workplace, switches: Switches, proposal: object
) -> None:
    """It waits, whatever the judge says, and is decided once when the embedder is well again."""
    workplace.judge.rule = lambda event, view: answer(proposal)  # type: ignore[arg-type]
    switches.error = BUSY
    assert [] == workplace.take(event(FENCE))
    assert [] == workplace.wait(600)
    failed = outcome(workplace.judge.views[0], "vector")
    assert isinstance(failed, Failed)
    assert (FailureClass.TRANSIENT, "429") == (failed.failure, failed.reason)
    switches.error = None
    [decided] = workplace.wait(600)
    assert isinstance(decided, Decision)
    assert [] == workplace.wait(3_600)
    assert isinstance(decided.operations[0], Create | NotATask)
    assert isinstance(outcome(decided.views[0], "vector"), Empty)


@pytest.mark.promise("C10")
def test_while_the_lane_fails_other_decisions_go_on(workplace: Workplace, switches: Switches) -> None:
    """An update and a match on rows that were shown stand without it."""
    plant(workplace, event(FENCE, id="fence", thread="yard"))
    embed_rows(workplace)
    switches.error = BUSY
    workplace.judge.then(update("S1", "painted", state="done"))
    first = workplace.decided("painted the fence of the northern yard", thread="yard")
    workplace.judge.then(matched("S1"))
    second = workplace.decided("yes the fence of the northern yard", thread="yard")
    assert [Update, Matched] == [type(d.operations[0]) for d in (first, second)]
    assert isinstance(outcome(second.views[0], "vector"), Failed)


def test_an_event_whose_text_is_refused_has_a_final_state(workplace: Workplace, switches: Switches) -> None:
    """What can never be seen is not waited for for ever: parked after the cap with its reason, asked for once."""
    workplace.judge.rule = lambda event, view: answer(create(event.text))
    switches.refused = "secret"
    assert [] == workplace.take(event("order a secret thing"))
    [parked] = [settled for _ in range(4) for settled in workplace.wait(600)]
    assert "parked" == parked.kind  # type: ignore[union-attr]
    assert FailureClass.CONTENT is parked.failure  # type: ignore[union-attr]
    assert "the text of the event cannot be embedded" in parked.reason  # type: ignore[union-attr]
    assert ["order a secret thing"] == switches.texts


@pytest.mark.promise("R39")
def test_an_embedder_that_hangs_holds_up_no_other_read(workplace: Workplace, switches: Switches) -> None:
    """One text hangs among others of its wave: its lane alone has failed, in time; all else was read, of all."""
    plant(workplace, *numbered(12, "inventory item {n}"))
    embed_rows(workplace)
    switches.gate, switches.waits_on = threading.Event(), "hangs"
    wave = [workplace.arrive(each) for each in numbered(6, "about inventory item {n}")]
    stuck = [workplace.arrive(each) for each in numbered(3, "hangs on inventory item {n}")]
    limits = LIMITS.model_copy(update={"search_timeout": 1.0})
    with Daemons(1, "read") as pool, Daemons(4, "seek") as seekers:
        looker = Looker(workplace.store, workplace.overlay, limits, pool, seekers)
        views = looker.look([*stuck, *wave], {})
    assert [["vector"]] * 3 == [[read.name for read in view.failed_reads()] for view in views[:3]]
    assert [[]] * 6 == [[read.name for read in view.failed_reads()] for view in views[3:]]
    assert all(view.slices for view in views)
    failed = outcome(views[0], "vector")
    assert isinstance(failed, Failed)
    assert (FailureClass.TRANSIENT, "no answer within 1 s") == (failed.failure, failed.reason)


def test_an_embedder_slower_than_a_wave_gets_through(workplace: Workplace, switches: Switches) -> None:
    """What was embedded too late for one look is there at the next: each text is asked for once, however slow."""
    switches.gate = threading.Event()
    limits = LIMITS.model_copy(update={"search_timeout": 0.2})
    arrival = workplace.arrive(event(FENCE))
    with Daemons(4, "read") as pool:
        looker = Looker(workplace.store, workplace.overlay, limits, pool)
        [late] = looker.look([arrival], {})
        assert isinstance(outcome(late, "vector"), Failed)
        switches.gate.set()
        switches.wait_for(1)
        views = [looker.look([arrival], {})[0] for _ in range(20)]
    assert Empty() == outcome(views[-1], "vector")
    assert [FENCE] == switches.texts


def test_a_long_event_asks_for_each_segment(workplace: Workplace, switches: Switches) -> None:
    """Each segment has its own vector query, of its own head, and each judgment at most four queries."""
    text = "\n".join(f"Line {number} of the minutes, about the {number}th thing." for number in range(700))
    decision = workplace.decided(text)
    assert len(decision.views) > 1
    heads = [query.terms[0] for view in decision.views for query in view.queries if query.lane == "vector"]
    assert len(decision.views) == len(set(heads))
    assert all(len(view.queries) <= 4 for view in decision.views)
    assert all(words_of(head) for head in heads)


def test_a_failure_of_the_count_is_no_failure_of_the_lane(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lag is a mark: where it cannot be counted the search stands."""
    plant(workplace, event(FENCE, id="fence", thread="yard"))
    embed_rows(workplace)

    def fails() -> int:
        raise ClassifiedFailure(FailureClass.TRANSIENT, "no count")

    monkeypatch.setattr(workplace.store.memory, "unembedded", fails)
    workplace.now += timedelta(seconds=1)
    view = look(workplace, event("has the fence of the northern yard been painted"), LIMITS)
    assert isinstance(outcome(view, "vector"), Complete)

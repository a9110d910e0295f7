"""Planning: which questions an event needs, from its own words, and never too many."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from flows.retrieve.plan import plan, words_of
from store.identifiers import find_identifiers
from store.schema import Event, Participant, Query, Settings
from tests.workplace import Workplace, event

LIMITS = Settings()
law = settings(derandomize=False, print_blob=True, deadline=None, max_examples=80)

texts = st.text(max_size=400) | st.lists(
    st.sampled_from(
        ["fix", "the", "printer", "TASK-42", "SR-2023-052", "佐藤", "_", "a", "…", "\n", "2024-05-01"]
    ),
    max_size=80,
).map(" ".join)
limits = st.builds(
    Settings,
    queries=st.integers(1, 6),
    query_terms=st.integers(1, 30),
    identifiers=st.integers(1, 20),
)


def terms(queries: tuple[Query, ...]) -> set[str]:
    """Every term of a plan."""
    return {term for query in queries for term in query.terms}


def says_something(term: str) -> bool:
    """Whether a term has a letter or a digit in it, and is more than one Latin letter."""
    return any(char.isalnum() for char in term) and (len(term) > 1 or not term.isascii())


@pytest.mark.promise("R10")
@law
@given(st.text("abcdefghij", min_size=2, max_size=9), st.text("abcdefghij", min_size=2, max_size=9))
def test_two_events_are_asked_about_differently(one: str, other: str) -> None:
    """Events that say different things give different plans."""
    assume(one != other)
    assert plan(event(f"the {one}"), LIMITS) != plan(event(f"the {other}"), LIMITS)


@pytest.mark.promise("R10")
@law
@given(texts, st.none() | texts, limits)
def test_every_term_is_of_the_event(text: str, subject: str | None, limits: Settings) -> None:
    """No question is fixed: whatever is asked for stands in the event."""
    asked = event(text, subject=subject)
    said = f"{subject or ''}\n{text}"
    own = {*words_of(said), *words_of("Anna t"), "t", *(found.key for found in find_identifiers(said))}
    assert set() == terms(plan(asked, limits)) - own


@pytest.mark.promise("R10")
@pytest.mark.parametrize("text", ["", "  \n\t", "!!! …", "- - -"])
def test_a_body_without_words_is_planned_from_the_other_fields(text: str) -> None:
    """An event that says nothing is looked for by its subject, else by its people and its thread."""
    ben = Participant(id="ben", name="Ben Okafor")
    assert {"anna", "ben", "okafor", "launch"} == terms(
        plan(event(text, thread="launch", mentions=(ben,)), LIMITS)
    )
    assert {"budget", "review"} == terms(plan(event(text, subject="Budget review"), LIMITS))
    assert plan(event(text, thread="launch"), LIMITS) != plan(event(text, thread="payroll"), LIMITS)


@pytest.mark.promise("R10")
def test_an_event_without_any_word_is_still_looked_for() -> None:
    """A nameless, wordless event in a thread of one letter has a plan, of its thread."""
    nobody = Event(id="1", source="chat", thread="x", at=datetime(2024, 5, 1, tzinfo=UTC), text="?")
    assert (Query(lane="text", terms=("x",)),) == plan(nobody, LIMITS)


@pytest.mark.promise("R11")
@law
@given(texts, limits)
@example("fix " * 3, Settings(queries=1))
@example("TASK-42 TASK-43 " + " ".join(f"word{n}" for n in range(200)), Settings(queries=2, query_terms=3))
def test_a_plan_is_never_empty_and_never_over_its_cap(text: str, limits: Settings) -> None:
    """Whatever the text and the settings: at least one question, at most the cap."""
    planned = plan(event(text), limits)
    assert 1 <= len(planned) <= limits.queries
    assert len(set(planned)) == len(planned)


@pytest.mark.promise("R11")
def test_an_event_that_names_fifty_things_asks_at_most_four_times(workplace: Workplace) -> None:
    """Fifty things and fifty identifiers in one event make no more calls than the cap."""
    things = ". ".join(f"Order thing{n} of model{n} for room{n}, see OPS-{n}" for n in range(1, 51))
    workplace.say(things)
    asked = [call for call in workplace.log if call in ("memory.text", "memory.exact")]
    assert LIMITS.queries == len(asked)
    assert "memory.exact" in asked


@pytest.mark.promise("R12")
@law
@given(texts, limits)
@example("____", LIMITS)
def test_every_question_has_something_to_look_for(text: str, limits: Settings) -> None:
    """An event has at least its author's name, so no question of its plan is without a content term."""
    for query in plan(event(text, thread="launch"), limits):
        assert any(says_something(term) for term in query.terms), query


@pytest.mark.promise("R12")
@law
@given(texts, limits)
@example(" ".join(f"OPS-{n}" for n in range(1, 51)), LIMITS)
@example(" ".join(f"word{n}" for n in range(500)), LIMITS)
def test_each_question_is_narrow(text: str, limits: Settings) -> None:
    """A question has at most so many words, or identifiers, and none of them twice."""
    for query in plan(event(text), limits):
        most = limits.identifiers if query.lane == "exact" else limits.query_terms
        assert 1 <= len(query.terms) <= most
        assert len(set(query.terms)) == len(query.terms)


@pytest.mark.promise("R12")
@pytest.mark.parametrize("words", [97, 384, 500, 20_000])
def test_a_long_text_is_asked_about_from_its_first_words_to_its_last(words: int) -> None:
    """The windows over a long text are of one size, in order; the first and the last word are in them."""
    text = " ".join(f"word{n}" for n in range(words))
    planned = plan(event(text), LIMITS)
    assert "word0" == planned[0].terms[0]
    assert f"word{words - 1}" == planned[-1].terms[-1]
    assert {LIMITS.query_terms} == {len(query.terms) for query in planned}
    starts = [int(query.terms[0].removeprefix("word")) for query in planned]
    assert sorted(starts) == starts
    assert min(LIMITS.queries, -(-words // LIMITS.query_terms)) == len(planned)

"""`bench duplicates`: whether the twin of a bug report that people marked as a duplicate was in view."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lancedb.query import MatchQuery

from flows.bench.labelled import LabelledStore, labelled_store, read_labelled, share
from flows.retrieve.plan import plan
from store.embedding import embed
from store.memory import ExactRequest
from store.schema import Event, Settings
from store.sql import quote
from store.terms import words

_FILE = Path("bug_dups") / "hadoop.jsonl"
_HITS = 12


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Shares of the duplicates whose twin was among 12 rows."""

    embedder: str
    reports: int
    duplicates: int
    exact: float
    """By the exact lane alone."""
    text: float
    vector: float | None
    in_view: float
    """In the slices, of all lanes together."""
    without_vector: float
    plain_text: float
    """By LanceDB's full-text search for all words of the report, on the text as it was written."""
    plain_vector: float | None
    """By LanceDB's vector search for the report, at any distance."""


@dataclass(frozen=True, slots=True)
class _Hits:
    exact: bool
    text: bool
    vector: bool
    in_view: bool
    without_vector: bool
    plain_text: bool
    plain_vector: bool


def duplicates(folder: Path, settings: Settings, progress: Callable[[str, int, int], None]) -> Duplicates:
    """Replay the reports by time; before each duplicate is written, look for it.

    Raises UsageError when `folder` does not hold the reports.
    """
    reports = read_labelled(folder / _FILE)
    found: list[_Hits] = []
    with labelled_store(settings) as labelled:
        for number, report in enumerate(reports):
            progress("reports", number, len(reports))
            event = _event(report)
            twins = [row for row in report["expected_row"] if row in labelled.rows]
            if twins:
                labelled.flush()
                found.append(_look(labelled, event, {labelled.rows[row] for row in twins}))
                labelled.update(event, twins[0])
            else:
                labelled.create(event, report["id"])
    vectors = settings.embedding is not None
    return Duplicates(
        embedder=settings.embedder,
        reports=len(reports),
        duplicates=len(found),
        exact=share(hits.exact for hits in found),
        text=share(hits.text for hits in found),
        vector=share(hits.vector for hits in found) if vectors else None,
        in_view=share(hits.in_view for hits in found),
        without_vector=share(hits.without_vector for hits in found),
        plain_text=share(hits.plain_text for hits in found),
        plain_vector=share(hits.plain_vector for hits in found) if vectors else None,
    )


def _event(report: dict[str, Any]) -> Event:
    return Event(
        id=report["id"],
        source="issues",
        thread=report["id"],
        kind="comment",
        at=datetime.fromisoformat(report["created"]).replace(tzinfo=UTC),
        subject=report["title"],
        text=report["text"],
    )


def _look(labelled: LabelledStore, event: Event, twins: set[str]) -> _Hits:
    settings, memory = labelled.settings, labelled.store.memory
    view = labelled.look(event)
    wordy = settings.model_copy(update={"embedder": "none"})
    without = view if settings.embedding is None else labelled.look(event, wordy)
    text = f"{event.subject}\n{event.text}"
    lanes: dict[str, bool] = {}
    for query in plan(event, settings):
        if query.lane == "text":
            hits = memory.text(event.workspace, query.terms, _HITS)
        elif query.lane == "vector":
            hits = memory.vector(event.workspace, query.terms[0], _HITS)
        else:
            [hits] = memory.exact([ExactRequest(event.workspace, frozenset(query.terms))], _HITS)
        lanes[query.lane] = lanes.get(query.lane, False) or not twins.isdisjoint(hits[:_HITS])
    return _Hits(
        exact=lanes.get("exact", False),
        text=lanes["text"],
        vector=lanes.get("vector", False),
        in_view=any(found.row_id in twins for found in view.slices),
        without_vector=any(found.row_id in twins for found in without.slices),
        plain_text=not twins.isdisjoint(_plain_text(labelled, event, text)),
        plain_vector=not twins.isdisjoint(_plain_vector(labelled, event, text)),
    )


def _plain_text(labelled: LabelledStore, event: Event, text: str) -> list[str]:
    table = labelled.store.tables["memory"]
    query = table.search(MatchQuery(" ".join(dict.fromkeys(words(text))), "text"), query_type="fts")
    return _ids(query, event, "_score")


def _plain_vector(labelled: LabelledStore, event: Event, text: str) -> list[str]:
    vectors = labelled.store.memory.vectors
    table = vectors.table() if vectors else None
    if vectors is None or table is None:
        return []
    [vector] = embed(vectors.spec, [text])
    return _ids(table.search(vector, query_type="vector").distance_type("cosine"), event, "_distance")


def _ids(query: Any, event: Event, ranked_by: str) -> list[str]:
    mine = query.where(f"workspace = {quote(event.workspace)}", prefilter=True)
    found: list[str] = mine.select(["row_id", ranked_by]).limit(_HITS).to_arrow()["row_id"].to_pylist()
    return found

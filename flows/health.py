"""The pages by which a run shows how it is, made from its vitals."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from pydantic import TypeAdapter

from connectors.health import JSON, Page, Pages
from flows.metrics import CONTENT_TYPE, metrics_text
from flows.vitals import Vitals

_READINESS: Final = TypeAdapter(dict[str, bool | list[str] | Vitals])


def health_pages(vitals: Callable[[], Vitals]) -> Pages:
    """`/healthz`: the process runs. `/readyz`: it decides at its pace, or why not. `/metrics`: for Prometheus."""
    return {
        "/healthz": lambda: Page("The process is running.\n"),
        "/readyz": lambda: readiness(vitals()),
        "/metrics": lambda: Page(metrics_text(vitals()), CONTENT_TYPE),
    }


def readiness(vitals: Vitals) -> Page:
    """200 when the run is ready, 503 with its problems, a sentence each, when it is not; the vitals either way."""
    problems = list(vitals.problems())
    told: dict[str, bool | list[str] | Vitals] = {"ready": not problems}
    if problems:
        told["problems"] = problems
    told["vitals"] = vitals
    status = HTTPStatus.SERVICE_UNAVAILABLE if problems else HTTPStatus.OK
    return Page(_READINESS.dump_json(told, indent=1).decode("utf-8") + "\n", JSON, status)

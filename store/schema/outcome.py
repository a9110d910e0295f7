"""How a read ended. Failure, empty and cut are never the same value (R22)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from store.schema.base import Frozen
from store.schema.failure import FailureClass


class _Outcome(Frozen):
    lag: int = Field(default=0, ge=0)
    """Operations that were written and could not yet be found by this read when it was made."""


class Complete(_Outcome):
    """Everything there is was returned."""

    status: Literal["complete"] = "complete"


class Empty(_Outcome):
    """Nothing was found, which proves nothing (R24)."""

    status: Literal["empty"] = "empty"


class Cut(_Outcome):
    """There is more than the limit let through."""

    status: Literal["cut"] = "cut"
    left_out: int | None = None
    """How many were left out; None when only "more" is known."""


class Failed(_Outcome):
    """Not seen. Never "no match" (R23)."""

    status: Literal["failed"] = "failed"
    failure: FailureClass
    reason: str


SearchOutcome = Annotated[Complete | Empty | Cut | Failed, Field(discriminator="status")]


def outcome_of(found: int, limit: int, *, lag: int = 0, total: int | None = None) -> SearchOutcome:
    """The outcome of a read that asked for `limit + 1` rows (or knows the `total`) and did not fail."""
    if found == 0:
        return Empty(lag=lag)
    if found > limit:
        return Cut(lag=lag, left_out=None if total is None else total - limit)
    return Complete(lag=lag)


def describe(outcome: SearchOutcome) -> str:
    """The outcome in words, as a judge and a reader of `why` get it."""
    behind = f", {outcome.lag} operations behind" if outcome.lag else ""
    match outcome:
        case Complete():
            return f"complete{behind}"
        case Empty():
            return f"empty{behind}"
        case Cut(left_out=None):
            return f"cut, more were left out{behind}"
        case Cut(left_out=count):
            return f"cut, {count} left out{behind}"
        case Failed(failure=failure, reason=reason):
            return f"failed ({failure}: {reason}){behind}"

"""Why an event is not settled: the class and the words of a failure."""

from __future__ import annotations

from collections.abc import Sequence

from store.schema import Failed, FailureClass, Rejection, View


def blame(view: View) -> FailureClass:
    """The class of the failed reads together: one that will not pass by itself decides."""
    classes = {read.outcome.failure for read in view.failed_reads() if isinstance(read.outcome, Failed)}
    order = (FailureClass.CONTENT, FailureClass.UNKNOWN)
    return next((found for found in order if found in classes), FailureClass.TRANSIENT)


def failures(view: View) -> str:
    """What the failed reads said, each once."""
    reasons = (read.outcome.reason for read in view.reads if isinstance(read.outcome, Failed))
    return "memory could not be searched: " + "; ".join(dict.fromkeys(reasons))


def refusals(rejected: Sequence[Rejection]) -> str:
    """What the guard refused, and by which rules."""
    told = (f"{rejection.rule}: {rejection.reason}" for rejection in rejected)
    return "the judge's answers were refused: " + "; ".join(told)

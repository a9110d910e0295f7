"""Failures as values, and errors as sentences."""

from __future__ import annotations

from enum import StrEnum


class FailureClass(StrEnum):
    """Who is to blame decides what happens next."""

    TRANSIENT = "transient"
    """The other side is unwell: the event stays pending and is tried again with backoff."""
    CONTENT = "content"
    """The event's or the answer's own fault: tried again up to the cap, then parked."""
    UNKNOWN = "unknown"
    """Nobody knows: tried again for a long time, then parked as unknown."""


class LookfirstError(Exception):
    """A fault of the run, told in one sentence that names the input and the remedy."""


class UsageError(LookfirstError):
    """The command was asked for something it cannot mean."""


class StoreError(LookfirstError):
    """The store is missing, locked, foreign, or of a version this release cannot read."""


class TopicError(LookfirstError):
    """A topic cannot be read or written."""


class ClassifiedFailure(Exception):
    """A failed search, read or judgment, with its class."""

    def __init__(self, failure: FailureClass, reason: str) -> None:
        super().__init__(reason)
        self.failure = failure
        self.reason = reason


def classify(error: Exception) -> ClassifiedFailure:
    """Give any exception a class: I/O and time-outs are transient, everything unforeseen is unknown."""
    if isinstance(error, ClassifiedFailure):
        return error
    reason = f"{type(error).__name__}: {error}"
    passing = isinstance(error, OSError | TimeoutError | ConnectionError)
    failure = ClassifiedFailure(FailureClass.TRANSIENT if passing else FailureClass.UNKNOWN, reason)
    # Where it came from, for whoever debugs.
    failure.__cause__ = error
    return failure

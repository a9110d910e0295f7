"""What a judge is: a View in, an answer with handles out. It holds no handle to the store."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, Protocol

from pydantic import Field

from store.schema import Event, Frozen, Rejection, TaskState, View


class ProposedCreate(Frozen):
    """A new task, proposed."""

    kind: Literal["create"] = "create"
    title: str
    state: TaskState = "open"
    due: date | None = None
    quote: str
    """Words of the event, verbatim; they become the body."""
    assignees: tuple[str, ...] = ()
    """Handles of people (`P1`)."""
    evidence: tuple[str, ...] = ()
    """Handles of the rows that were held against it and did not match."""
    reason: str
    not_nothing: str
    """Why doing nothing was rejected (R43)."""


class ProposedUpdate(Frozen):
    """A change of a row that was shown; only the named fields change."""

    kind: Literal["update"] = "update"
    target: str
    """Handle of the row (`S1`, `T2`, `B3`)."""
    title: str | None = None
    state: TaskState | None = None
    due: date | None = None
    clear_due: bool = False
    assign: tuple[str, ...] = ()
    unassign: tuple[str, ...] = ()
    quote: str
    """Words of the event, verbatim, that say so."""
    evidence: tuple[str, ...]
    reason: str


class ProposedMatch(Frozen):
    """Nothing to do: the row says it already."""

    kind: Literal["matched"] = "matched"
    target: str
    evidence: tuple[str, ...] = ()
    reason: str


class ProposedNothing(Frozen):
    """Nothing to do: it is no task."""

    kind: Literal["not_a_task"] = "not_a_task"
    evidence: tuple[str, ...] = ()
    reason: str


Proposal = Annotated[
    ProposedCreate | ProposedUpdate | ProposedMatch | ProposedNothing, Field(discriminator="kind")
]


class Answer(Frozen):
    """One proposal for each task the event touches, or exactly one kind of nothing."""

    proposals: tuple[Proposal, ...]


class Judge(Protocol):
    """Decides from a View."""

    @property
    def name(self) -> str:
        """Name and version; recorded on each Decision."""

    @property
    def remote(self) -> bool:
        """Whether it waits for somebody else, such as a model: it is then asked from threads, many at once."""

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        """Answer for one event; `refused` holds what the guard rejected of an earlier answer.

        Raises ClassifiedFailure when it cannot answer.
        """

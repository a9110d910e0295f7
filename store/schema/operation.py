"""Operations: each is one change to one row, or one kind of nothing."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Literal, TypeVar

from pydantic import Field, model_validator

from store.schema.base import FORMAT, FormatVersion, Frozen, UtcTime
from store.schema.change import Version
from store.schema.rows import TaskState


class Evidence(Frozen):
    """A row that was in the View and bore on the operation (R46)."""

    handle: str
    row_id: str


_Setting = TypeVar("_Setting", "Update", "Edit")


def _contradicts_nothing(operation: _Setting) -> _Setting:
    if operation.due is not None and operation.clear_due:
        raise ValueError("a due date is set and cleared at once")
    if set(operation.assign) & set(operation.unassign):
        raise ValueError("the same person is assigned and unassigned")
    return operation


class _Judged(Frozen):
    id: str
    segment: int = 0
    number: int
    """`(segment, number)` is the operation's ordinal within its Decision."""
    evidence: tuple[Evidence, ...] = ()
    reason: str
    """Why, in the judge's words; shown by `why`, never stored in a row."""


class Create(_Judged):
    """A new task. Only after do-nothing was considered and the standby was seen (R43)."""

    kind: Literal["create"] = "create"
    task: str
    title: str
    state: TaskState = "open"
    due: date | None = None
    quote: str
    """The event's own words; becomes the body."""
    assignees: tuple[str, ...] = ()
    requester: str | None = None
    not_nothing: str
    """Why doing nothing was rejected."""


class Update(_Judged):
    """A change of the named fields of a row that was visible; what is None or empty is not named (R51)."""

    kind: Literal["update"] = "update"
    task: str
    seen: Version
    title: str | None = None
    state: TaskState | None = None
    due: date | None = None
    clear_due: bool = False
    assign: tuple[str, ...] = ()
    unassign: tuple[str, ...] = ()
    quote: str

    _consistent = model_validator(mode="after")(_contradicts_nothing)

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields it sets, each at most once."""
        named = {
            "title": self.title is not None,
            "state": self.state is not None,
            "due": self.due is not None or self.clear_due,
            "assignees": bool(self.assign or self.unassign),
        }
        return tuple(field for field, is_named in named.items() if is_named)


class Matched(_Judged):
    """Nothing to do: an existing row says it already (R49)."""

    kind: Literal["matched"] = "matched"
    task: str


class NotATask(_Judged):
    """Nothing to do: it is no task, and points at no row (R49)."""

    kind: Literal["not_a_task"] = "not_a_task"


JudgedOperation = Annotated[Create | Update | Matched | NotATask, Field(discriminator="kind")]


class _Personal(Frozen):
    """A person's own operation on a row: exempt from search first."""

    format: FormatVersion = FORMAT
    id: str
    workspace: str
    thread: str
    """Thread of the row: the operation travels in the row's stream."""
    row: str
    """Id of the task."""
    seen: Version | None
    """The version of the row the person was looking at."""
    by: str
    """Who did it, as they name themselves."""


class Edit(_Personal):
    """A person's edit; beats every event that arrived before it."""

    kind: Literal["edit"] = "edit"
    title: str | None = None
    state: TaskState | None = None
    due: date | None = None
    clear_due: bool = False
    assign: tuple[str, ...] = ()
    unassign: tuple[str, ...] = ()

    _consistent = model_validator(mode="after")(_contradicts_nothing)


class Delete(_Personal):
    """A tombstone."""

    kind: Literal["delete"] = "delete"


class Restore(_Personal):
    """Lifts a tombstone."""

    kind: Literal["restore"] = "restore"


class SummaryComponents(Frozen):
    """The five fixed, bounded components of a summary."""

    goal: str = ""
    completed_work: str = ""
    key_decisions: str = ""
    next_steps: str = ""
    critical_context: str = ""

    @property
    def text(self) -> str:
        """The five labels in their fixed order, empty ones present and empty."""
        return "\n".join(
            f"{name.replace('_', ' ')}: {getattr(self, name)}" for name in SummaryComponents.model_fields
        )


class _SessionOperation(Frozen):
    format: FormatVersion = FORMAT
    id: str
    workspace: str
    thread: str


class Summary(_SessionOperation):
    """A chunk of a session folded into the rolling summary. It changes no row (R54)."""

    kind: Literal["summary"] = "summary"
    first_event: str
    last_event: str
    components: SummaryComponents


class Gap(_SessionOperation):
    """A range that was skipped: missing from the summary, not from the record (R62)."""

    kind: Literal["gap"] = "gap"
    first_event: str
    last_event: str
    reason: str
    attempts: int


class Collapse(_SessionOperation):
    """A session continued in another one; one message carries all it writes."""

    kind: Literal["collapse"] = "collapse"
    node: str
    parent_node: str | None = None
    source_thread: str
    components: SummaryComponents = SummaryComponents()
    adopt: bool = False


class Metadata(_SessionOperation):
    """Metadata added to a session; later entries win."""

    kind: Literal["metadata"] = "metadata"
    values: dict[str, str]
    at: UtcTime | None = None

    @model_validator(mode="after")
    def _not_empty(self) -> Metadata:
        if not self.values:
            raise ValueError("metadata without a value changes nothing")
        return self

"""Messages: what travels on the operations and the dead-letter topic."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from store.schema.base import FORMAT, FormatVersion, Frozen
from store.schema.event import Arrival, Coordinates, Event, TextCut, problems
from store.schema.failure import ClassifiedFailure, FailureClass
from store.schema.identity import decision_id
from store.schema.operation import (
    Collapse,
    Create,
    Delete,
    Edit,
    Gap,
    JudgedOperation,
    Matched,
    Metadata,
    NotATask,
    Restore,
    Summary,
    Update,
)
from store.schema.view import View


class Rejection(Frozen):
    """An answer, or a part of one, that the guard refused."""

    attempt: int
    rule: str
    """The requirement it breaks, such as `R41`."""
    reason: str
    proposal: str
    """What was proposed, JSON."""


class Segmentation(Frozen):
    """How a long event was judged: in pieces, one after the other, each with what was visible for it (R28)."""

    spans: tuple[tuple[int, int], ...]
    """Begin and end of each piece in the event's text (characters); neighbours overlap a little."""
    views: tuple[View, ...]
    """The Views of the pieces after the first one, whose View is the Decision's."""
    unjudged: tuple[int, int] | None = None
    """The middle of a text with more pieces than may be judged: nobody has looked at it."""


class Decision(Frozen):
    """All operations of one event, with the event and everything that was visible: one message (R52)."""

    format: FormatVersion = FORMAT
    kind: Literal["decision"] = "decision"
    arrival: Arrival
    view: View
    segments: Segmentation | None = None
    """Only of an event that was too long to be judged in one piece."""
    operations: tuple[JudgedOperation, ...] = Field(min_length=1)
    rejected: tuple[Rejection, ...] = ()
    judge: str
    """Name and version of the judge."""

    @model_validator(mode="after")
    def _one_field_once(self) -> Decision:
        named = [
            (operation.task, field)
            for operation in self.operations
            if isinstance(operation, Update)
            for field in operation.fields
        ]
        if len(named) != len(set(named)):
            raise ValueError("a Decision sets a field of a row at most once")
        return self

    @model_validator(mode="after")
    def _only_what_was_seen(self) -> Decision:
        if any(view.event != self.event.uid for view in self.views):
            raise ValueError("the View is that of another event")
        visible = [{(found.handle, found.row_id) for found in view.tasks()} for view in self.views]
        for operation in self.operations:
            if operation.segment >= len(self.views):
                raise ValueError(f"an operation of segment {operation.segment}, of which there is no View")
            seen = visible[operation.segment]
            if isinstance(operation, Update | Matched) and operation.task not in {row_id for _, row_id in seen}:
                raise ValueError(f"{operation.kind} of a row that was not visible (R41)")
            if isinstance(operation, Update) and not operation.evidence:
                raise ValueError("an update without evidence (R47)")
            if any((item.handle, item.row_id) not in seen for item in operation.evidence):
                raise ValueError("evidence that was not visible (R46)")
            if isinstance(operation, Create) and not self.views[operation.segment].permits_create:
                raise ValueError("a create before search and standby were seen (R08, R44)")
        return self

    @property
    def views(self) -> tuple[View, ...]:
        """What was visible, by segment; one View for an event that was judged in one piece."""
        return (self.view, *(self.segments.views if self.segments else ()))

    @property
    def event(self) -> Event:
        """The event that was decided."""
        return self.arrival.event

    @property
    def id(self) -> str:
        """One event has one Decision id, whoever decides it and whenever."""
        return decision_id(self.event.uid)

    @property
    def key(self) -> str:
        """The stream the message belongs to."""
        return self.event.key


class Parked(Frozen):
    """An event that could not be decided. No Decision: a later one stands."""

    format: FormatVersion = FORMAT
    kind: Literal["parked"] = "parked"
    arrival: Arrival
    failure: FailureClass
    reason: str
    attempts: int
    rejected: tuple[Rejection, ...] = ()
    view: View | None = None

    @property
    def event(self) -> Event:
        """The event that was parked."""
        return self.arrival.event

    @property
    def key(self) -> str:
        """The stream the message belongs to."""
        return self.event.key


PersonOperation = Edit | Delete | Restore
SessionOperation = Summary | Gap | Collapse | Metadata
Operation = Annotated[
    Create | Update | Matched | NotATask | Edit | Delete | Restore | Parked | Summary | Gap | Collapse | Metadata,
    Field(discriminator="kind"),
]
"""Every kind of operation there is."""

Message = Annotated[
    Decision | Parked | Edit | Delete | Restore | Summary | Gap | Collapse | Metadata,
    Field(discriminator="kind"),
]
"""What stands in one message of the operations topic."""

_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


def parse_message(raw: str | bytes) -> Message:
    """Read one message of the operations topic; raises ClassifiedFailure (content)."""
    try:
        return _MESSAGE.validate_json(raw)
    except ValidationError as error:
        reason = f"not an operations message: {problems(error)}"
        raise ClassifiedFailure(FailureClass.CONTENT, reason) from error


class DeadLetter(Frozen):
    """What could not be read or decided, whole, with the reason and the way it came."""

    format: FormatVersion = FORMAT
    kind: Literal["dead_letter"] = "dead_letter"
    reason: str
    failure: FailureClass
    coordinates: Coordinates
    origin: str | None = None
    """Where the producer read it, such as `export.jsonl:12`."""
    raw: str
    """The message as it was read; bytes that are not UTF-8 are escaped."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Its headers, for some of them are part of the event; without the one `origin` is from."""
    cut: TextCut | None = None
    """The message is not all here, and what is left out of `raw`: it can only be read again where it stands."""

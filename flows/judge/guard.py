"""The guard: what of a judge's answer stands, checked against the View it was given.

It refuses, it never repairs: a handle that was not shown is not the nearest one that was (H4), and a quote that
is not in the event is not the closest sentence. What it refuses is kept with the rule that was broken.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flows.judge.contract import (
    Answer,
    Proposal,
    ProposedCreate,
    ProposedMatch,
    ProposedNothing,
    ProposedUpdate,
)
from flows.judge.veto import RULE, News, Veto
from store.schema import (
    Create,
    Event,
    Evidence,
    JudgedOperation,
    Matched,
    NotATask,
    Rejection,
    Settings,
    Slice,
    Update,
    View,
    describe,
)
from store.schema.identity import operation_id, task_id


@dataclass(frozen=True, slots=True)
class Accepted:
    """Every proposal stands."""

    operations: tuple[JudgedOperation, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """At least one proposal does not stand, so none is carried out: the event is judged again."""

    rejections: tuple[Rejection, ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """The answer is sound, but a read it depends on was not made: nothing is settled yet (R23, C10)."""

    reason: str


Verdict = Accepted | Refused | Waits


class _Broken(Exception):
    def __init__(self, rule: str, reason: str) -> None:
        super().__init__(reason)
        self.rule = rule
        self.reason = reason


def guard(
    answer: Answer, event: Event, view: View, limits: Settings, attempt: int = 1, segment: int = 0
) -> Verdict:
    """Check an answer for one event against what was visible, and turn it into operations with ids.

    Of a long event `event` carries the text of one segment only, and `segment` its number.
    """
    check = _Check(event, view, limits, segment)
    operations: list[JudgedOperation] = []
    rejections: list[Rejection] = []
    for number, proposal in enumerate(answer.proposals):
        try:
            operations.append(check.operation(proposal, number, alone=len(answer.proposals) == 1))
        except _Broken as broken:
            rejections.append(_rejection(attempt, broken, proposal.model_dump_json()))
    if not answer.proposals:
        nothing = _Broken("R40", "the answer proposes neither an operation nor a kind of nothing")
        rejections.append(_rejection(attempt, nothing, answer.model_dump_json()))
    if rejections:
        return Refused(tuple(rejections))
    missing = view.failed_reads()
    if missing and any(isinstance(operation, Create | NotATask) for operation in operations):
        told = "; ".join(f"{read.name}: {describe(read.outcome)}" for read in missing)
        return Waits(f"not everything was seen ({told})")
    return Accepted(tuple(operations))


def _rejection(attempt: int, broken: _Broken, proposal: str) -> Rejection:
    return Rejection(attempt=attempt, rule=broken.rule, reason=broken.reason, proposal=proposal)


class _Check:
    """The rules, with what the earlier proposals of the same answer have used up."""

    def __init__(self, event: Event, view: View, limits: Settings, segment: int) -> None:
        self._event = event
        self._segment = segment
        self._view = view
        self._limits = limits
        self._said = [_folded(event.text), _folded(event.subject or "")]
        self._touched: set[str] = set()
        self._veto = Veto(event)

    def operation(self, proposal: Proposal, number: int, *, alone: bool) -> JudgedOperation:
        made = operation_id(self._event.uid, self._segment, number)
        common = {
            "id": made,
            "segment": self._segment,
            "number": number,
            "evidence": self._evidence(proposal.evidence),
            "reason": proposal.reason,
        }
        match proposal:
            case ProposedCreate():
                self._check_create(proposal)
                return Create(
                    **common,
                    task=task_id(made),
                    title=proposal.title.strip(),
                    state=proposal.state,
                    due=proposal.due,
                    quote=proposal.quote.strip(),
                    assignees=self._people(proposal.assignees),
                    requester=self._event.person(self._event.author),
                    not_nothing=proposal.not_nothing,
                )
            case ProposedUpdate():
                target = self._target(proposal.target)
                self._check_update(proposal)
                self._check_link(target, proposal)
                return Update(
                    **common,
                    task=target.row_id,
                    seen=target.version,
                    title=proposal.title.strip() if proposal.title is not None else None,
                    state=proposal.state,
                    due=proposal.due,
                    clear_due=proposal.clear_due,
                    assign=self._people(proposal.assign),
                    unassign=self._people(proposal.unassign),
                    quote=proposal.quote.strip(),
                )
            case ProposedMatch():
                target = self._target(proposal.target)
                self._check_link(target, proposal)
                return Matched(**common, task=target.row_id)
            case ProposedNothing():
                if not alone:
                    raise _Broken("R40", "not_a_task stands beside another operation of the same event")
                return NotATask(**common)

    def _evidence(self, handles: Iterable[str]) -> tuple[Evidence, ...]:
        return tuple(Evidence(handle=h, row_id=self._visible(h, "R46").row_id) for h in dict.fromkeys(handles))

    def _visible(self, handle: str, rule: str) -> Slice:
        found = self._view.task(handle)
        if found is None:
            shown = ", ".join(slice_.handle for slice_ in self._view.tasks()) or "none"
            raise _Broken(rule, f"handle {handle!r} was not shown (shown: {shown})")
        return found

    def _target(self, handle: str) -> Slice:
        target = self._visible(handle, "R41")
        if target.row_id in self._touched:
            raise _Broken("R40", f"the task {handle} is the target of two operations of one event")
        self._touched.add(target.row_id)
        return target

    def _check_link(self, target: Slice, proposal: ProposedUpdate | ProposedMatch) -> None:
        """Likeness of words alone makes no event the news of a row that names something else (U1)."""
        cuts = [target, *(row for row in self._view.tasks() if row.row_id == target.row_id)]
        news = News()
        if isinstance(proposal, ProposedUpdate):
            news = News(proposal.due, proposal.title or "", proposal.quote, reports=proposal.state is not None)
        if reason := self._veto.against(cuts, news):
            raise _Broken(RULE, reason)

    def _people(self, handles: Iterable[str]) -> tuple[str, ...]:
        people = []
        for handle in dict.fromkeys(handles):
            person = self._view.person(handle)
            if person is None:
                raise _Broken("R42", f"handle {handle!r} names no person that was shown")
            people.append(person.row_id)
        return tuple(people)

    def _check_create(self, create: ProposedCreate) -> None:
        self._check_title(create.title)
        self._check_quote(create.quote)
        if not create.not_nothing.strip():
            raise _Broken("R43", "a create does not say why doing nothing was rejected")
        seen = {read.name for read in self._view.reads}
        for needed in ("thread", "standby_tasks", "standby_people"):
            if needed not in seen:
                raise _Broken("R44", f"a create before {needed.replace('_', ' ')} was read")
        if not seen & {"exact", "text", "vector"}:
            raise _Broken("R08", "a create before memory was searched")

    def _check_update(self, update: ProposedUpdate) -> None:
        if not update.evidence:
            raise _Broken("R47", "an update without evidence")
        named = (update.title, update.state, update.due)
        changed = update.clear_due or update.assign or update.unassign
        if not changed and all(value is None for value in named):
            raise _Broken("R51", "an update that names no field to change")
        if update.due and update.clear_due:
            raise _Broken("R51", "an update both sets and clears the due date")
        if set(update.assign) & set(update.unassign):
            raise _Broken("R51", "an update assigns and unassigns the same person")
        if update.title is not None:
            self._check_title(update.title)
        self._check_quote(update.quote)

    def _check_title(self, title: str) -> None:
        stripped = title.strip()
        if not stripped or "\n" in stripped or "\r" in stripped:
            raise _Broken("R50", "a title is one line of text")
        if len(stripped) > self._limits.title_characters:
            most = self._limits.title_characters
            raise _Broken("R50", f"a title of {len(stripped)} characters, at most {most}")

    def _check_quote(self, quote: str) -> None:
        """A body is the event's own words; white space may differ, nothing else (R50)."""
        words = _folded(quote)
        if not words or not any(words in said for said in self._said):
            raise _Broken("R50", "the quote is not in the event's own text")


def _folded(text: str) -> str:
    return " ".join(text.split())

"""The first offline judge: a page of named rules. No model, no network, the same answer every time.

For each sentence of the event the first rule that applies decides; they look at the reply mark, the addressee,
the author, recency, the words, and the cue words of `flows.judge.cues`. Precision comes before recall: most of
what a team writes is no task.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import date
from functools import cached_property
from typing import Final

from flows.judge.contract import (
    Answer,
    Proposal,
    ProposedCreate,
    ProposedMatch,
    ProposedNothing,
    ProposedUpdate,
)
from flows.judge.cues import Act, is_small_talk
from flows.judge.dates import find_due
from flows.judge.linking import Link, Linker
from flows.judge.people import addressed, speaker
from flows.judge.sentences import WEEKDAYS, Sentence, content, refers_back, split, subject_of, title_of, words_of
from store.schema import Event, Rejection, Slice, TaskState, View

_SYSTEM_SUBTYPES: Final = ("channel_", "group_", "bot_", "pinned_", "reminder_")
_STATES: Final[tuple[tuple[Act, TaskState], ...]] = (
    ("revival", "open"),
    ("cancellation", "cancelled"),
    ("completion", "done"),
    ("blocked", "blocked"),
    ("start", "in_progress"),
)
"""What a report makes of a row; of several acts in one sentence the first here decides."""

_OVER: Final = ("done", "cancelled")


class RulesJudge:
    """Decides by rules from the event and its View alone."""

    @property
    def name(self) -> str:
        """Name and version; recorded on each Decision."""
        return "offline-rules/1"

    @property
    def remote(self) -> bool:
        """It waits for nobody."""
        return False

    def judge(self, event: Event, view: View, refused: tuple[Rejection, ...]) -> Answer:
        """One proposal for each task the event touches, or one kind of nothing."""
        if _is_system(event):
            return _nothing("a notice of the system, nobody's words")
        if event.is_blank:
            return _nothing("nothing was said")
        linker = Linker(event, view)
        said = [_Said(event, view, sentence, linker) for sentence in split(words_of(event))]
        proposals = _settle(event, [(each, _apply(RULES, each)) for each in said])
        proposals = [proposal for proposal in proposals if not _was_refused(proposal, refused)]
        if not proposals and not refused and linker.has_ties:
            proposals = [match for each in said if (match := _apply((acknowledge,), each))][:1]
        return Answer(proposals=tuple(proposals)) if proposals else _nothing(_why_nothing(said, refused))


class _Said:
    """A sentence with all that the rules look at."""

    def __init__(self, event: Event, view: View, sentence: Sentence, linker: Linker) -> None:
        self.event, self.view, self.sentence, self._linker = event, view, sentence, linker
        self.acts = sentence.acts | speaker(sentence.text, view).acts

    @cached_property
    def link(self) -> Link | None:
        """The row it continues."""
        return self._linker.link(self.sentence._replace(acts=self.acts))

    @cached_property
    def due(self) -> date | None:
        """The date it states, relative to the event's time."""
        return find_due(self.sentence.text, self.event.at)

    @property
    def assignees(self) -> tuple[str, ...]:
        """Handles of those it asks, or of the one who promises."""
        if "commitment" in self.acts:
            promising = speaker(self.sentence.text, self.view).handles
            if promising or self.event.kind == "meeting":  # whoever took the notes is not the "I" in them
                return promising
            return tuple(person.handle for person in self.view.standby.people if person.role == "author")
        return addressed(self.sentence.text, self.event, self.view)


Rule = Callable[[_Said], Proposal | None]


def report(said: _Said) -> Proposal | None:
    """News of a known row changes what it names: its state, its due date, or both."""
    state = next((state for act, state in _STATES if act in said.acts), None)
    due = said.due if "reschedule" in said.acts else None
    if (state is None and due is None) or said.link is None:
        return None
    row = said.link.row
    is_late = said.event.at < row.last_activity
    if state in ("blocked", "in_progress") and row.state in _OVER and not is_late:
        # Only what says so opens a closed row again. Late news is written: it is history, the newer state stays.
        state = None
    # "Is on again" is written even over an open row: the call-off it answers may not be readable yet.
    changed = state if state != row.state or state == "open" else None
    return _update(said, row, state=changed, due=due)


def repeat(said: _Said) -> Proposal | None:
    """A request or a promise about a known row adds a new date or a new hand to it, or nothing."""
    if not said.acts & {"request", "commitment"} or said.link is None:
        return None
    row = said.link.row
    if row.state in _OVER:
        return _match(said, row)
    known = {person.handle for person in said.view.standby.people if person.row_id in row.people[1:]}
    if "request" in said.acts:
        # Whoever asked first and asks again does not become the one to do it.
        known |= {person.handle for person in said.view.standby.people if person.row_id in row.people[:1]}
    return _update(said, row, due=said.due, assign=tuple(p for p in said.assignees if p not in known))


def new_task(said: _Said) -> Proposal | None:
    """A request or a promise that stands for itself and continues no row is a new task."""
    if not said.acts & {"request", "commitment"} or is_small_talk(said.sentence.text) or said.link is not None:
        return None
    about, subject = content(said.sentence.text) - WEEKDAYS, subject_of(said.event)
    title = title_of(said.sentence.text, (name for p in said.view.standby.people for name in p.names))
    if len(about) < 2:
        # "Please check by Friday" under a subject is about the subject; alone it is about nothing.
        if len(content(subject)) < 1 or said.event.kind == "message":
            return None
        title = title_of(subject)
    asked = "asks for" if "request" in said.acts else "promises"
    return ProposedCreate(
        title=title,
        due=said.due,
        quote=said.sentence.text,
        assignees=said.assignees,
        evidence=tuple({row.row_id: row.handle for row in reversed(tuple(said.view.tasks()))}.values())[::-1],
        reason=f"new_task: the sentence {asked} something and no visible row is about it",
        not_nothing=f"The sentence {asked} work of its own, and no row that was shown says it already.",
    )


def acknowledge(said: _Said) -> Proposal | None:
    """A note or thanks on a known row says nothing new of it."""
    if said.link is None or said.link.trust == "text":
        return None
    return _match(said, said.link.row)


RULES: Final[tuple[Rule, ...]] = (report, repeat, new_task)
"""In the order in which they are asked."""


def _apply(rules: Iterable[Rule], said: _Said) -> Proposal | None:
    return next((proposal for rule in rules if (proposal := rule(said)) is not None), None)


def _settle(event: Event, found: list[tuple[_Said, Proposal | None]]) -> list[Proposal]:
    """One proposal a row and one a title: later words about it win, and words about "it" add no task."""
    settled: dict[str, Proposal] = {}
    newest = ""
    for said, proposal in found:
        before = settled.get(newest)
        if not isinstance(proposal, ProposedUpdate | ProposedMatch):
            if isinstance(before, ProposedCreate) and _goes_on(event, before, said):
                # "I need it by Friday": the date belongs to the task before.
                settled[newest] = before.model_copy(update={"due": before.due or said.due})
            elif isinstance(proposal, ProposedCreate):
                newest = f"new:{proposal.title.casefold()}"
                settled.setdefault(newest, proposal)
            continue
        row = said.view.task(proposal.target)
        key = row.row_id if row else proposal.target
        earlier = settled.get(key)
        if isinstance(earlier, ProposedUpdate):
            settled[key] = _merged(event, earlier, proposal) if isinstance(proposal, ProposedUpdate) else earlier
        else:
            settled[key] = proposal
    return list(settled.values())


def _goes_on(event: Event, before: ProposedCreate, said: _Said) -> bool:
    """Whether the sentence speaks on about the task before it, in the same line."""
    between = words_of(event)[: said.sentence.start].rpartition(before.quote)[2]
    return "\n" not in between and refers_back(said.sentence.text)


def _merged(event: Event, earlier: ProposedUpdate, later: ProposedUpdate) -> ProposedUpdate:
    words = words_of(event)
    start = words.find(earlier.quote)
    end = words.find(later.quote, start) + len(later.quote)
    return later.model_copy(
        update={
            "state": later.state or earlier.state,
            "due": later.due or earlier.due,
            "assign": tuple(dict.fromkeys((*earlier.assign, *later.assign))),
            "quote": words[start:end],
        }
    )


def _update(
    said: _Said,
    row: Slice,
    *,
    state: TaskState | None = None,
    due: date | None = None,
    assign: tuple[str, ...] = (),
) -> Proposal:
    due = due if due != row.due else None
    if state is None and due is None and not assign:
        return _match(said, row)
    named = {"state": state, "due": due, "assignees": assign}
    return ProposedUpdate(
        target=row.handle,
        state=state,
        due=due,
        assign=assign,
        quote=said.sentence.text,
        evidence=(row.handle,),
        reason=f"{_known_by(said)}; it names {', '.join(field for field, value in named.items() if value)}",
    )


def _match(said: _Said, row: Slice) -> ProposedMatch:
    return ProposedMatch(target=row.handle, evidence=(row.handle,), reason=f"{_known_by(said)}; it adds nothing")


def _known_by(said: _Said) -> str:
    return f"continues the row by {said.link.trust}" if said.link else "continues no row"


def _is_system(event: Event) -> bool:
    """Joins, topics and the like, as importers mark them."""
    return event.attrs.get("system") is True or str(event.attrs.get("subtype", "")).startswith(_SYSTEM_SUBTYPES)


def _was_refused(proposal: Proposal, refused: tuple[Rejection, ...]) -> bool:
    """Whether the guard refused this, or another change of the same row, or another task of the same words."""
    for rejection in refused:
        try:
            before = json.loads(rejection.proposal)
        except ValueError:
            continue
        if isinstance(before, dict) and before.get("kind") == proposal.kind:
            same = "quote" if isinstance(proposal, ProposedCreate) else "target"
            if before.get(same) == getattr(proposal, same, None):
                return True
    return False


def _why_nothing(said: list[_Said], refused: tuple[Rejection, ...]) -> str:
    if refused:
        return "what the rules would say of it was refused"
    if any(each.acts & {"completion", "cancellation", "start", "blocked", "revival"} for each in said):
        return "a report about no row that was shown"
    return "nobody asks for work or promises it"


def _nothing(reason: str) -> Answer:
    return Answer(proposals=(ProposedNothing(reason=reason),))

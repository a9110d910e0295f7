"""What the operations topic amounts to, folded once more by other means.

A second opinion on the store, in plain dicts: it reads the topic's file as JSON lines and shares nothing with the
code that folds and writes the store but how a person's id is spelled and what an identifier is.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from store.identifiers import find_identifiers
from store.schema.identity import decision_id, event_uid, person_id

_BY_HAND = ("edit", "delete", "restore")
_EDITED = ("title", "state", "due", "clear_due", "assign", "unassign")
_AFTER_EVENTS = 2**62
"""The sequence of what people do begins here, so that it follows every event of the same instant."""
_POSTDATED = timedelta(minutes=5)

Version = tuple[datetime, int, str]
"""Event time, place, operation: compared in this order."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Step:
    """What one operation does to one task, whole."""

    version: Version
    said: Mapping[str, Any]
    """The operation as it stands in the message."""
    event: Mapping[str, Any] | None
    """The event it came from; None for what a person does."""
    uid: str | None

    @property
    def kind(self) -> str:
        return str(self.said["kind"])


def rows_of_topic(path: Path) -> dict[str, list[Row]]:
    """Tasks, people and events of an operations topic file, each ordered by id, as `rows_of` gives a store's."""
    lines = path.read_bytes().split(b"\n")[1:-1]
    fields = [json.loads(line) for line in lines]
    return rows_of_messages(
        (json.loads(each["value"]), offset, moment(each["at"])) for offset, each in enumerate(fields)
    )


def rows_of_messages(topic: Iterable[tuple[Mapping[str, Any], int, datetime]]) -> dict[str, list[Row]]:
    """The same of messages, each with its offset and the time it was appended."""
    decided: dict[str, Mapping[str, Any]] = {}
    parked: dict[str, Mapping[str, Any]] = {}
    by_hand: dict[str, tuple[Mapping[str, Any], int, datetime]] = {}
    for message, offset, appended in topic:
        kind = message["kind"]
        if kind == "decision":
            decided.setdefault(_uid(message), message)
        elif kind == "parked":
            parked[_uid(message)] = message
        elif kind in _BY_HAND:
            by_hand.setdefault(message["id"], (message, offset, appended))
    steps: defaultdict[str, list[_Step]] = defaultdict(list)
    for uid, message in decided.items():
        arrival = message["arrival"]
        for said in message["operations"]:
            if said["kind"] in ("create", "update"):
                version = (_happened(arrival), arrival["coordinates"]["offset"], said["id"])
                steps[said["task"]].append(_Step(version, said, arrival["event"], uid))
    for message, offset, appended in by_hand.values():
        if message["kind"] == "edit" and not any(message[name] for name in _EDITED):
            continue
        version = (appended, _AFTER_EVENTS + offset, message["id"])
        steps[message["row"]].append(_Step(version, message, None, None))
    tasks = [row for row_id, found in steps.items() if (row := _task(row_id, found))]
    events = [_event(uid, message) for uid, message in {**parked, **decided}.items()]
    return {
        "tasks": sorted(tasks, key=_by_id),
        "people": sorted(_people(decided.values()), key=_by_id),
        "events": sorted(events, key=_by_id),
    }


def moment(written: str) -> datetime:
    """A time as it is written in a message."""
    return datetime.fromisoformat(written)


def _by_id(row: Row) -> str:
    return str(row["id"])


def _uid(message: Mapping[str, Any]) -> str:
    event = message["arrival"]["event"]
    return event_uid(event["workspace"], event["source"], event["thread"], event["id"])


def _happened(arrival: Mapping[str, Any]) -> datetime:
    return min(moment(arrival["event"]["at"]), moment(arrival["arrived"]))


def _task(row_id: str, steps: list[_Step]) -> Row | None:
    """Play the steps in the order of their versions; None when there is nothing to list at the end."""
    row: Row = {"due": None, "requester": None}
    members: set[str] = set()
    evidence: list[str] = []
    participants: list[str] = []
    identifiers: list[str] = []
    last: Version | None = None
    exists = deleted = False
    for step in sorted(steps, key=lambda step: step.version):
        said, kind = step.said, step.kind
        if kind == "restore":
            deleted = False
        elif kind == "create":
            exists = True
        elif deleted:
            continue
        elif kind == "delete":
            deleted = True
        last = step.version
        if step.event and step.uid:
            evidence += [step.uid] if step.uid not in evidence else []
            participants += [who for who in sorted(_people_of(step.event)) if who not in participants]
        if step.event:
            words = f"{step.event['subject'] or ''}\n{said['quote'] if kind == 'update' else ''}"
            named = sorted({found.key for found in find_identifiers(words)[:16]})
            identifiers += [key for key in named if key not in identifiers]
        if kind == "create" and step.event:
            row |= {"workspace": step.event["workspace"], "thread": step.event["thread"], "body": said["quote"]}
            row |= {"requester": said["requester"], "created": step.version[0]}
            members |= set(said["assignees"])
        if kind in ("create", "update", "edit"):
            row |= {name: said[name] for name in ("title", "state") if said[name] is not None}
            if said["due"] is not None or said.get("clear_due"):
                row["due"] = date.fromisoformat(said["due"]) if said["due"] else None
            members = (members | set(said.get("assign", ()))) - set(said.get("unassign", ()))
    if not exists or deleted or last is None:
        return None
    version = dict(zip(("at", "seq", "operation"), last, strict=True))
    grown = {"assignees": sorted(members), "evidence": evidence, "updated": last[0], "version": version}
    grown |= {"participants": participants, "identifiers": identifiers}
    return {"id": row_id, **row, **grown}


def _people_of(event: Mapping[str, Any]) -> set[str]:
    said = (event["author"], *event["mentions"])
    found = {person_id(event["workspace"], event["source"], who["id"], who["address"]) for who in said}
    return {who for who in found if who}


def _people(decisions: Iterable[Mapping[str, Any]]) -> list[Row]:
    people: dict[str, Row] = {}
    for decision in decisions:
        arrival, event = decision["arrival"], decision["arrival"]["event"]
        happened = _happened(arrival)
        for who in (event["author"], *event["mentions"]):
            row_id = person_id(event["workspace"], event["source"], who["id"], who["address"])
            if row_id is None:
                continue
            new = {"first_seen": happened, "last_seen": happened, "names": set(), "addresses": set()}
            row = people.setdefault(row_id, {"id": row_id, "workspace": event["workspace"], **new})
            row["names"] |= {who["name"]} if who["name"] else set()
            row["addresses"] |= {who["address"]} if who["address"] else set()
            row["first_seen"] = min(row["first_seen"], happened)
            row["last_seen"] = max(row["last_seen"], happened)
    return [
        {**row, "names": sorted(row["names"]), "addresses": sorted(row["addresses"])} for row in people.values()
    ]


def _event(uid: str, message: Mapping[str, Any]) -> Row:
    arrival, event = message["arrival"], message["arrival"]["event"]
    author = event["author"]
    operations = message.get("operations", ())
    kinds = {said["kind"] for said in operations}
    ranked = {"create": "created", "update": "updated", "matched": "matched", "not_a_task": "not_a_task"}
    standing = message["kind"] == "decision"
    arrived = moment(arrival["arrived"])
    return {
        "id": uid,
        **{name: event[name] for name in ("workspace", "source", "thread", "kind", "subject", "text")},
        "source_id": event["id"],
        "at": _happened(arrival),
        "arrived": arrived,
        "seq": arrival["coordinates"]["offset"],
        "author": person_id(event["workspace"], event["source"], author["id"], author["address"]),
        "author_label": author["name"] or author["address"] or author["id"],
        "outcome": next(ranked[kind] for kind in ranked if kind in kinds) if standing else "parked",
        "decision": decision_id(uid) if standing else None,
        "rows": list(dict.fromkeys(said["task"] for said in operations if "task" in said)),
        "postdated": moment(event["at"]) - arrived > _POSTDATED,
        "unkeyed": arrival["unkeyed"],
    }

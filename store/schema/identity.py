"""Ids: pure functions of what happened, never of a clock, a random number or an order of arrival.

Every id is a short letter, a dash and 96 bits of a hash over JSON, so that no two different tuples of
parts can be spelled alike (`("a/b", "c")` is not `("a", "b/c")`).
"""

from __future__ import annotations

import hashlib
import json

_DIGEST_BYTES = 12


_spell = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def derive_id(letter: str, *parts: str | int | None) -> str:
    """Hash `parts` into an id such as `t-3f2a…` (24 hexadecimal digits)."""
    digest = hashlib.blake2b(_spell([letter, *parts]).encode("utf-8"), digest_size=_DIGEST_BYTES)
    return f"{letter}-{digest.hexdigest()}"


def event_uid(workspace: str, source: str, thread: str, event_id: str) -> str:
    """The identity of an event; every other id of its making is derived from it."""
    return derive_id("e", workspace, source, thread, event_id)


def decision_id(event: str) -> str:
    """One event has one Decision."""
    return derive_id("d", event)


def operation_id(event: str, segment: int, number: int) -> str:
    """The `number`-th operation of a segment of an event."""
    return derive_id("o", event, segment, number)


def task_id(operation: str) -> str:
    """The row that a create makes."""
    return derive_id("t", operation)


def session_entry_id(made_by: str) -> str:
    """The entry that a Decision or an operation leaves in its session."""
    return derive_id("s", made_by)


def person_id(workspace: str, source: str, user: str | None, address: str | None) -> str | None:
    """Identity from the address, else from the source's user id; a name alone identifies nobody."""
    if address:
        return derive_id("p", workspace, "address", address.casefold())
    if user:
        return derive_id("p", workspace, source, user)
    return None


def stream_key(workspace: str, thread: str) -> str:
    """The key events are partitioned by: one thread stays in one partition, in order."""
    return f"{workspace}/{thread}"

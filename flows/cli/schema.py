"""`lookfirst schema`: the contracts as JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import click
from pydantic import TypeAdapter

from flows.cli.console import emit
from store.schema import (
    Change,
    DeadLetter,
    Decision,
    Event,
    EventRow,
    Message,
    Operation,
    PersonRow,
    Settings,
    TaskRow,
    UsageError,
    View,
)

CONTRACTS: Final[Mapping[str, Any]] = {
    "event": Event,
    "view": View,
    "decision": Decision,
    "operation": Operation,
    "message": Message,
    "task": TaskRow,
    "person": PersonRow,
    "event-row": EventRow,
    "change": Change,
    "dead-letter": DeadLetter,
    "settings": Settings,
}
"""By the name a person types."""


@click.command()
@click.argument("name", required=False)
def schema(name: str | None) -> None:
    """Print a contract as JSON Schema; without NAME, list them."""
    if name is None:
        for known in CONTRACTS:
            emit(known)
    elif name not in CONTRACTS:
        raise UsageError(f"There is no contract {name!r}; the contracts are {', '.join(CONTRACTS)}.")
    else:
        emit(json.dumps(contract(name), indent=2, ensure_ascii=False))


def contract(name: str) -> dict[str, Any]:
    """The JSON Schema of one contract."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **TypeAdapter(CONTRACTS[name]).json_schema(),
    }

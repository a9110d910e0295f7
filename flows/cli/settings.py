"""`lookfirst settings`: every setting as it is in effect, and where its value comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import click
from pydantic import BaseModel, SecretStr
from rich.table import Table

from flows.cli.console import cell, emit, page, table
from flows.cli.options import json_option
from store.schema import Frozen, Settings, load_settings

_HIDDEN: Final = "****"

Value = str | int | float | bool | None


class Effective(Frozen):
    """One setting of this process."""

    name: str
    variable: str
    """The environment variable that sets it: as it is spelled there, else as it is documented."""
    value: Value
    default: Value
    description: str
    """What it is, with its unit in brackets."""
    source: Literal["environment", "default"]


@click.command()
@json_option("One JSON object a line instead, each a setting.")
def settings(as_json: bool) -> None:
    """Show every setting in effect, its default, its unit, and where its value comes from.

    A setting comes from the environment variable LOOKFIRST_ and its name in capitals, else from its default.
    Secrets are shown as ****.
    """
    shown = effective(load_settings(), os.environ)
    if as_json:
        for each in shown:
            emit(each.model_dump_json())
    else:
        page().print(_table(shown))


def effective(settings: Settings, environment: Mapping[str, str]) -> tuple[Effective, ...]:
    """The settings with their sources, as the process reads them from this environment; no secret among them."""
    return tuple(_each(settings, environment))


def _each(settings: Settings, environment: Mapping[str, str]) -> Iterator[Effective]:
    # As the library looks them up: in any case, of several spellings the last.
    spelled = {name.lower(): name for name in environment}
    prefix = settings.model_config.get("env_prefix", "")
    for name, described in type(settings).model_fields.items():
        variable = f"{prefix}{name}".upper()
        found = spelled.get(variable.lower())
        yield Effective(
            name=name,
            variable=found or variable,
            value=_shown(getattr(settings, name)),
            default=_shown(described.get_default(call_default_factory=True, validated_data={})),
            description=described.description or "",
            source="environment" if found else "default",
        )


def _shown(value: object) -> Value:
    match value:
        case SecretStr():
            return _HIDDEN
        case None | str() | int() | float():
            return value
        case BaseModel():
            return value.model_dump_json()
        case _:
            return str(value)


def _table(shown: tuple[Effective, ...]) -> Table:
    made = table("", "setting", "value", "default", "what it is", "source")
    for each in shown:
        is_set = each.source == "environment"
        made.add_row(
            cell(each.name),
            cell(str(each.value), "bold" if is_set else ""),
            cell(str(each.default)),
            cell(each.description),
            cell(f"environment {each.variable}" if is_set else "default"),
        )
    return made

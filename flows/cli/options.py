"""Options that several commands share: named and explained once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from flows.data_folder import DataFolder
from store import Store
from store.schema import Settings, UsageError, load_settings

DATA: Final = Path("data")
"""The data folder when none is named: `./data`."""
FOLDER_VARIABLE: Final = "LOOKFIRST_FOLDER"
"""Environment variable that names the data folder instead."""

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Decorator = Callable[[_Command], _Command]


def _folder(context: click.Context, parameter: click.Parameter, typed: str) -> Path:
    """An empty name is mostly a variable that is not set; it must not mean the folder one happens to be in."""
    if not typed.strip():
        raise UsageError("--data is empty; name a folder.")
    with suppress(OSError):
        # A name that the system will not have is told by whoever uses it.
        if Path(typed).is_file():
            raise UsageError(f"{typed} is a file; --data names a folder.")
    return Path(typed)


def data_option(command: _Command) -> _Command:
    """`--data DIR`, the folder of topics, store and state."""
    return click.option(
        "--data",
        type=str,
        default=str(DATA),
        envvar=FOLDER_VARIABLE,
        show_default=True,
        show_envvar=True,
        metavar="DIR",
        callback=_folder,
        help="Folder with everything a run keeps.",
    )(command)


def json_option(help_text: str) -> Callable[[_Command], _Command]:
    """`--json`, for programs."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


def workspace_option(help_text: str, default: str | None = None) -> Callable[[_Command], _Command]:
    """`--workspace W`."""
    shown = default is not None
    return click.option("--workspace", default=default, metavar="W", show_default=shown, help=help_text)


def limit_option(default: int) -> Callable[[_Command], _Command]:
    """`--limit N`."""
    return click.option(
        "--limit",
        type=click.IntRange(1, 1_000_000),
        default=default,
        show_default=True,
        metavar="N",
        help="Rows at most.",
    )


def settings_and_store(data: Path) -> tuple[Settings, Store]:
    """The effective settings and the store of a data folder, for reading."""
    settings = load_settings()
    return settings, DataFolder.at(data, settings).store()

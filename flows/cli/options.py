"""Options that several commands share: named and explained once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from connectors.health import Address, served
from flows.cli.console import say
from flows.data_folder import DataFolder
from flows.health import health_pages
from flows.vitals import Vitals
from store import Store
from store.schema import Settings, UsageError, load_settings

DATA: Final = Path("data")
"""The data folder when none is named: `./data`."""
FOLDER_VARIABLE: Final = "LOOKFIRST_FOLDER"
"""Environment variable that names the data folder instead."""
BROKERS_VARIABLE: Final = "LOOKFIRST_BROKERS"
"""Environment variable that names the brokers instead."""

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


def brokers_option(help_text: str, *, required: bool = False) -> Callable[[_Command], _Command]:
    """`--brokers HOST:PORT,…`."""
    return click.option(
        "--brokers",
        envvar=BROKERS_VARIABLE,
        required=required,
        metavar="HOST:PORT,…",
        show_envvar=True,
        help=help_text,
    )


def health_option(command: _Command) -> _Command:
    """`--health [HOST:]PORT`."""
    return click.option(
        "--health",
        metavar="[HOST:]PORT",
        help="Serve /healthz, /readyz and /metrics meanwhile; on 127.0.0.1 if no host is named, port 0 is any.",
    )(command)


@contextmanager
def shown_over_http(vitals: Callable[[], Vitals], health: str | None) -> Iterator[None]:
    """Show over HTTP how a run is, where that was asked for."""
    if health is None:
        yield
        return
    with served(Address.parse(health), health_pages(vitals)) as address:
        say(f"Health is at {address.url}/readyz, metrics at {address.url}/metrics.")
        yield


def refuse_options_before(context: click.Context, name: str) -> None:
    """Between a command and its second word an option would be taken for the first one's, and do nothing."""
    typed = [
        each
        for each in context.command.params
        if context.get_parameter_source(each.name or "") is click.core.ParameterSource.COMMANDLINE
    ]
    if typed:
        command = context.info_name
        raise click.UsageError(
            f"Options of `{command} {name}` stand behind it, like `{command} {name} --data DIR`."
        )


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


def offsets_typed(typed: str) -> dict[int, int]:
    """Read `P:O,P:O`; raises UsageError."""
    found: dict[int, int] = {}
    for each in typed.split(","):
        partition, colon, offset = each.strip().partition(":")
        if not (colon and partition.isascii() and partition.isdigit() and offset.isascii() and offset.isdigit()):
            raise UsageError(
                f"{each.strip()!r} is no place; write --offsets like 0:1200,3:980 (PARTITION:OFFSET)."
            )
        found[int(partition)] = int(offset)
    return found


def settings_and_store(data: Path) -> tuple[Settings, Store]:
    """The effective settings and the store of a data folder, for reading."""
    settings = load_settings()
    return settings, DataFolder.at(data, settings).store()

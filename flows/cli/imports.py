"""`lookfirst import`: exports of other systems become events, one JSON line each."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import click

from connectors.imported import Imported
from connectors.jsonl import UNMAPPED, parse_mapping, read_jsonl
from connectors.slack import read_slack
from flows.cli.console import say
from flows.cli.options import workspace_option
from store.schema import UsageError

_PROBLEMS: Final = 5
"""Problems that are told (count); every one of them will be in the dead letters."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _out_option(command: _Command) -> _Command:
    return click.option(
        "--out",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the lines here, all or none, instead of to stdout.",
    )(command)


@click.command("slack")
@click.argument("path", type=click.Path(path_type=Path))
@workspace_option("Workspace of the events.", "default")
@_out_option
def import_slack(path: Path, workspace: str, out: Path | None) -> None:
    """Read a Slack export (a folder or a zip file)."""
    _write(read_slack(path, workspace=workspace), out)


@click.command("jsonl")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--map", "mapped", metavar="FIELD=NAME,…", help="Event fields and the input fields that fill them.")
@click.option("--zone", metavar="NAME", help="Time zone of times without one, such as Europe/Berlin.")
@workspace_option("Workspace of lines that name none.", "default")
@click.option("--source", default="jsonl", metavar="S", show_default=True, help="Source of lines that name none.")
@_out_option
def import_jsonl(
    path: Path, mapped: str | None, zone: str | None, workspace: str, source: str, out: Path | None
) -> None:
    """Read a file of JSON objects, one a line."""
    mapping = parse_mapping(mapped) if mapped else UNMAPPED
    known_zone = _zone(zone) if zone else None
    _write(read_jsonl(path, mapping=mapping, zone=known_zone, workspace=workspace, source=source), out)


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    # KeyError: unknown; the others: not even a name (`../etc`, an empty part, a folder of zones).
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(
            f"There is no time zone {name!r}; name one of the IANA database, such as Europe/Berlin or UTC."
        ) from error


def _write(lines: Iterable[Imported], out: Path | None) -> None:
    """Write what was imported, then say how much of it is events and what is wrong with the rest."""
    events = 0
    problems: list[str] = []
    unreadable = 0
    with _opened(out) as write:
        for imported in lines:
            write(imported.line + "\n")
            if imported.problem is None:
                events += 1
                continue
            unreadable += 1
            if len(problems) < _PROBLEMS:
                problems.append(f"{imported.origin}: {imported.problem}")
    say(f"{_counted(events, 'event')}; {_counted(unreadable, 'line')} that a run will put in the dead letters.")
    for problem in problems:
        say(f"- {problem}")
    if unreadable > len(problems):
        say(f"- and {unreadable - len(problems):,} more")


@contextmanager
def _opened(out: Path | None) -> Iterator[Callable[[str], object]]:
    """Where lines go: stdout, or a file that appears only when it is whole."""
    if out is None:
        yield sys.stdout.write
        return
    try:
        # Beside the target, because a rename is atomic only within a file system.
        descriptor, made = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    except OSError as error:
        raise _unwritable(out, error) from error
    part = Path(made)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            yield file.write
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o644)
        part.replace(out)
    except OSError as error:
        raise _unwritable(out, error) from error
    finally:
        part.unlink(missing_ok=True)


def _unwritable(out: Path, error: OSError) -> UsageError:
    return UsageError(f"{out} cannot be written ({error.strerror}); name a file in a folder that can.")


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"

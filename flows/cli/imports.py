"""`lookfirst import`: exports of other systems become events, one JSON line each, or messages on Kafka."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

import click

from connectors.imported import Imported
from connectors.jsonl import UNMAPPED, parse_mapping, read_jsonl
from connectors.slack import read_slack
from flows.cli.console import cell, page, say
from flows.cli.options import DATA, workspace_option
from store.schema import UsageError, load_settings

_PROBLEMS: Final = 5
"""Problems that are told (count); every one of them will be in the dead letters."""

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Target:
    """Where the lines go: to stdout unless one of the two is named."""

    out: Path | None
    brokers: str | None
    backfill: bool


def _target_options(command: _Command) -> _Command:
    for option in (
        click.option(
            "--backfill",
            is_flag=True,
            help="With --brokers: wait while much is undecided, for what others produce meanwhile.",
        ),
        # Not by LOOKFIRST_BROKERS: whoever has set that may still want lines to look at.
        click.option(
            "--brokers",
            metavar="HOST:PORT,…",
            help="Append to the events topic on these brokers, as `produce` does, instead; to be named here.",
        ),
        click.option(
            "--out",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Write the lines here, all or none, instead of to stdout.",
        ),
    ):
        command = option(command)
    return command


@click.command("slack")
@click.argument("path", type=click.Path(path_type=Path))
@workspace_option("Workspace of the events.", "default")
@_target_options
def import_slack(path: Path, workspace: str, **target: Any) -> int:
    """Read a Slack export (a folder or a zip file)."""
    return _put(read_slack(path, workspace=workspace), path, _Target(**target))


@click.command("jsonl")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--map", "mapped", metavar="FIELD=NAME,…", help="Event fields and the input fields that fill them.")
@click.option("--zone", metavar="NAME", help="Time zone of times without one, such as Europe/Berlin.")
@workspace_option("Workspace of lines that name none.", "default")
@click.option("--source", default="jsonl", metavar="S", show_default=True, help="Source of lines that name none.")
@_target_options
def import_jsonl(
    path: Path, mapped: str | None, zone: str | None, workspace: str, source: str, **target: Any
) -> int:
    """Read a file of JSON objects, one a line."""
    mapping = parse_mapping(mapped) if mapped else UNMAPPED
    known_zone = _zone(zone) if zone else None
    lines = read_jsonl(path, mapping=mapping, zone=known_zone, workspace=workspace, source=source)
    return _put(lines, path, _Target(**target))


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    # KeyError: unknown; the others: not even a name (`../etc`, an empty part, a folder of zones).
    except (KeyError, ValueError, OSError) as error:
        raise UsageError(
            f"There is no time zone {name!r}; name one of the IANA database, such as Europe/Berlin or UTC."
        ) from error


def _put(lines: Iterable[Imported], path: Path, target: _Target) -> int:
    """Bring the lines to where they go; returns the exit code. Raises UsageError for a target that is none."""
    if target.brokers is not None and target.out is not None:
        raise UsageError("--out and --brokers are two places for the same lines; name one of them.")
    if target.brokers is not None:
        return _send(lines, path, target.brokers, backfill=target.backfill)
    if target.backfill:
        raise UsageError("--backfill waits for `lookfirst run decide` on Kafka; name --brokers, or leave it out.")
    _write(lines, target.out)
    return 0


def _send(lines: Iterable[Imported], path: Path, brokers: str, *, backfill: bool) -> int:
    # What speaks to brokers takes a moment to import, and nothing else here needs it.
    from flows.cli.produce import send
    from flows.data_folder import DataFolder

    settings = load_settings()
    sent = send(lines, path.name, DataFolder.at(DATA, settings), settings, brokers, backfill=backfill)
    page().print(cell(sent.sentence()))
    sent.tell_problems()
    return sent.code


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

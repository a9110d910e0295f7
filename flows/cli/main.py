"""`lookfirst`: the commands, and the one place where errors become sentences and exit codes.

Exit codes: 0 done, 1 a fault of the run, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import difflib
import errno
import io
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

import click

from flows.cli.console import report, say
from flows.cli.logs import logs_on_stderr, panics_kept_back, tell_more
from store.schema import LookfirstError, UsageError

DONE, FAULT, USAGE, INTERRUPTED = 0, 1, 2, 130


@dataclass(slots=True)
class Global:
    """The options before the command, for whoever reports its errors."""

    debug: bool = False


class Commands(click.Group):
    """A group that imports a command when it is asked for, and suggests the closest one for a mistyped name.

    The database and the engine take seconds to import; `schema` and `import` need neither.
    """

    def __init__(self, *arguments: Any, found_in: Mapping[str, str], **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._found_in = found_in

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self._found_in})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._found_in:
            module, _, attribute = self._found_in[cmd_name].partition(":")
            command = getattr(import_module(module), attribute)
            assert isinstance(command, click.Command)  # noqa: S101  a name in our own table
            return command
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            names = self.list_commands(ctx)
            close = difflib.get_close_matches(name, names, n=1)
            meant = f"did you mean {close[0]}?" if close else f"the commands are {', '.join(names)}."
            raise click.UsageError(f"{ctx.command_path} has no command {name!r}; {meant}")
        return super().resolve_command(ctx, args)


COMMANDS: Final[Mapping[str, str]] = {
    "bench": "flows.cli.bench:bench",
    "delete": "flows.cli.edit:delete_command",
    "dev-broker": "flows.cli.dev_broker:dev_broker",
    "doctor": "flows.cli.doctor:doctor",
    "edit": "flows.cli.edit:edit_command",
    "events": "flows.cli.pages:events",
    "maintain": "flows.cli.maintain:maintain",
    "people": "flows.cli.pages:people",
    "produce": "flows.cli.produce:produce",
    "rebuild": "flows.cli.rebuild:rebuild",
    "replay": "flows.cli.replay:replay",
    "restore": "flows.cli.edit:restore_command",
    "run": "flows.cli.run:run",
    "schema": "flows.cli.schema:schema",
    "search": "flows.cli.search:search",
    "settings": "flows.cli.settings:settings",
    "show": "flows.cli.show:show",
    "tasks": "flows.cli.pages:tasks",
    "topics": "flows.cli.topics:topics",
    "up": "flows.cli.up:up",
    "why": "flows.cli.why:why",
}
IMPORTS: Final[Mapping[str, str]] = {
    "jsonl": "flows.cli.imports:import_jsonl",
    "slack": "flows.cli.imports:import_slack",
}


@click.group(
    cls=Commands,
    found_in=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error, and more of the log.")
@click.version_option(package_name="lookfirst", prog_name="lookfirst", message="%(prog)s %(version)s")
@click.pass_context
def cli(context: click.Context, debug: bool) -> None:
    """Turn a team's messages into tasks, events and people, and look before deciding."""
    context.ensure_object(Global).debug = debug
    if debug:
        tell_more()
    elif context.invoked_subcommand in ("run", "up"):
        context.with_resource(panics_kept_back())
    _help_when_alone(context)


@cli.group("import", cls=Commands, found_in=IMPORTS, invoke_without_command=True)
@click.pass_context
def import_group(context: click.Context) -> None:
    """Turn an export of another system into events."""
    _help_when_alone(context)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; whatever goes wrong is one sentence on stderr."""
    options = Global()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # JSON is UTF-8 whatever the locale, and a character that cannot be written is no reason to stop.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        with logs_on_stderr():
            code = cli.main(arguments, prog_name="lookfirst", standalone_mode=False, obj=options)
        sys.stdout.flush()
    except SystemExit as ended:
        # So click ends the process for a pipe that was closed, with 1.
        _discard_stdout()
        return DONE if ended.code in (None, DONE, FAULT) else FAULT
    except BrokenPipeError:
        # Whoever read the output has seen enough.
        _discard_stdout()
        return DONE
    except Exception as error:
        if options.debug:
            report(traceback.format_exc())
        sentence, code = _told(error)
        say(sentence)
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    return code if isinstance(code, int) else DONE


def _help_when_alone(context: click.Context) -> None:
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def _told(error: Exception) -> tuple[str, int]:
    """The sentence and the exit code of an error."""
    match error:
        case click.Abort():
            return "Interrupted.", INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():
            context = error.ctx
            names = context.command.list_commands(context) if isinstance(context.command, click.Group) else ()
            return f"{context.command_path} needs one of {', '.join(names)}.", USAGE
        case click.UsageError():
            return _usage(error), USAGE
        case UsageError():
            return str(error), USAGE
        case click.ClickException():
            return error.format_message(), error.exit_code
        case LookfirstError():
            return str(error), FAULT
        case OSError(errno=errno.ENOSPC | errno.EIO, filename=None):
            return f"The output cannot be written: {error.strerror}; what the command did stands.", FAULT
        case RuntimeError() if str(error).startswith("lance error"):
            from store.tables import cause_of

            return (
                f"A table of the store cannot be read: {cause_of(error)}; `lookfirst doctor` says more, "
                "`lookfirst rebuild store` makes it anew."
            ), FAULT
        case _:
            what = f"{type(error).__name__}: {error}".rstrip(".")
            return f"Something unforeseen went wrong, {what}; run `lookfirst --debug …` for the traceback.", FAULT


def _usage(error: click.UsageError) -> str:
    message = error.format_message()
    if error.ctx is None:
        return message
    return f"{message.rstrip('.')} (see `{error.ctx.command_path} --help`)"


def _discard_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain."""
    with contextlib.suppress(OSError, io.UnsupportedOperation):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())

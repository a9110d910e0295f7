"""How text reaches a person: pages on stdout, sentences on stderr, and nothing an event says may steer either."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import datetime
from typing import Final, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from store.schema.masking import mask

_WIDTH: Final = 160
"""Width of a page that goes to a file or a pipe (characters)."""

_NARROW: Final = frozenset({"id", "state", "due", "outcome", "at (UTC)", "updated (UTC)", "count"})
"""Columns whose cells are short and read as one word."""

# Control characters (ESC begins a terminal's commands), marks that turn the direction of writing, and the line
# ends that `splitlines` knows and people do not.
_UNSAFE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SPACES: Final = re.compile(r"[ \t\r\n]+")


def display(text: str) -> str:
    """Text as one harmless line: runs of spaces become one, control and bidi characters visible escapes."""
    return _UNSAFE.sub(_escape, _SPACES.sub(" ", text)).strip()


def display_lines(text: str) -> str:
    """The same with its lines kept."""
    return "\n".join(display(line) for line in text.splitlines())


def cell(text: str | None, style: str = "") -> Text:
    """Somebody's words for a table or a line: never markup."""
    return Text(display(text or ""), style=style)


def moment(value: datetime) -> str:
    """A time for a page, in UTC to the minute."""
    return value.strftime("%Y-%m-%d %H:%M")


def page() -> Console:
    """Where a command's result goes."""
    return _console(sys.stdout)


def notes() -> Console:
    """Where progress and sentences to the person go, so that a pipe holds the result alone."""
    return _console(sys.stderr)


def say(sentence: str) -> None:
    """One sentence on stderr, as it is: not wrapped, not coloured, harmless, and without secrets."""
    print(display(mask(sentence)), file=sys.stderr)


def report(block: str) -> None:
    """A traceback or a log record on stderr: the same, with its lines and their indentation kept."""
    lines = (_UNSAFE.sub(_escape, line) for line in mask(block).splitlines())
    print("\n".join(lines), file=sys.stderr)


def emit(json_text: str) -> None:
    """JSON on stdout, for programs: characters that could steer a terminal leave as JSON escapes, same value."""
    lines = (_UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in json_text.split("\n"))
    sys.stdout.write("\n".join(lines) + "\n")


def table(title: str, *columns: str) -> Table:
    """A table without side rules; its cells are whatever is added as `Text`."""
    made = Table(
        title=title or None, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for column in columns:
        made.add_column(column, overflow="fold", no_wrap=column in _NARROW)
    return made


def fields(rows: Iterable[tuple[str, str]]) -> Table:
    """Labelled lines: a label that repeats is written once; lines of a text stay lines."""
    made = Table.grid(padding=(0, 2))
    made.add_column(no_wrap=True, style="dim")
    made.add_column(overflow="fold")
    before = ""
    for label, text in rows:
        made.add_row(cell("" if label == before else label), Text(display_lines(text)))
        before = label
    return made


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """Leave it to `main`, which is the one place that ends the process."""
        raise BrokenPipeError


def _console(stream: TextIO) -> Console:
    terminal = stream.isatty()
    return _Console(
        file=stream,
        width=None if terminal else _WIDTH,
        force_terminal=None if terminal else False,
        highlight=False,
        markup=False,
        emoji=False,
    )


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"

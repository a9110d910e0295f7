"""What goes to stderr beside the commands' own sentences: the log, masked and harmless, and no engine's panics."""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from flows.cli.console import report

_STDERR: Final = 2


@contextmanager
def logs_on_stderr() -> Iterator[None]:
    """Write warnings and worse to stderr meanwhile, in this process; `tell_more` adds what is merely informing."""
    root, library = logging.getLogger(), logging.getLogger("kafka")
    level, handler = root.level, _Stderr()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    # Each of its attempts is a warning, where the run says in one sentence what came of them.
    library.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        library.setLevel(logging.NOTSET)
        root.removeHandler(handler)
        root.setLevel(level)


def tell_more() -> None:
    """Log what is informing too, as `--debug` asks; never less, for then the Kafka library shows secrets."""
    logging.getLogger().setLevel(logging.INFO)
    logging.getLogger("kafka").setLevel(logging.INFO)


@contextmanager
def panics_kept_back() -> Iterator[None]:
    """Send to nowhere what native libraries write to the process's stderr; Python's own goes on to it.

    The engine prints a panic and a backtrace for each error of a step, on its way to the one place that makes a
    sentence of it. What is not this process's real stderr, such as a test's, stays as it is.
    """
    try:
        own = sys.stderr.fileno() == _STDERR
    except (OSError, io.UnsupportedOperation):
        own = False
    if not own:
        yield
        return
    before, kept = sys.stderr, os.dup(_STDERR)
    before.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    os.close(nowhere)
    try:
        with open(
            kept, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
        ) as sys.stderr:
            yield
    finally:
        sys.stderr = before
        os.dup2(kept, _STDERR)
        os.close(kept)


class _Stderr(logging.Handler):
    """Looks stderr up for each record: while a line of progress is shown, something else stands in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            # The whole of it, with the traceback that the formatter has added.
            report(self.format(record))
        except Exception:
            self.handleError(record)

"""Places where a test may have the process killed, to see that nothing is lost there.

`LOOKFIRST_FAILPOINT=commit.tasks.after` kills the process, as `kill -9` would, when it first comes to that place;
`LOOKFIRST_FAILPOINT=commit.tasks.after:3` when it comes there for the third time. Without it a failpoint costs a
comparison.
"""

from __future__ import annotations

import os
import signal
from typing import Final

_STEPS: Final = ("changes", "tasks", "people", "sessions", "decisions", "events", "positions", "memory")

FAILPOINTS: Final = (
    *(f"commit.{step}.{side}" for step in _STEPS for side in ("before", "after")),
    "append.before",
    "append.after",
    "snapshot.before",
    "judgment.before",
    "judgment.after",
)
"""Every failpoint: around each step of a commit, each append to a topic and each judgment, and before a source's
place is recorded (`append.after` and `snapshot.before` lie on the two sides of what was emitted and not recorded).
"""

VARIABLE: Final = "LOOKFIRST_FAILPOINT"


class _Armed:
    def __init__(self, named: str) -> None:
        self.name, _, count = named.partition(":")
        self.left = int(count) if count.isdecimal() else 1


_armed: Final = _Armed(os.environ.get(VARIABLE, ""))


def reach(name: str) -> None:
    """Say that this place was reached; the process ends here when the place is armed and its turn has come."""
    if name == _armed.name:
        _armed.left -= 1
        if _armed.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

"""How a long step tells how far it is, without knowing who listens."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Told what is done at present, how much of it (count), and of how much (count)."""


def no_progress(what: str, done: int, total: int) -> None:
    """Tell nobody."""

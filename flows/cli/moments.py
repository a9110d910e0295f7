"""Moments that a person types, and the record as it was at one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import Any, Final, TypeVar

import click

from store import Store
from store.past import Reads
from store.schema import UsageError
from store.schema.base import to_utc

_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_WRITTEN: Final = "RFC 3339 with a zone, or a date, which is its end in UTC."

_Command = TypeVar("_Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Moments:
    """The moment whose rows are asked for, in event time and in arrival; None is now."""

    as_of: datetime | None = None
    known_at: datetime | None = None

    def reads(self, store: Store) -> Reads:
        """The record of a store as it was then; the record itself when no moment is named."""
        if self.as_of is None and self.known_at is None:
            return store.record
        return store.past(as_of=self.as_of, known_at=self.known_at)

    @property
    def words(self) -> str:
        """When that is, for a sentence or a title: `as of … UTC, as known at … UTC`; empty for now."""
        return ", ".join(f"{label} {value}" for label, value in self.told())

    @property
    def options(self) -> str:
        """The same for a command that a person might type next, with a blank before it."""
        given = (("--as-of", self.as_of), ("--known-at", self.known_at))
        return "".join(f" {option} {value.isoformat()}" for option, value in given if value)

    def told(self) -> Iterator[tuple[str, str]]:
        """Each moment that was named, with its label; one that is yet to come is now."""
        now = datetime.now(UTC)
        for label, value in (("as of", self.as_of), ("as known at", self.known_at)):
            if value:
                yield label, spelled(min(value, now))

    def since(self, seen: Iterable[tuple[datetime, datetime]]) -> str | None:
        """Since when there is what was not there then, exactly, for whoever types it next.

        Of each time it was seen: when that happened and when it arrived. None when it was there then.
        """
        pairs = list(seen)
        happened = [pair for pair in pairs if self.as_of is None or pair[0] <= self.as_of]
        if not happened:
            return f"it exists since {min(at for at, _ in pairs).isoformat()}"
        known = min(arrived for _, arrived in happened)
        if self.known_at is None or known <= self.known_at:
            return None
        return f"it is known since {known.isoformat()}"


NOW: Final = Moments()


def past_options(command: _Command) -> _Command:
    """`--as-of T` and `--known-at T`, which a command takes as moments in UTC."""
    for option, what in (
        ("--known-at", f"As it was known then: nothing that arrived later. {_WRITTEN}"),
        ("--as-of", f"As it was then: nothing that happened later. {_WRITTEN}"),
    ):
        command = click.option(option, metavar="T", callback=_typed, help=what)(command)
    return command


def moment_typed(option: str, typed: str, *, of_day: time) -> datetime:
    """A time with its zone, or a date as that time of its day in UTC; raises UsageError for anything else."""
    ends = "midnight" if of_day == time.min else "end"
    try:
        moment = datetime.fromisoformat(typed)
        if _DATE.fullmatch(typed):
            return datetime.combine(moment, of_day, UTC)
        if moment.tzinfo is None:
            raise UsageError(
                f"{option} {typed} has no zone; write it like 2026-03-02T09:00:00+01:00, or give a date for its "
                f"{ends} in UTC."
            )
        return to_utc(moment)
    except ValueError as error:
        raise UsageError(
            f"{option} {typed} is no time; write it like 2026-03-02T09:00:00+01:00, or like 2026-03-02."
        ) from error


def spelled(moment: datetime) -> str:
    """A moment to the second where it has any: what lies between two of them must be told apart."""
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC" if moment.second else f"{moment:%Y-%m-%d %H:%M} UTC"


def _typed(context: click.Context, parameter: click.Parameter, typed: str | None) -> datetime | None:
    return None if typed is None else moment_typed(parameter.opts[0], typed, of_day=time.max)

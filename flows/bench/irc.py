"""`bench irc`: whether the row that a chat line updates was in view, on conversations that people labelled."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from flows.bench.labelled import LabelledStore, labelled_store, read_labelled, share
from store.schema import Event, Participant, Settings, View

_FILE = Path("irc_ops") / "dev.jsonl"
_FLUSH = 25
"""Events after which the store is written (count): search lags by so many, as in a run that is not paced."""
_ADDRESSED = re.compile(r"\s*@?([^\s,:;]{2,32})[,:;]")


@dataclass(frozen=True, slots=True)
class Irc:
    """Shares of the updates whose row was in a part of the View. Thread rows are off."""

    embedder: str
    lines: int
    updates: int
    in_slices: float
    in_standby: float
    in_view: float
    """In slices or standby."""
    first_seen: float
    """Updates whose conversation began before the labelled lines: no row can be in view."""
    last_of_author: float
    """By the baseline: the newest row that the author has written to."""
    newest: float
    """By the baseline: the 17 newest rows, as many as a View holds."""


@dataclass(frozen=True, slots=True)
class _Hit:
    slices: bool
    standby: bool
    unseen: bool
    last_of_author: bool
    newest: bool


def irc(folder: Path, settings: Settings, progress: Callable[[str, int, int], None]) -> Irc:
    """Replay the lines; before each update is written, look for its row.

    Raises UsageError when `folder` does not hold the lines.
    """
    lines = [line for line in read_labelled(folder / _FILE) if not line["system"]]
    said = [line for line in lines if line["expected_op_full"] != "nothing"]
    channel = _Channel()
    hits: list[_Hit] = []
    with labelled_store(settings) as labelled:
        for number, line in enumerate(said):
            progress("lines", number, len(said))
            event, row = channel.event(line, number), line["conversation"]
            if line["expected_op_full"] == "update":
                hits.append(_look(labelled, channel, event, row))
            if row in labelled.rows:
                labelled.update(event, row)
            else:
                labelled.create(event, row)
            channel.wrote(event, row)
            if number % _FLUSH == 0:
                labelled.flush()
    return Irc(
        embedder=settings.embedder,
        lines=len(lines),
        updates=len(hits),
        in_slices=share(hit.slices for hit in hits),
        in_standby=share(hit.standby for hit in hits),
        in_view=share(hit.slices or hit.standby for hit in hits),
        first_seen=share(hit.unseen for hit in hits),
        last_of_author=share(hit.last_of_author for hit in hits),
        newest=share(hit.newest for hit in hits),
    )


class _Channel:
    """Who is there and who wrote to what last."""

    def __init__(self) -> None:
        self._nicks: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self.newest: dict[str, None] = {}
        """Rows, the newest last."""
        self._day = ""
        self._at = datetime(1970, 1, 1, tzinfo=UTC)

    def event(self, line: dict[str, Any], number: int) -> Event:
        """The line as an event. Each in a thread of its own: thread rows would show what search is to find."""
        self._nicks[line["user"].casefold()] = line["user"]
        addressed = _ADDRESSED.match(line["text"])
        nick = self._nicks.get(addressed[1].casefold()) if addressed else None
        return Event(
            id=str(number),
            source="irc",
            thread=f"{line['file']}/{line['i']}",
            at=self._moment(line),
            author=Participant(id=line["user"], name=line["user"]),
            mentions=(Participant(id=nick, name=nick),) if nick else (),
            text=line["text"],
        )

    def _moment(self, line: dict[str, Any]) -> datetime:
        """Minutes, as the channel has them; lines of one minute keep their order by microseconds."""
        if line["file"] != self._day:
            self._day = line["file"]
            self._at = max(self._at, datetime.fromisoformat(self._day[:10]).replace(tzinfo=UTC))
        hours, minutes = map(int, (line["hhmm"] or "00:00").split(":"))
        self._at = max(self._at + timedelta(microseconds=1), self._at.replace(hour=hours, minute=minutes))
        return self._at

    def wrote(self, event: Event, row: str) -> None:
        """The event is about a row."""
        self._last[str(event.author.id)] = row
        self.newest.pop(row, None)
        self.newest[row] = None

    def last_of(self, event: Event) -> str | None:
        """The row that the author has written to last."""
        return self._last.get(str(event.author.id))


def _look(labelled: LabelledStore, channel: _Channel, event: Event, row: str) -> _Hit:
    view: View = labelled.look(event)
    task = labelled.rows.get(row)
    settings = labelled.settings
    return _Hit(
        slices=any(found.row_id == task for found in view.slices),
        standby=any(found.row_id == task for found in view.standby.tasks),
        unseen=task is None,
        last_of_author=channel.last_of(event) == row,
        newest=row in list(channel.newest)[-settings.slices - settings.standby_tasks :],
    )

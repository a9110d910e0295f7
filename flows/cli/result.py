"""What a run has done: counts that add up, for a person and for a program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import RenderableType

from flows.cli.console import cell, table
from flows.tally import Tally
from store.schema.masking import mask

_OPERATIONS: Final[Mapping[str, str]] = {
    "create": "created",
    "update": "updated",
    "matched": "matched",
    "not_a_task": "not a task",
}


@dataclass(frozen=True, slots=True)
class Result:
    """The counts of a run that has ended."""

    tally: Tally
    seconds: float
    dead_letters: Path | str
    """Where dead letters are kept."""
    stopped: bool = False
    left: int | None = 0
    """Events for the next run (count); None when there are too many messages to count them."""

    @property
    def resumed(self) -> int:
        """Events that an earlier run had read and not settled: they come from its state, not from the topic."""
        return max(0, self.tally.settled - self.tally.read)

    @property
    def unfinished(self) -> int:
        """Events that were read and not settled, at a stop."""
        return max(0, self.tally.read - self.tally.settled)

    def parts(self) -> Mapping[str, int]:
        """What became of the events that came in: these add up to `read + resumed`."""
        return {
            "decided": self.tally.decided,
            "already decided": self.tally.repeated,
            "parked": self.tally.parked,
            "unreadable": self.tally.unreadable_events,
            **({"unfinished": self.unfinished} if self.unfinished else {}),
        }

    def for_programs(self) -> dict[str, object]:
        """The same as plain values."""
        tally = self.tally
        return {
            "produced": tally.produced,
            "read": tally.read,
            "resumed": self.resumed,
            "decided": tally.decided,
            "operations": {kind: tally.operations[kind] for kind in _OPERATIONS},
            "already_decided": tally.repeated,
            "parked": tally.parked,
            "unreadable": tally.unreadable_events,
            "unfinished": self.unfinished,
            "queries": tally.queries,
            "applied": tally.applied,
            "dropped": tally.dropped,
            "reasons": [mask(reason) for reason in tally.reasons],
            "dead_letters": str(self.dead_letters),
            "memory_failure": tally.memory_failure,
            "embedded": tally.embedded,
            "unembedded": tally.unembedded,
            "embedder_failure": tally.embedder_failure,
            "stopped": self.stopped,
            "left": self.left,
            "seconds": round(self.seconds, 3),
        }

    def for_people(self) -> Iterator[RenderableType]:
        """A table, the sum, and the first reasons of what went to the dead letters."""
        made = table("Result", "events", "count", "")
        came_in = self.tally.read + self.resumed
        made.add_row(cell("came in"), cell(f"{came_in:,}"), cell(self._origin()))
        for name, count in self.parts().items():
            made.add_row(cell(name), cell(f"{count:,}"), cell(self._detail(name)))
        made.columns[1].justify = "right"
        yield made
        sum_of = " + ".join(f"{count:,} {name}" for name, count in self.parts().items())
        yield cell(f"{came_in:,} came in = {sum_of}")
        yield cell(f"{self.tally.applied:,} operations messages applied, {self.tally.dropped:,} of them dropped")
        letters = self.tally.parked + self.tally.unreadable_events
        if letters:
            yield cell(f"{letters:,} dead letters in {self.dead_letters}:", "red")
            for reason in self.tally.reasons:
                yield cell(f"- {mask(reason)}")
            if letters > len(self.tally.reasons):
                yield cell(f"- and {letters - len(self.tally.reasons):,} more")

    def _origin(self) -> str:
        parts = [f"{self.tally.produced:,} new" if self.tally.produced else ""]
        waiting = self.tally.read + self.resumed - self.tally.produced
        if waiting > 0:
            parts.append(f"{waiting:,} left by an earlier run")
        return ", ".join(filter(None, parts))

    def _detail(self, name: str) -> str:
        match name:
            case "decided" if self.tally.decided:
                counts = ((self.tally.operations[kind], said) for kind, said in _OPERATIONS.items())
                return "operations: " + ", ".join(f"{count:,} {said}" for count, said in counts)
            case "parked" if self.tally.parked:
                return "could not be decided; kept in the dead letters"
            case "unreadable" if self.tally.unreadable_events:
                return "are no events; kept in the dead letters"
            case "unfinished":
                return "decided by the next run"
            case _:
                return ""

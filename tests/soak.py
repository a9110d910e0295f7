"""Kill it again and again, and count: `python -m tests.soak --kills 200 --seed N [--data FOLDER]`.

Data folders are filled one after the other by processes that are killed at random moments and at every failpoint,
until each folder is done. Then it is held against its own topics by `tests/audit.py`: nothing lost, nothing twice,
nothing parked, and every row what the topic amounts to. Which judge decides changes from folder to folder:

- `event_only` always answers the same to the same event: the rows must be those of an uninterrupted run;
- the rules, free and paced: one Decision an event, however far memory was behind;
- `contrary` answers differently each time: only the first Decision may count.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from time import monotonic, sleep
from typing import Final, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from connectors.slack import read_slack
from store.schema.failpoint import FAILPOINTS, VARIABLE
from tests.audit import audit
from tests.oracle import Row
from tests.process import KILLED, ended, finish, kill, produce, start, suspects, topic_path, wait_until, written
from tests.sample import opened, sample_lines
from tests.workplace import rows_of

EXPORT: Final = "slack_houstondatavis.zip"
_PACED_EVENTS: Final = 150
"""Events of a paced folder (count): each waits for the one before it to be readable."""
_LONGEST_GRACE: Final = 0.3
"""Time between progress and a kill (s): anywhere within a few cycles of deciding and applying."""
_PATIENCE: Final = 15.0
"""Time after which any progress is enough for a kill (s)."""
_START_UP: Final = 2.5
"""The first kill of a folder comes within this time (s), while everything in it is being made."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Who decides the events of a folder, and how."""

    name: str
    judge: str
    paced: bool = False

    @property
    def options(self) -> tuple[str, ...]:
        """Options of `lookfirst run`."""
        return ("--paced",) if self.paced else ()


EVENT_ONLY: Final = Variant("event_only", "tests.judges:event_only")
VARIANTS: Final = (
    EVENT_ONLY,
    Variant("rules", "rules"),
    Variant("contrary", "tests.judges:contrary"),
    Variant("rules, paced", "rules", paced=True),
)


@dataclass(slots=True)
class Soak:
    """One soak. `run` returns what is wrong, a line each; the folders in which it is are kept."""

    work: Path
    """Where the data folders are made; each is removed when nothing is wrong with it."""
    lines: Sequence[str]
    """The events."""
    kills: int
    """Kills at random moments (count)."""
    chance: random.Random
    console: Console
    failpoints: deque[str] = field(default_factory=deque)
    """Places at which a process has still to die."""
    killed: int = 0
    died: int = 0
    """Processes that have died at a failpoint (count)."""
    _folders: int = 0
    _missed: Counter[str] = field(default_factory=Counter)
    """How often a folder was done before a failpoint was reached."""

    @property
    def left(self) -> int:
        """Kills that are still to come (count)."""
        return max(0, self.kills - self.killed) + len(self.failpoints)

    def run(self) -> list[str]:
        """Fill folders until all kills are done."""
        faults: list[str] = []
        share = -(-self.left // len(VARIANTS))
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self.console) as progress:
            bar = progress.add_task("kills", total=self.left)
            for variant in cycle(VARIANTS):
                if not self.left:
                    return faults
                self._folders += 1
                path = self.work / f"{self._folders:03d}"
                progress.update(bar, description=f"folder {self._folders}, {variant.name}")
                try:
                    found = self._folder(path, variant, min(share, self.left), partial(progress.advance, bar))
                except (AssertionError, subprocess.SubprocessError) as error:
                    return [*faults, f"{path}: {error}"]
                faults += [f"{path}: {fault}" for fault in found]
        return faults

    def _folder(self, path: Path, variant: Variant, share: int, advance: Callable[[float], None]) -> list[str]:
        """Fill one folder, killed `share` times or until it is done, and audit it; returns what is wrong."""
        began = monotonic()
        self._fill(path, variant)
        events = written(path, "events")
        assert events, f"there are no events in {path}"
        # So that the folder is about done when its share of the kills is.
        stride = max(1, 2 * events // share)
        kills = deaths = 0
        done = False
        while not done and kills + deaths < share and self.left:
            # After each failpoint a kill that waits until nobody is suspected: no event is charged up to the cap.
            if self.failpoints and kills > deaths:
                done = not self._dies(path, variant)
                deaths += not done
            else:
                done = not self._is_killed(path, variant, self.chance.randint(1, stride), first=not kills)
                kills += not done
            advance(not done)
        finish(self._start(path, variant))
        assert events == written(path, "events"), f"the events topic of {path} was changed"
        found = audit(path, self._uninterrupted() if variant is EVENT_ONLY else None)
        told = f"folder {self._folders} ({variant.name}): {kills} kills, {deaths} deaths at failpoints"
        self.console.print(f"{told}; {found.line}; {monotonic() - began:.0f} s", highlight=False, soft_wrap=True)
        if not found.faults:
            shutil.rmtree(path)
        return found.faults

    def _is_killed(self, path: Path, variant: Variant, more: int, *, first: bool) -> bool:
        """Kill a run at random, after it has decided `more` events; False when it was done before."""
        had, patient_until = written(path), monotonic() + _PATIENCE
        process = self._start(path, variant)

        def ripe() -> bool:
            enough = had + (more if monotonic() < patient_until else 1)
            return written(path) >= enough and not suspects(path)

        if first:
            sleep(self.chance.uniform(0, _START_UP))
        # Only after progress, or an unlucky seed would never end, and not while an event is judged alone.
        elif wait_until(ripe, process):
            sleep(self.chance.uniform(0, _LONGEST_GRACE))
        killed = kill(process)
        self.killed += killed
        return killed

    def _dies(self, path: Path, variant: Variant) -> bool:
        """Let a run die at the next failpoint; False when it was done without coming there."""
        name = self.failpoints.popleft()
        process = self._start(path, variant, **{VARIABLE: name})
        _, err = ended(process)
        assert process.returncode in (KILLED, 0), f"return code {process.returncode} at {name}: {err}"
        if process.returncode == KILLED:
            self.died += 1
            return True
        self._missed[name] += 1
        assert self._missed[name] < len(VARIANTS), f"failpoint {name} is never reached"
        self.failpoints.append(name)
        return False

    def _start(self, path: Path, variant: Variant, **environment: str) -> subprocess.Popen[str]:
        """A run whose epochs, batches and waves are of another size each time: kills land everywhere."""
        sizes = {
            "LOOKFIRST_EPOCH": self.chance.choice(("0.02", "0.1", "0.3", "1")),
            "LOOKFIRST_SOURCE_BATCH": self.chance.choice(("1", "7", "64", "256")),
            "LOOKFIRST_WAVE": self.chance.choice(("2", "8", "64")),
            "LOOKFIRST_FRAGMENTS": self.chance.choice(("4", "48")),
        }
        return start(path, *variant.options, LOOKFIRST_JUDGE=variant.judge, **sizes, **environment)

    def _fill(self, path: Path, variant: Variant) -> None:
        """Events for a folder: all of them, always in the same topic file, or for a paced one some of them."""
        if variant.paced:
            begin = self.chance.randint(0, max(0, len(self.lines) - _PACED_EVENTS))
            produce(path, self.lines[begin : begin + _PACED_EVENTS])
            return
        if not self._whole.exists():
            produce(self._whole, self.lines)
        (path / "topics").mkdir(parents=True)
        shutil.copy(topic_path(self._whole, "events"), path / "topics")

    def _uninterrupted(self) -> dict[str, list[Row]]:
        """The rows that a run which nobody kills makes of all events."""
        if not written(self._whole):
            finish(start(self._whole, LOOKFIRST_JUDGE=EVENT_ONLY.judge))
        return rows_of(opened(self._whole))

    @property
    def _whole(self) -> Path:
        """The folder with all events, which nobody kills."""
        return self.work / "whole"


def events_of(export: Path | None) -> list[str]:
    """The events of the sample, then those of a Slack export."""
    real = [imported.line for imported in read_slack(export)] if export else []
    return [*(line.text for line in sample_lines()), *real]


_Command = TypeVar("_Command", bound=Callable[..., object])


def soak_options(command: _Command) -> _Command:
    """How often to kill, by which seed, and with which messages."""
    for option in (
        click.option(
            "--data",
            type=click.Path(exists=True, file_okay=False, path_type=Path),
            envvar="LOOKFIRST_DATA",
            show_envvar=True,
            help="Folder of public data sets, for real messages beside the sample.",
        ),
        click.option("--seed", type=int, help="Repeats the choices of an earlier soak; printed by each one."),
        click.option(
            "--kills", type=click.IntRange(0), default=200, show_default=True, help="Kills at random moments."
        ),
    ):
        command = option(command)
    return command


@click.command()
@soak_options
def main(kills: int, seed: int | None, data: Path | None) -> None:
    """Kill runs at random moments and at every failpoint, and count what was lost."""
    seed = random.randrange(1_000_000) if seed is None else seed
    console = Console()
    lines = events_of(data / EXPORT if data else None)
    if not data:
        console.print(
            "No public data sets (LOOKFIRST_DATA or --data names their folder): the sample alone.", soft_wrap=True
        )
    console.print(f"seed {seed}: {kills} kills and {len(FAILPOINTS)} failpoints over {len(lines):,} events")
    work = Path(tempfile.mkdtemp(prefix="lookfirst-soak-"))
    soak = Soak(work, lines, kills, random.Random(seed), console, deque(FAILPOINTS))
    faults = soak.run()
    console.print(f"{soak.killed} kills, {soak.died} deaths at failpoints, {len(faults)} faults; seed {seed}")
    for fault in faults:
        console.print(fault, style="red", markup=False, highlight=False, soft_wrap=True)
    if faults:
        sys.exit(1)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()

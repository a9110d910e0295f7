"""The same on Kafka: `python -m tests.kafka_soak --kills 200 --seed N [--data FOLDER]`.

Data folders are filled one after the other while things are done to their processes, by chance: one of them is
killed, or dies at a failpoint; the set is stopped in order, and other numbers of processes are started; the folder
is looked after; a person edits tasks; the broker is stopped, or killed, and comes back. Then each folder is held
against its topics by `tests/audit.py`. Which judge decides changes from folder to folder, as in `tests/soak.py`.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from time import monotonic, sleep
from typing import Final

import click
from rich.console import Console

from connectors.dev_broker import DevBroker
from connectors.kafka_jars import default_cache, resolve_jars
from flows.data_folder import DataFolder
from flows.maintain import maintain
from flows.parse import outgoing
from flows.person import Signature, Wishes, edit, found
from store.schema import LookfirstError, load_settings
from store.schema.failpoint import FAILPOINTS
from tests.audit import Topics, compared
from tests.broker import POM
from tests.kafka_process import Process, Site, armed, checked, drained, uids, wait_until
from tests.oracle import Row
from tests.process import KILLED
from tests.sample import opened
from tests.soak import EXPORT, events_of, soak_options
from tests.workplace import rows_of

_LONGEST_GRACE: Final = 0.3
"""Time between progress and a kill (s): anywhere within a few cycles of deciding and applying."""
_START_UP: Final = 2.5
"""The first kill of a folder comes within this time (s), while everything in it is being made."""
_PATIENCE: Final = 15.0
"""Time after which any progress is enough for a kill (s)."""
_AWAY: Final = 2.0
"""Longest time the broker is away (s)."""
_MOST: Final = 3
"""Processes that decide together (count)."""
_PARTITIONS: Final = 3

KILLS_ALONE: Final[Mapping[str, int]] = {"kill": 1}
EVERYTHING: Final[Mapping[str, int]] = {
    "kill": 8,
    "drain": 2,
    "rescale": 2,
    "validate": 2,
    "edit": 3,
    "maintain": 1,
    "bounce": 1,
    "crash": 1,
}
"""What is done to a folder, each as often as its number says against the others'."""

EVENT_ONLY: Final = "tests.judges:event_only"
JUDGES: Final = (EVENT_ONLY, "rules", "tests.judges:contrary")


@dataclass(slots=True)
class Folder:
    """One data folder, and what is done to the processes over it. Raises AssertionError at the first fault."""

    site: Site
    judge: str
    chance: random.Random
    lines: deque[str]
    """Events that are still to be produced."""
    broker: DevBroker | None = None
    """The broker, where it may be stopped and killed."""
    done: Counter[str] = field(default_factory=Counter)
    """What was done, by name (count)."""
    apply: Process | None = None
    members: list[Process] = field(default_factory=list)
    _count: int = 1
    _produced: set[str] = field(default_factory=set)
    """Uids of the events that were produced."""
    _edits: int = 0

    @property
    def is_done(self) -> bool:
        """Whether all events are produced, and about as many are decided."""
        return not self.lines and self.site.written() >= self._expected

    @property
    def _expected(self) -> int:
        """Messages on the operations topic when all that was produced is decided (count)."""
        return len(self._produced) + self._edits

    @property
    def processes(self) -> list[Process]:
        """All that run."""
        return [*([self.apply] if self.apply else []), *self.members]

    def start(self) -> None:
        """Start what does not run. Epochs, batches and waves are of another size each time."""
        if self.apply is None:
            self.apply = self.site.apply(**self._settings())
        if not self.members:
            self.members = self.site.decide(self._count, **self._settings())

    def act(self, name: str) -> None:
        """Do one of the things that `EVERYTHING` names."""
        actions: dict[str, Callable[[], None]] = {
            "kill": self.kill,
            "drain": self.drain,
            "rescale": self.rescale,
            "validate": self.validate,
            "edit": self.edit,
            "maintain": self.maintain,
            "bounce": lambda: self.bounce(DevBroker.stop),
            "crash": lambda: self.bounce(DevBroker.kill),
        }
        self.start()
        actions[name]()
        self.done[name] += 1

    def produce(self, count: int) -> None:
        """Append the next events."""
        taken = [self.lines.popleft() for _ in range(min(count, len(self.lines)))]
        self.site.produce(taken)
        self._produced |= uids(taken)

    def kill(self) -> None:
        """SIGKILL to one process; those that decide together with it have to end by themselves."""
        if not self.done:
            sleep(self.chance.uniform(0, _START_UP))
        else:
            self._progress()
            sleep(self.chance.uniform(0, _LONGEST_GRACE))
        victim = self.chance.choice(self.processes)
        victim.kill()
        self._bury(victim)

    def die(self, name: str) -> bool:
        """Have a process die at a failpoint; False when all there is was decided without coming there."""
        self._up()
        if name.startswith("commit."):
            drained([process for process in (self.apply,) if process])
            self.apply = None
            dying = [self.site.apply(**self._small(), **armed(name))]
            if not self.members:
                self.members = self.site.decide(self._count, **self._settings())
        else:
            drained(self.members)
            self.members = dying = self.site.decide(self._count, **self._small(), **armed(name))
        self.produce(self.chance.randint(4, 12))
        reached = not wait_until(lambda: self.is_done, dying, 120)
        victim = next((process for process in dying if process.code == KILLED), dying[0])
        if not reached:
            # What is written may not be committed yet.
            drained(dying)
        assert victim.popen.wait(30) in (KILLED, 0), f"{victim.name}, armed with {name}: {victim.said}"
        if self.members == dying:
            for process in dying if reached else ():
                process.fell()
            self.members = []
        else:
            self.apply = None
        return victim.code == KILLED

    def drain(self) -> None:
        """SIGTERM to one of those that decide: the set ends in order."""
        self._progress()
        self.chance.choice(self.members).stop()
        for process in self.members:
            process.counts(60)
        self.members = []

    def rescale(self) -> None:
        """SIGTERM to all, then another number of processes."""
        self._up()
        drained(self.members)
        self.members = []
        self._count = self.chance.choice([count for count in range(1, _MOST + 1) if count != self._count])
        self.start()

    def validate(self) -> None:
        """Stop apply in order: the rows are what the topic amounts to, as far as it was applied."""
        self._progress()
        assert self.apply
        drained([self.apply])
        self.apply = None
        store = opened(self.site.path)
        reached = max((place.next_offset for place in store.record.positions()), default=0)
        operations = [each for each in self.site.incoming("operations") if each.offset < reached]
        differences = list(compared("its topic", Topics((), operations, ()).rows(), rows_of(store)))
        assert not differences, "\n".join(differences)

    def edit(self) -> None:
        """A person changes a task, if there is one."""
        self._progress()
        store, operations = opened(self.site.path), self.site.topic("operations")
        ids = store.record.arrow("tasks")["id"].to_pylist()
        if not ids:
            return
        task_id = self.chance.choice(ids)
        task = found(task_id, store.record.changes([task_id])[task_id])
        self._edits += 1
        wishes = Wishes(title=f"said by hand, {self._edits}")
        made = edit(task, wishes, Signature("a person", self.site.written()), load_settings().title_characters)
        operations.append([outgoing(made)])

    def maintain(self) -> None:
        """Stop everything, and compact."""
        self._up()
        self.stop()
        settings = load_settings(topic_prefix=self.site.prefix)
        maintain(DataFolder.at(self.site.path, settings), settings)

    def bounce(self, ended: Callable[[DevBroker], None]) -> None:
        """The broker goes away and comes back; whoever runs waits for it, and goes on."""
        if self.broker is None:
            return
        # Whoever is only just starting needs an answer.
        self._progress()
        ended(self.broker)
        sleep(self.chance.uniform(0, _AWAY))
        self.broker.start()
        for process in self.processes:
            assert process.code is None, f"{process.name} did not wait for the broker: {process.said}"
        self._progress()

    def stop(self) -> None:
        """Stop in order, as the supervisor does: first those that decide."""
        self._up()
        drained(self.members)
        self.members = []
        if self.apply:
            drained([self.apply])
        self.apply = None

    def finish(self) -> None:
        """Produce what is left, decide and apply all of it, and stop."""
        self.produce(len(self.lines))
        self.stop()
        self.site.finish(self._count, **self._settings())

    def _progress(self) -> None:
        """Produce more, and wait until some of it is decided and nobody is suspected."""
        self.start()
        self.produce(self.chance.randint(1, 12))
        more, had = self.chance.randint(1, 6), self.site.written()
        patient_until = monotonic() + _PATIENCE

        def ripe() -> bool:
            enough = had + (more if monotonic() < patient_until else 1)
            # What was just produced may all have been decided before.
            return self.site.written() >= min(enough, self._expected) and not self.site.suspects()

        running = self.processes
        if not wait_until(ripe, running):
            ended = next(process for process in running if process.code is not None)
            raise AssertionError(f"{ended.name} ended with {ended.code} by itself: {ended.said}")

    def _up(self) -> None:
        """Wait until all have taken their roles: before, a SIGTERM ends a process as it ends any."""
        self.start()
        roles = ["apply", *(f"decide-{number}" for number in range(len(self.members)))]
        assert wait_until(lambda: all(map(self.site.holds, roles)), self.processes)

    def _bury(self, victim: Process) -> None:
        if victim is self.apply:
            self.apply = None
            return
        for process in self.members:
            if process is not victim:
                process.fell()
        self.members = []
        self._count = self.chance.randint(1, _MOST)

    def _settings(self) -> dict[str, str]:
        return {
            "LOOKFIRST_JUDGE": self.judge,
            "LOOKFIRST_EPOCH": self.chance.choice(("0.02", "0.1", "0.3", "1")),
            "LOOKFIRST_SOURCE_BATCH": self.chance.choice(("1", "7", "64", "256")),
            "LOOKFIRST_WAVE": self.chance.choice(("2", "8", "64")),
            "LOOKFIRST_FRAGMENTS": self.chance.choice(("4", "48")),
        }

    def _small(self) -> dict[str, str]:
        """Many small commits, so that every failpoint is come to soon."""
        return {**self._settings(), "LOOKFIRST_EPOCH": "0.05", "LOOKFIRST_WAVE": "2"}


@dataclass(slots=True)
class KafkaSoak:
    """One soak. `run` returns what is wrong, a line each; the folders in which it is are kept."""

    work: Path
    lines: Sequence[str]
    """The events of each folder."""
    kills: int
    chance: random.Random
    console: Console
    brokers: str
    broker: DevBroker | None = None
    weights: Mapping[str, int] = field(default_factory=lambda: EVERYTHING)
    failpoints: deque[str] = field(default_factory=deque)
    share: int = 12
    """Things done to one folder, at most (count)."""
    done: Counter[str] = field(default_factory=Counter)
    died: int = 0
    lost: int = 0
    duplicated: int = 0
    _folders: int = 0
    _golden: dict[str, list[Row]] | None = None
    _missed: Counter[str] = field(default_factory=Counter)

    @property
    def killed(self) -> int:
        """Processes killed at random moments (count)."""
        return self.done["kill"]

    @property
    def is_over(self) -> bool:
        """Whether all kills are done, and every failpoint was died at."""
        return self.killed >= self.kills and not self.failpoints

    def run(self) -> list[str]:
        """Fill folders until all is done."""
        faults: list[str] = []
        for judge in cycle(JUDGES):
            if self.is_over:
                break
            self._folders += 1
            path = self.work / f"{self._folders:03d}"
            try:
                found = self._fill(path, judge)
            except (AssertionError, LookfirstError) as error:
                found = [str(error)]
            faults += [f"{path} ({judge}): {fault}" for fault in found]
        return faults

    def _fill(self, path: Path, judge: str) -> list[str]:
        began = monotonic()
        expected = self._uninterrupted() if judge == EVENT_ONLY else None
        with Site.at(path, self.brokers, _PARTITIONS) as site:
            folder = Folder(site, judge, self.chance, deque(self.lines), self.broker)
            folder.produce(self.chance.randint(1, 20))
            deaths = 0
            while not folder.is_done and folder.done.total() + deaths < self.share and not self.is_over:
                if self.failpoints and self.chance.random() < 0.5:
                    deaths += self._dies(folder)
                else:
                    names = list(self.weights)
                    weights = [self.weights[name] for name in names]
                    name = self.chance.choices(names, weights)[0] if folder.done else "kill"
                    folder.act(name)
                    self.done[name] += 1
            folder.finish()
            found, faults = checked(site, expected)
        self.died += deaths
        self.lost += len(found.lost)
        self.duplicated += len(found.duplicated)
        did = ", ".join(f"{name} {count}" for name, count in folder.done.items())
        told = f"folder {self._folders} ({judge}): {did}, deaths at failpoints {deaths}"
        said = f"{told}; {found.line}, repeated on the topic {found.repeated}; {monotonic() - began:.0f} s"
        self.console.print(said, highlight=False, soft_wrap=True)
        if not faults:
            shutil.rmtree(path)
            shutil.rmtree(path.with_name(f"{path.name}.said"), ignore_errors=True)
        return faults

    def _dies(self, folder: Folder) -> bool:
        name = self.failpoints.popleft()
        if folder.die(name):
            return True
        self._missed[name] += 1
        assert self._missed[name] < 4, f"failpoint {name} is never reached"
        self.failpoints.append(name)
        return False

    def _uninterrupted(self) -> dict[str, list[Row]]:
        """The rows that a run which nobody kills makes of all events."""
        if self._golden is None:
            with Site.at(self.work / "whole", self.brokers, _PARTITIONS) as site:
                site.produce(self.lines)
                site.finish(LOOKFIRST_JUDGE=EVENT_ONLY)
                self._golden = site.rows()
        return self._golden


@click.command()
@soak_options
def main(kills: int, seed: int | None, data: Path | None) -> None:
    """Kill processes on Kafka at random moments and at every failpoint, and count what was lost."""
    seed = random.randrange(1_000_000) if seed is None else seed
    console = Console()
    lines = events_of(data / EXPORT if data else None)
    told = f"{kills} kills and {len(FAILPOINTS)} failpoints over {len(lines):,} events a folder"
    console.print(f"seed {seed}: {told}", soft_wrap=True)
    work = Path(tempfile.mkdtemp(prefix="lookfirst-kafka-soak-"))
    jars = resolve_jars(POM, default_cache(), console.print)
    with DevBroker(work / "kafka", jars=jars) as broker:
        soak = KafkaSoak(
            work, lines, kills, random.Random(seed), console, broker.brokers, broker, failpoints=deque(FAILPOINTS)
        )
        faults = soak.run()
    counts = (
        f"{soak.killed} kills, {soak.died} deaths at failpoints, lost {soak.lost}, duplicated {soak.duplicated}"
    )
    console.print(f"{counts}, {len(faults)} faults; seed {seed}", soft_wrap=True)
    for fault in faults:
        console.print(fault, style="red", markup=False, highlight=False, soft_wrap=True)
    if faults:
        sys.exit(1)
    shutil.rmtree(work)


if __name__ == "__main__":
    main()

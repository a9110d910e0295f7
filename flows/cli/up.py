"""`lookfirst up`: apply and a set of processes that decide, kept running."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from connectors.health import Address
from connectors.kafka_client import Brokers
from flows.cli.console import report, say
from flows.cli.options import brokers_option, data_option
from flows.stopping import stopped_by_signals
from flows.supervisor import Part, Supervisor, free_addresses
from store.schema import load_settings

_MOST: Final = 64
"""Processes of a set (count)."""


@click.command()
@brokers_option("Brokers to begin with.", required=True)
@data_option
@click.option(
    "--processes",
    type=click.IntRange(1, _MOST),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes that decide. To change their number stop and start: what waits moves to the new ones.",
)
@click.option(
    "--health",
    metavar="[HOST:]PORT",
    help="Serve the pages of apply at this port, those of the processes that decide at the ports behind it.",
)
def up(brokers: str, data: Path, processes: int, health: str | None) -> None:
    """Run apply and decide on Kafka, and start the whole set again when one of its processes dies.

    Ctrl-C and SIGTERM stop them in order: first those that decide, then apply, which applies what they wrote.
    """
    settings = load_settings()
    Brokers.at(brokers, settings)
    shared = ("--brokers", brokers, "--data", str(data), "--parent", str(os.getpid()))
    address = Address.parse(health) if health else None

    def part(number: int, name: str, *more: str) -> Part:
        shown: tuple[str, ...] = ()
        if address:
            host = f"[{address.host}]" if ":" in address.host else address.host
            shown = ("--health", f"{host}:{address.port + number if address.port else 0}")
        return Part(name, ("run", name.partition(" ")[0], *shared, *more, *shown))

    def parts() -> Sequence[Part]:
        # Other ports each time: those of processes that died may be kept for a while.
        listening = ";".join(free_addresses(processes))
        members = [
            ("--process-id", str(number), "--addresses", listening) if processes > 1 else ()
            for number in range(processes)
        ]
        return [
            part(0, "apply"),
            *(part(number + 1, f"decide {number}", *more) for number, more in enumerate(members)),
        ]

    supervisor = Supervisor(parts, settings, report, os.environ)
    decide = "1 process decides" if processes == 1 else f"{processes} processes decide"
    say(f"Up at {brokers}: {decide}, and apply writes the store in {data}. Ctrl-C stops them in order.")
    with stopped_by_signals(supervisor):
        supervisor.run()
    say("All processes have ended.")

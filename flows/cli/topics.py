"""`lookfirst topics`: the topics on brokers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import click
from rich.console import RenderableType
from rich.table import Table

from connectors.kafka_admin import TopicsReport, TopicState, create_topics
from connectors.kafka_client import Brokers
from connectors.kafka_rules import AGE, ARRIVAL, LARGEST, duration, megabytes
from flows.cli.console import cell, emit, page, table
from flows.cli.options import brokers_option, json_option
from store.schema import load_settings

_PARTITIONS = 8


@click.group()
def topics() -> None:
    """The topics on brokers: of events, of operations and of dead letters."""


@topics.command("create")
@brokers_option("Brokers to begin with.", required=True)
@click.option(
    "--partitions",
    type=click.IntRange(1, 10_000),
    default=_PARTITIONS,
    show_default=True,
    metavar="N",
    help="Partitions of the events: as many processes at most can decide together.",
)
@click.option(
    "--replication",
    type=click.IntRange(1, 100),
    metavar="N",
    help="Copies of each partition; the brokers' default if it is not named.",
)
@click.option("--alter", is_flag=True, help="Set what is set up otherwise, except partitions and copies.")
@json_option("One JSON object instead: topics, differences and notes.")
def create(brokers: str, partitions: int, replication: int | None, alter: bool, as_json: bool) -> int:
    """Make the topics that are missing, check the others, and say what is to be mended.

    Operations have one partition: one writer applies them, and their order is the truth. They are kept for ever,
    like dead letters; how long events are kept is left to the brokers. A later call changes nothing unless --alter
    says so; what was written before keeps its time. Exit code 1 when something remains that forbids a run.
    """
    settings = load_settings()
    report = create_topics(
        Brokers.at(brokers, settings),
        settings.topic_prefix,
        partitions=partitions,
        replication=replication,
        alter=alter,
    )
    if as_json:
        emit(json.dumps({**asdict(report), "fit": report.is_fit}, ensure_ascii=False))
    else:
        page().print(*for_people(report), sep="\n")
    return 0 if report.is_fit else 1


def for_people(report: TopicsReport) -> Iterator[RenderableType]:
    """The topics in a table, then what is to be mended and what is to be known."""
    yield _table(report.topics)
    for each in report.differences:
        yield cell(each.said, "bold red" if each.forbids else "yellow")
    for note in report.notes:
        yield cell(note)


def _table(states: tuple[TopicState, ...]) -> Table:
    made = table("", "topic", "state", "partitions", "copies", "kept", "time", "largest message")
    for each in states:
        state = "made" if each.made else "altered" if each.altered else "there"
        made.add_row(
            cell(each.name),
            cell(state),
            cell(f"{each.partitions:,}"),
            cell(f"{each.replicas:,}"),
            *(cell(text) for text in _settings(each)),
        )
    return made


def _settings(state: TopicState) -> tuple[str, str, str]:
    """How long messages are kept, whose time they have, and how large they may be."""
    if not state.configs:
        return ("?", "?", "?")
    age = state.configs[AGE]
    whose = "of arrival" if state.configs[ARRIVAL] == "LogAppendTime" else "of the producer"
    return ("for ever" if int(age) < 0 else duration(age), whose, megabytes(state.configs[LARGEST]))

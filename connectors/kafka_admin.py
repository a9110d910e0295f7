"""The three topics on brokers: made as a run needs them, checked, and altered when somebody asks for it.

Operations have one partition: one writer applies them, and the order in which they stand there is the truth.
Nothing here changes partitions or replication: with more partitions a thread's events would stand in two of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import Any, Final

from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import (
    AuthorizationError,
    IncompatibleBrokerVersion,
    NoError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    for_code,
)

from connectors.kafka_client import Brokers
from connectors.kafka_rules import (
    AGE,
    ARRIVAL,
    BYTES,
    CONFIGS,
    EVENTS,
    LARGEST,
    TOPICS,
    Difference,
    differences,
    duration,
    megabytes,
    rules,
)
from store.schema import TopicError
from store.schema.masking import mask

_BROKERS_OWN: Final = -1
"""Asks the brokers for their own default."""
_SETTLING: Final = 10.0
"""Time in which brokers tell one another of a change (s)."""
_POLL: Final = 0.1

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TopicState:
    """One topic as it is now."""

    name: str
    made: bool
    """Whether it was made just now."""
    partitions: int
    replicas: int
    """The fewest that a partition has (count)."""
    configs: Mapping[str, str]
    """Those that are checked; none when the brokers do not permit to look at them."""
    altered: tuple[str, ...] = ()
    """Which of them were set just now."""


@dataclass(frozen=True, slots=True)
class TopicsReport:
    """The topics, what is wrong with them, and what else is to be known."""

    topics: tuple[TopicState, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]

    @property
    def is_fit(self) -> bool:
        """Whether nothing forbids a run."""
        return not any(each.forbids for each in self.differences)


@dataclass(slots=True)
class _Asked:
    """One call of `create_topics`."""

    brokers: Brokers
    prefix: str
    partitions: int
    replication: int | None
    admin: KafkaAdminClient
    notes: list[str] = field(default_factory=list)


def topic_faults(brokers: Brokers, prefix: str) -> list[str]:
    """What forbids a run over the topics of a prefix, a sentence each.

    A topic that is not there has none. Where the brokers do not permit to look there is none either, but one
    warning in the log. Raises TopicError when no broker answers.
    """
    names = _names(prefix)
    with _asking(brokers, "The settings of the topics cannot be looked at") as admin:
        try:
            found = _configs(admin, names)
            hidden = [name for name in _found(admin, names) if not found[name]]
        except (AuthorizationError, IncompatibleBrokerVersion) as error:
            _log.warning("The settings of the topics %s.… are not checked: %s.", prefix, brokers.told(error))
            return []
    if hidden:
        _log.warning("%s", _unseen(*hidden))
    return [each.said for each in differences(prefix, found, brokers.settings) if each.forbids]


def create_topics(
    brokers: Brokers, prefix: str, *, partitions: int = 8, replication: int | None = None, alter: bool = False
) -> TopicsReport:
    """Make those of the three topics that are missing, and check the others.

    `partitions` are those of the events (count), `replication` None is the brokers' default. With `alter`,
    settings that differ are set. Raises TopicError when a topic cannot be made, or no broker answers.
    """
    names = _names(prefix)
    with _asking(brokers, f"The topics {prefix}.… cannot be made") as admin:
        asked = _Asked(brokers, prefix, partitions, replication, admin)
        there = _found(admin, names)
        made = _make(asked, [topic for topic in TOPICS if f"{prefix}.{topic}" not in there])
        admin.wait_for_topics(names, timeout_ms=int(brokers.settings.kafka_answer * 1_000))
        found = differences(prefix, _configs(admin, names), brokers.settings)
        # What was made a moment ago nobody has set up otherwise.
        altered = _alter(asked, [each for each in found if alter or each.topic in made])
        there, configs = _settled(admin, names, made, altered)
    states = [
        TopicState(
            name=name,
            made=name in made,
            partitions=len(there[name]["partitions"]),
            replicas=min(len(each["replica_nodes"]) for each in there[name]["partitions"]),
            configs=configs[name],
            altered=tuple(altered.get(name, {})),
        )
        for name in names
    ]
    remaining = tuple(differences(prefix, configs, brokers.settings))
    return TopicsReport(tuple(states), remaining, (*asked.notes, *_notes(asked, *states)))


def _make(asked: _Asked, topics: Sequence[str]) -> frozenset[str]:
    """The full names of those that were made, and not by somebody else at the same moment."""
    if not topics:
        return frozenset()
    wanted = {
        f"{asked.prefix}.{topic}": {
            "num_partitions": asked.partitions if topic == EVENTS else 1,
            "replication_factor": asked.replication or _BROKERS_OWN,
            # How large events may be, and how long they are kept, is the brokers' to say.
            "configs": {
                rule.config: rule.value
                for rule in rules(asked.brokers.settings)
                if rule.topic == topic and (topic, rule.config) != (EVENTS, LARGEST)
            },
        }
        for topic in topics
    }
    answers = asked.admin.create_topics(wanted, raise_errors=False)["topics"]
    for each in answers:
        error = for_code(each["error_code"])
        if issubclass(error, AuthorizationError):
            raise error(each["name"])
        if error not in (NoError, TopicAlreadyExistsError):
            why = mask(each["error_message"] or error.__name__).rstrip(".")
            raise TopicError(f"The topic {each['name']} cannot be made: {why}.")
    return frozenset(each["name"] for each in answers if not each["error_code"])


def _alter(asked: _Asked, wrong: Sequence[Difference]) -> dict[str, dict[str, str]]:
    """Set what is wrong; returns what was set, by topic."""
    altered: dict[str, dict[str, str]] = {}
    for each in wrong:
        altered.setdefault(each.topic, {})[each.config] = each.wanted
    if not altered:
        return {}
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, configs) for name, configs in altered.items()]
    answers = asked.admin.alter_configs(resources, raise_on_unknown=False, incremental=True)["topic"]
    for name, answer in answers.items():
        if answer != "OK":
            del altered[name]
            asked.notes.append(f"{name} could not be altered: {mask(answer).rstrip('.')}.")
    for name in altered:
        if ARRIVAL in altered[name]:
            asked.notes.append(f"What was written to {name} before keeps the time that its producers gave it.")
    return altered


def _settled(
    admin: KafkaAdminClient, names: Sequence[str], made: Set[str], altered: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, str]]]:
    """The topics and their settings when whichever broker is asked knows what was made and altered."""
    patience = monotonic() + _SETTLING
    while True:
        there, configs = _found(admin, names), _configs(admin, names)
        if there.keys() >= set(names) and all(
            configs[name] and configs[name].items() >= altered.get(name, {}).items()
            for name in made | altered.keys()
        ):
            return there, configs
        if monotonic() > patience:
            if there.keys() >= set(names):
                return there, configs
            raise TopicError("Not every broker knows of the new topics yet; ask again in a moment.")
        sleep(_POLL)


def _notes(asked: _Asked, events: TopicState, operations: TopicState, letters: TopicState) -> Iterator[str]:
    """What is no fault, a sentence each."""
    if hidden := [each.name for each in (events, operations, letters) if not each.configs]:
        yield _unseen(*hidden)
    for each in (events, operations, letters):
        if asked.replication and each.replicas != asked.replication:
            told = f"{each.name} has a replication of {each.replicas}, not {asked.replication}"
            yield f"{told}; Kafka's own tools change that."
    if events.partitions < asked.partitions:
        yield (
            f"{events.name} has {events.partitions} partitions, not {asked.partitions}; they are left as they "
            "are, because with more of them the events of a thread would stand in two."
        )
    if operations.partitions > 1:
        yield (
            f"{operations.name} has {operations.partitions} partitions where one is meant: one writer applies "
            "operations, and their order is the truth."
        )
    if events.configs:
        yield f"{events.name} keeps events {_how_long(events)}; a replay reaches as far back as that."


def _unseen(*names: str) -> str:
    return f"The settings of {' and '.join(names)} are not checked: the brokers do not permit to look at them."


def _how_long(events: TopicState) -> str:
    """How long events are kept, in the middle of a sentence."""
    age, most = events.configs[AGE], events.configs[BYTES]
    kept = "for ever" if int(age) < 0 else f"for {duration(age)}"
    return kept if int(most) < 0 else f"{kept} and at most {megabytes(most)} of them in a partition"


def _names(prefix: str) -> list[str]:
    return [f"{prefix}.{topic}" for topic in TOPICS]


@contextmanager
def _asking(brokers: Brokers, what: str) -> Iterator[KafkaAdminClient]:
    with brokers.asked(what):
        admin = brokers.admin()
        try:
            yield admin
        finally:
            admin.close()


def _found(admin: KafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Those of these topics that are there, as the brokers describe them."""
    found = {}
    for each in admin.describe_topics(list(names)):
        error = for_code(each["error_code"])
        if issubclass(error, AuthorizationError):
            raise error(each["name"])
        if error is not UnknownTopicOrPartitionError:
            found[each["name"]] = each
    return found


def _configs(admin: KafkaAdminClient, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """The settings of topics that are checked; none of one that is not there, or may not be looked at."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name, list(CONFIGS)) for name in names]
    found = admin.describe_configs(resources, config_filter="all")["topic"]
    return {name: {config: each["value"] for config, each in found[name].items()} for name in names}

"""How the topics on brokers are to be set up, and what follows where one is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from store.schema import Settings

EVENTS, OPERATIONS, DEAD_LETTERS = "events", "operations", "dead-letters"
TOPICS: Final = (EVENTS, OPERATIONS, DEAD_LETTERS)

ARRIVAL: Final = "message.timestamp.type"
POLICY: Final = "cleanup.policy"
AGE: Final = "retention.ms"
BYTES: Final = "retention.bytes"
LARGEST: Final = "max.message.bytes"
CONFIGS: Final = (ARRIVAL, POLICY, AGE, BYTES, LARGEST)

_AROUND: Final = 10_000
"""What a batch and its compression add to one message (bytes)."""
_UNITS: Final = (
    (86_400_000, "day"),
    (3_600_000, "hour"),
    (60_000, "minute"),
    (1_000, "second"),
    (1, "millisecond"),
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What one setting of one topic is to be, and what follows when it is something else."""

    topic: str
    """Its name without the prefix."""
    config: str
    value: str
    holds: Callable[[str], bool]
    """Whether a value that was found will do."""
    so: Callable[[str], str]
    """What follows from one that will not, in the middle of a sentence."""
    forbids: bool
    """Whether nothing may run over it."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A setting that is not as it is to be."""

    topic: str
    config: str
    found: str
    wanted: str
    said: str
    """What follows, and the remedy: a sentence."""
    forbids: bool
    """Whether nothing may run over it."""


def rules(settings: Settings) -> tuple[Rule, ...]:
    """How the topics are to be set up.

    How long events are kept is left to the brokers: it says how far back a replay reaches.
    """
    operation, event = settings.operation_bytes, settings.event_bytes
    return (
        *(_arrival(topic) for topic in TOPICS),
        *(_not_compacted(topic) for topic in TOPICS),
        *(rule for topic in (OPERATIONS, DEAD_LETTERS) for rule in _kept_for_ever(topic)),
        _large(EVENTS, event),
        *(_large(topic, operation) for topic in (OPERATIONS, DEAD_LETTERS)),
    )


def differences(prefix: str, configs: Mapping[str, Mapping[str, str]], settings: Settings) -> Iterator[Difference]:
    """What is wrong, as far as the settings of the topics are known; `configs` has them by full name."""
    for rule in rules(settings):
        name = f"{prefix}.{rule.topic}"
        found = configs[name].get(rule.config)
        if found is not None and not rule.holds(found):
            what = f"{name} has {rule.config}={found}, so {rule.so(found)}"
            remedy = f"`lookfirst topics create --alter` sets it to {rule.value}"
            yield Difference(name, rule.config, found, rule.value, f"{what}; {remedy}.", rule.forbids)


def duration(milliseconds: str) -> str:
    """A time as people say it, such as `7 days`."""
    left = int(milliseconds)
    size, unit = next((each for each in _UNITS if left >= each[0]), _UNITS[-1])
    count = round(left / size, 1)
    return f"{count:,g} {unit}{'' if count == 1 else 's'}"


def megabytes(count: str) -> str:
    """Bytes as people say them."""
    return f"{round(int(count) / 1e6, 2):,.12g} MB"


def _arrival(topic: str) -> Rule:
    return Rule(
        topic,
        ARRIVAL,
        value="LogAppendTime",
        holds=lambda found: found == "LogAppendTime",
        so=lambda _: f"producers would say when {_called(topic)} arrived",
        forbids=topic != DEAD_LETTERS,
    )


def _not_compacted(topic: str) -> Rule:
    return Rule(
        topic,
        POLICY,
        value="delete",
        holds=lambda found: "compact" not in found,
        so=lambda _: f"all but the last of the {_called(topic)} of a thread would be lost",
        forbids=topic != DEAD_LETTERS,
    )


def _kept_for_ever(topic: str) -> Iterator[Rule]:
    def long(found: str) -> str:
        return f"{_called(topic)} would be lost after {duration(found)}"

    def many(found: str) -> str:
        return f"{_called(topic)} beyond the newest {megabytes(found)} would be lost"

    for config, so in ((AGE, long), (BYTES, many)):
        yield Rule(topic, config, "-1", lambda found: int(found) < 0, so, forbids=topic == OPERATIONS)


def _large(topic: str, needed: int) -> Rule:
    return Rule(
        topic,
        LARGEST,
        value=str(needed + _AROUND),
        holds=lambda found: int(found) >= needed + _AROUND,
        so=lambda _: f"{_called(topic)} of {megabytes(str(needed))} would be refused",
        # Whoever produces an event is told that it is too large; a run ends when it cannot write.
        forbids=topic != EVENTS,
    )


def _called(topic: str) -> str:
    return topic.replace("-", " ")

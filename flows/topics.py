"""The topics of a data folder: files in it, or on brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

from connectors.topic import Topic
from flows.data_folder import DataFolder
from store.schema import Settings

TopicName = Literal["events", "operations", "dead-letters"]
Opened = Callable[[TopicName], Topic]
"""Opens a topic by what is in it; raises TopicError when it cannot be had."""


@contextmanager
def topics_of(folder: DataFolder, settings: Settings, brokers: str | None = None) -> Iterator[Opened]:
    """Open topics on `brokers`, or without any the files of the folder; they are closed behind it.

    Raises UsageError for brokers that are none.
    """
    if brokers is None:
        yield folder.topic
        return
    # Whoever has files need not wait for what speaks to brokers.
    from connectors.kafka_client import Brokers
    from connectors.kafka_topic import KafkaTopic

    at = Brokers.at(brokers, settings)
    with ExitStack() as opened:

        def on_brokers(name: TopicName) -> Topic:
            topic = KafkaTopic(at, f"{folder.prefix}.{name}")
            opened.callback(topic.close)
            return topic

        yield on_brokers

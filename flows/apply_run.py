"""`apply` on Kafka: the one process that writes the store of a data folder."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from connectors.kafka_flow import KafkaSink, KafkaSource, Reading
from connectors.kafka_lag import KafkaLag
from connectors.topic_file import utc_now
from flows.apply import StoreSink, apply
from flows.background import begin_embedding, finish_embedding, follow
from flows.data_folder import check_positions
from flows.embedding import Embedding
from flows.kafka_run import ALONE, KafkaRun
from flows.maintain import writer_of
from flows.tally import Tally, Watcher
from flows.taps import StoppedTap
from flows.vitals import Vitals


@dataclass(slots=True)
class ApplyRun(KafkaRun):
    """One run of `apply`."""

    _embedding: Embedding | None = None
    _lag: KafkaLag | None = None

    def vitals(self) -> Vitals:
        """How the run is at this moment. May be called from any thread."""
        lag, tally, embedding = self._lag, self.tally, self._embedding
        if lag is None:
            return Vitals(started=self.started, now=utc_now(), stopping=self.is_stopping, recovering=True)
        read, end = lag.places
        return Vitals(
            started=self.started,
            now=utc_now(),
            stopping=self.is_stopping,
            dropped=tally.dropped,
            places={"operations_end": end, "applied": tally.applied_to, "followed": tally.followed_to},
            behind=end - read,
            memory_failure=tally.memory_failure,
            unembedded=embedding.pending if embedding else 0,
            embedder_failure=embedding.trouble if embedding else None,
            brokers_failure=lag.failure,
        )

    def run(self, watcher: Watcher | None = None) -> Tally:
        """Apply until it is stopped, or until the end of the topic when that was asked for.

        Raises LookfirstError when another process applies to the folder, something does not belong together, or
        the flow failed.
        """
        with ExitStack() as held:
            held.enter_context(self.held("apply"))
            operations, letters = self.topics("operations", "dead-letters")
            for topic in (operations, letters):
                held.callback(topic.close)
            store = self.folder.store(create=True)
            self._embedding = embedding = begin_embedding(store, self.settings)
            if embedding:
                held.callback(embedding.end)
            reached = check_positions(store, operations)
            self.tally.applied_to = sum(reached.values())
            follow(store, self.tally)
            self._lag = lag = KafkaLag(self.brokers, operations.name, f"{self.folder.prefix}.apply")
            lag.start()
            held.callback(lag.end)
            remedy = (
                "Operations are to be kept for ever: put the topic back, or a store that has applied what is gone."
            )
            flow = apply(
                KafkaSource(
                    Reading(
                        operations,
                        self.settings.source_batch,
                        start=reached,
                        until=operations.ends() if self.until_end else None,
                        remedy=remedy,
                    ),
                    StoppedTap(self.signals, self.settings.stop_wait, until_end=self.until_end),
                    lag,
                ),
                StoreSink(writer_of(store, self.settings), operations.name, operations.id, self.tally, reached),
                KafkaSink(letters),
                self.letter,
            )
            self.workers.start("apply", self.engine, "apply", flow, ALONE)
            self.wait(watcher)
            if self.tally.memory_failure:
                # It may have failed with the last epoch: one more try, then the run says that it lags.
                follow(store, self.tally)
            if embedding and self.until_end:
                finish_embedding(embedding, self.signals.stopping, self.tally, watcher)
        self.workers.raise_first(self.folder.recovery)
        return self.tally

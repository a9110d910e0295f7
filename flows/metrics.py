"""The vitals of a run as metrics, in the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from flows.vitals import Vitals

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_BEHIND: Final = (("events_read", "events_end"), ("applied", "operations_end"), ("followed", "operations_end"))
"""Places that follow a topic, and the place of its end."""


def metrics_text(vitals: Vitals) -> str:
    """All metrics of one moment, with those of the process (memory, processor time, open files)."""
    registry = CollectorRegistry()
    registry.register(_Moment(vitals))
    ProcessCollector(registry=registry)
    return generate_latest(registry).decode("utf-8")


@dataclass(frozen=True, slots=True, eq=False)
class _Moment(Collector):
    vitals: Vitals

    def collect(self) -> Iterator[Metric]:
        yield from self._waiting()
        yield from self._condition()
        yield from self._done()
        yield from self._places()

    def _waiting(self) -> Iterator[Metric]:
        now = self.vitals
        yield _gauge("pending_events", "Events taken and not settled, held ones not counted.", now.pending)
        yield _gauge("held_events", "Events of which only the place is kept until their thread goes on.", now.held)
        yield _gauge("pending_bytes", "Size of the pending events.", now.pending_bytes)
        yield _gauge("pending_full", "1 while the bound of pending is reached: the topic is the buffer.", now.full)
        yield _gauge("in_flight", "Judgments under way.", now.in_flight)
        yield _gauge("suspects", "Events that are judged alone: they were under way at a crash.", now.suspects)

    def _condition(self) -> Iterator[Metric]:
        now = self.vitals
        ready = next(now.problems(), None) is None
        yield _gauge("ready", "1 while the run decides at its pace; /readyz says why it does not.", ready)
        yield _gauge("stopping", "1 while the run is stopping.", now.stopping)
        yield _gauge("recovering", "1 while what an earlier run left is being taken up.", now.recovering)
        failed = now.memory_failure is not None
        yield _gauge("memory_failed", "1 while memory could not follow the record.", failed)
        yield _gauge(
            "unembedded_rows", "Rows whose vector is not made yet; 0 without an embedder.", now.unembedded
        )
        unwell = now.embedder_failure is not None
        yield _gauge("embedder_failed", "1 while the embedder is unwell.", unwell)
        away = now.brokers_failure is not None
        yield _gauge("brokers_failed", "1 while the brokers do not answer; 0 without any.", away)
        breakers = GaugeMetricFamily(
            "lookfirst_breaker_open",
            "1 while a provider is unwell and is not asked as usual.",
            labels=["provider"],
        )
        for breaker in now.breakers:
            breakers.add_metric([breaker.provider], breaker.state != "closed")
        yield breakers
        started = now.started.timestamp()
        yield _gauge("start_time_seconds", "When the run started, in seconds since 1970.", started)
        uptime = (now.now - now.started).total_seconds()
        yield _gauge("uptime_seconds", "How long the run has lasted.", uptime)

    def _done(self) -> Iterator[Metric]:
        now = self.vitals
        events = CounterMetricFamily(
            "lookfirst_events",
            "Events settled since the start of the run, by what became of them.",
            labels=["outcome"],
        )
        for outcome in ("decided", "repeated", "parked", "unreadable"):
            events.add_metric([outcome], getattr(now, outcome))
        yield events
        yield CounterMetricFamily(
            "lookfirst_dropped_decisions", "Second decisions of an identity, dropped by apply.", now.dropped
        )

    def _places(self) -> Iterator[Metric]:
        places = self.vitals.places
        position = GaugeMetricFamily(
            "lookfirst_position", "Offset that a part of the run has reached in its topic.", labels=["place"]
        )
        for place, offset in places.items():
            position.add_metric([place], offset)
        yield position
        lag = GaugeMetricFamily(
            "lookfirst_lag_messages",
            "Messages between a place and the end of the topic it follows.",
            labels=["place"],
        )
        for place, end in _BEHIND:
            if place in places and end in places:
                # The two are not read at one instant.
                lag.add_metric([place], max(0, places[end] - places[place]))
        yield lag


def _gauge(name: str, help_text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"lookfirst_{name}", help_text, float(value))

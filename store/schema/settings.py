"""Every limit and default, in one place, each with its unit.

A value comes from the environment (`LOOKFIRST_` and the name in capitals) or from here. It is read once, at
start, and passed on as a value.
"""

from __future__ import annotations

from pydantic import Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from store.schema.event import problems
from store.schema.failure import UsageError

_HANDLE = 8
"""What a handle and its separators add to a slice (characters)."""


class Settings(BaseSettings):
    """The effective settings of one process."""

    model_config = SettingsConfigDict(env_prefix="LOOKFIRST_", frozen=True, extra="ignore", allow_inf_nan=False)

    topic_prefix: str = Field(
        "lookfirst", pattern=r"^[\w-][\w.-]*$", description="prefix of the topic names (text)"
    )

    queries: int = Field(4, ge=1, description="queries an event (count)")
    query_terms: int = Field(24, ge=1, description="words in one text query (count)")
    identifiers: int = Field(16, ge=1, description="identifiers in one exact query (count)")
    hits: int = Field(12, ge=1, description="hits a query may return (rows)")
    slices: int = Field(12, ge=1, description="slices an event (rows)")
    slices_a_lane: int = Field(4, ge=1, description="slices guaranteed to each lane (rows)")
    slice_characters: int = Field(320, ge=320, description="length of a slice (characters)")
    memory_characters: int = Field(16_000, ge=2_000, description="memory in one judgment (characters)")
    thread_rows: int = Field(8, ge=1, description="rows of the event's thread (rows)")
    standby_tasks: int = Field(5, ge=0, description="recent tasks in the standby (rows)")
    standby_people: int = Field(5, ge=0, description="people in the standby (rows)")
    standby_pool: int = Field(50, ge=1, description="newest tasks the standby chooses from (rows)")
    summary_characters: int = Field(5_200, ge=100, description="length of the summary slice (characters)")
    title_characters: int = Field(120, ge=20, description="length of a title (characters)")

    judge: str = Field(
        "rules",
        pattern=r"^(rules|[\w.]+:\w+)$",
        description="the judge: rules, or module:factory of your own (name)",
    )
    judge_timeout: float = Field(120.0, gt=0, description="wait for one answer of a remote judge (s)")
    inflight: int = Field(64, ge=1, description="judgments of a remote judge under way at once (count)")
    judgments: int = Field(2, ge=1, description="judgments of an event whose answers are refused (count)")
    retry_cap: int = Field(3, ge=1, description="content failures, or crashes, that park an event (count)")
    retry_first: float = Field(0.2, gt=0, description="first delay after a failure, doubled each time (s)")
    retry_longest: float = Field(60.0, gt=0, description="longest delay between two attempts (s)")
    unknown_for: float = Field(3_600.0, gt=0, description="time an unknown failure is retried (s)")
    breaker_after: int = Field(
        8, ge=1, description="transient failures in a row after which a provider is left alone (count)"
    )
    breaker_first: float = Field(
        1.0, gt=0, description="first pause for an unwell provider, doubled each time (s)"
    )
    breaker_longest: float = Field(30.0, gt=0, description="longest pause for an unwell provider (s)")
    stop_wait: float = Field(30.0, ge=0, description="wait at a stop for judgments under way (s)")
    search_timeout: float = Field(10.0, gt=0, description="wait for one read before it counts as failed (s)")
    readers: int = Field(2, ge=1, description="reads under way at once; more than cores gain nothing (threads)")
    wave: int = Field(64, ge=1, description="events looked for side by side (count)")
    read_ahead: int = Field(256, ge=1, description="events read ahead of their decision (count)")
    pending: int = Field(10_000, ge=1, description="events pending in a process (count)")
    pending_megabytes: float = Field(64.0, gt=0, description="text of the events pending in a process (megabytes)")
    thread_pending: int = Field(
        200, ge=1, description="events pending in a thread; of those beyond only the place is kept (count)"
    )
    segment_characters: int = Field(
        12_000, ge=1_000, description="longest text judged in one piece; of a longer one, each piece (characters)"
    )
    segment_overlap: int = Field(200, ge=0, description="text that two pieces share (characters)")
    segments: int = Field(40, ge=2, description="pieces judged of one event, head and tail first (count)")
    buckets: int = Field(64, ge=1, description="state keys a dataflow spreads its threads over (count)")

    epoch: float = Field(1.0, ge=0, description="time between two snapshots (s)")
    source_batch: int = Field(256, ge=1, description="messages a source hands over at once (count)")
    unindexed_rows: int = Field(512, ge=1, description="unindexed rows that start an optimize (rows)")
    upkeep_seconds: float = Field(5.0, gt=0, description="time after which no further table is optimised (s)")
    versions_for: float = Field(600.0, ge=0, description="time old versions of a table stay readable (s)")
    fragments: int = Field(48, ge=2, description="commits of a table that start its compaction (count)")

    @model_validator(mode="after")
    def _overlap_fits(self) -> Settings:
        if self.segment_overlap * 2 > self.segment_characters:
            raise ValueError("segment_overlap is more than half of segment_characters: pieces would not advance")
        return self

    @model_validator(mode="after")
    def _slices_fit(self) -> Settings:
        if self.memory_characters < self.slices * (self.slice_characters + _HANDLE):
            raise ValueError("memory_characters is less than slices times slice_characters: slices never give way")
        return self


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment, then `overrides`; raises UsageError with one sentence."""
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        named = [str(item["loc"][0]) for item in error.errors() if item["loc"]]
        variables = " and ".join(f"LOOKFIRST_{name.upper()}" for name in named) or "the LOOKFIRST_… variables"
        raise UsageError(f"A setting is wrong: {problems(error)}; mend or unset {variables}.") from error

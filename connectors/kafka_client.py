"""Clients of Kafka brokers with every setting that matters fixed, and their errors as sentences."""

from __future__ import annotations

import importlib
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka.errors import (
    AuthorizationError,
    KafkaError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.sasl.oauth import AbstractTokenProvider

from connectors.kafka_net import CertificateRefused, NetClient
from store.schema import Settings, TopicError, UsageError
from store.schema.masking import mask

_MEGABYTE: Final = 1_000_000
_AWAY: Final = "check that they run, --brokers and LOOKFIRST_KAFKA_SECURITY"


@dataclass(frozen=True, slots=True)
class Brokers:
    """The brokers of a cluster and how to connect to them. The secrets are read when a client is made."""

    servers: str
    """`HOST:PORT`, several with commas between."""
    settings: Settings

    @classmethod
    def at(cls, servers: str, settings: Settings) -> Brokers:
        """Those at an address; raises UsageError when it is none."""
        for server in servers.split(","):
            host, colon, port = server.strip().rpartition(":")
            if not (colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65_536):
                raise UsageError(f"{server.strip()!r} is no broker; write --brokers like localhost:9092.")
        return cls(",".join(server.strip() for server in servers.split(",")), settings)

    def consumer(self, **more: Any) -> KafkaConsumer:
        """A consumer of no group, to be assigned by hand.

        A place that is gone is an error and never a jump, what an aborted transaction has written is never seen,
        and a topic that is not there is never made.
        """
        limits = self.settings
        fixed: dict[str, Any] = {
            "group_id": None,
            "enable_auto_commit": False,
            "metrics_enabled": False,
            "auto_offset_reset": "none",
            "isolation_level": "read_committed",
            "allow_auto_create_topics": False,
            "check_crcs": True,
            "max_poll_records": limits.source_batch,
            "max_partition_fetch_bytes": int(limits.kafka_fetch_megabytes * _MEGABYTE),
            "request_timeout_ms": int(limits.kafka_answer * 1_000),
            "reconnect_backoff_max_ms": 2_000,
        }
        return KafkaConsumer(**self._connection(), **{**fixed, **more})

    def producer(self) -> KafkaProducer:
        """A producer that sends nothing twice in its life; a message is sent when all replicas have it."""
        limits = self.settings
        return KafkaProducer(
            **self._connection(),
            acks="all",
            enable_idempotence=True,
            metrics_enabled=False,
            allow_auto_create_topics=False,
            compression_type=None if limits.kafka_compression == "none" else limits.kafka_compression,
            batch_size=131_072,
            linger_ms=5,
            max_request_size=limits.operation_bytes,
            delivery_timeout_ms=int(limits.kafka_delivery * 1_000),
            request_timeout_ms=int(min(limits.kafka_answer, limits.kafka_delivery / 2) * 1_000),
            max_block_ms=int(limits.kafka_answer * 1_000),
            reconnect_backoff_max_ms=2_000,
        )

    def admin(self) -> KafkaAdminClient:
        """A client that looks at topics and makes them."""
        return KafkaAdminClient(**self._connection(), request_timeout_ms=int(self.settings.kafka_answer * 1_000))

    @contextmanager
    def asked(self, what: str) -> Iterator[None]:
        """Turn what a client raises meanwhile into one sentence, which begins with `what` could not be done."""
        try:
            yield
        except (KafkaError, OSError, ValueError) as error:
            raise TopicError(f"{what}: {self.told(error)}.") from error

    def told(self, error: BaseException) -> str:
        """What went wrong at the brokers, and the remedy; in the middle of a sentence."""
        match error:
            case SaslAuthenticationFailedError():
                what = "token" if self.settings.kafka_mechanism == "OAUTHBEARER" else "user or the password"
                see = "TOKEN_FILE" if what == "token" else "USER"
                return f"the brokers at {self.servers} refuse the {what}; see LOOKFIRST_KAFKA_{see}"
            case UnsupportedSaslMechanismError():
                told = f"the brokers at {self.servers} do not offer {self.settings.kafka_mechanism}"
                return f"{told}; LOOKFIRST_KAFKA_MECHANISM names another"
            case CertificateRefused():
                told = f"the certificate of the brokers at {self.servers} is refused ({_reason(error)})"
                return f"{told}; see --brokers and LOOKFIRST_KAFKA_CA_FILE"
            case AuthorizationError():
                return f"the brokers at {self.servers} do not permit it; have the rights granted"
            case KafkaTimeoutError() | OSError():
                return f"no broker answers at {self.servers} ({_reason(error)}); {_AWAY}"
            case _:
                return _reason(error)

    def _connection(self) -> dict[str, Any]:
        limits = self.settings
        found: dict[str, Any] = {
            "bootstrap_servers": self.servers.split(","),
            "client_id": "lookfirst",
            "security_protocol": limits.kafka_security,
            "kafka_client": NetClient,
            "bootstrap_timeout_ms": int(limits.kafka_answer * 1_000),
        }
        if "SSL" in limits.kafka_security:
            found["ssl_context"] = _ssl_context(limits)
        if "SASL" in limits.kafka_security:
            found["sasl_mechanism"] = limits.kafka_mechanism
            if limits.kafka_mechanism == "OAUTHBEARER":
                found["sasl_oauth_token_provider"] = _token_provider(limits)
            else:
                found |= {"sasl_plain_username": limits.kafka_user, "sasl_plain_password": _password(limits)}
        return found


def _ssl_context(settings: Settings) -> ssl.SSLContext:
    ca, certificate, key = settings.kafka_ca_file, settings.kafka_cert_file, settings.kafka_key_file
    password = settings.kafka_key_password
    what = f"The certificates in {ca} that LOOKFIRST_KAFKA_CA_FILE names"
    try:
        context = ssl.create_default_context(cafile=ca or None)
        if certificate:
            what = f"The certificate in {certificate} and its key, as LOOKFIRST_KAFKA_… name them,"
            # Without an answer of ours OpenSSL would ask for the password at the terminal.
            context.load_cert_chain(
                certificate, key or None, lambda: password.get_secret_value() if password else ""
            )
    except (OSError, ValueError) as error:
        # An error of OpenSSL names what it stumbled over, never the password.
        raise UsageError(f"{what} cannot be read ({_reason(error)}).") from error
    return context


class _TokenFile(AbstractTokenProvider):  # type: ignore[misc]
    """A token that somebody else renews in a file; read for each connection."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def token(self) -> str:
        return _secret_in(self._path, "LOOKFIRST_KAFKA_TOKEN_FILE")


def _token_provider(settings: Settings) -> AbstractTokenProvider:
    if not settings.kafka_token_provider:
        made = _TokenFile(settings.kafka_token_file)
        # A file that is not there is told now, and not when nobody answers.
        made.token()
        return made
    module, _, factory = settings.kafka_token_provider.partition(":")
    try:
        made = getattr(importlib.import_module(module), factory)(settings)
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"There is no token provider {settings.kafka_token_provider} ({error}); "
            "LOOKFIRST_KAFKA_TOKEN_PROVIDER names module:factory."
        ) from error
    if not isinstance(made, AbstractTokenProvider):
        raise UsageError(
            f"{settings.kafka_token_provider} makes no kafka.net.sasl.oauth.AbstractTokenProvider; "
            "LOOKFIRST_KAFKA_TOKEN_PROVIDER names a factory of one."
        )
    return made


def _password(settings: Settings) -> str:
    if settings.kafka_password:
        return settings.kafka_password.get_secret_value()
    return _secret_in(settings.kafka_password_file, "LOOKFIRST_KAFKA_PASSWORD_FILE")


def _secret_in(path: str, variable: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"The file {path} that {variable} names cannot be read ({type(error).__name__})."
        ) from error


def _reason(error: BaseException) -> str:
    """What an error says, without the name that every one of the library's begins with."""
    said = str(error).removeprefix(f"{type(error).__name__}: ")
    return mask(said).strip().rstrip(".") or type(error).__name__

"""Reaching the brokers the first time: why it failed, and at once where trying again is of no use.

By itself the library tries until its time is over, whatever the reason, and then says only that it could not: a
password that is refused would look like a broker that is down. It would leave its thread running, too.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kafka.errors import (
    AuthorizationError,
    KafkaConnectionError,
    KafkaTimeoutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from store.schema import LookfirstError


class CertificateRefused(KafkaConnectionError):  # type: ignore[misc]
    """The broker's certificate is not trusted, or is not of that host; its argument says why."""


_FINAL: Final = (
    AuthorizationError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    CertificateRefused,
    LookfirstError,
)
"""What the brokers, or a file that is not there, would say the next time, too."""


class NetClient(KafkaNetClient):  # type: ignore[misc]
    """To be given to consumers, producers and admin clients as `kafka_client`."""

    def __init__(self, **configs: Any) -> None:
        net = NetworkSelector(**configs)
        super().__init__(net, _Connections(net, **configs), **configs)


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    def __init__(self, net: NetworkSelector, **configs: Any) -> None:
        super().__init__(net, **configs)
        self._why: BaseException | None = None
        """What the last connection ended of; what is final stays."""

    def get_connection(self, *arguments: Any, **named: Any) -> Any:
        if isinstance(self._why, _FINAL) and not self.bootstrapped:
            raise self._why
        connection = super().get_connection(*arguments, **named)
        if "close" not in vars(connection):
            connection.close_future.add_errback(self._ended)
            # A broker refuses and hangs up: where the latter is noticed first, only this is told of the former.
            connection.close = partial(self._closed, connection.close)
        return connection

    async def _build_transport(self, *arguments: Any, **named: Any) -> Any:
        transport = await super()._build_transport(*arguments, **named)
        # What is read together with the end of a connection would be thrown away, and it is the refusal.
        transport._sock_recv = partial(_data_first, transport._sock_recv)
        return transport

    def bootstrap(self, *arguments: Any, **named: Any) -> None:
        """Reach a broker; raises what kept it from that, and then leaves no thread or socket behind."""
        try:
            super().bootstrap(*arguments, **named)
        except BaseException as error:
            self.close()
            self._net.close()
            if isinstance(error, KafkaTimeoutError) and self._why is not None:
                raise KafkaTimeoutError(*self._why.args) from self._why
            raise
        self._why = None

    def _closed(self, close: Callable[[BaseException | None], None], error: BaseException | None = None) -> None:
        if error is not None:
            self._ended(error)
        close(error)

    def _ended(self, error: BaseException) -> None:
        if isinstance(error.__context__, ssl.SSLCertVerificationError):
            error = CertificateRefused(error.__context__.verify_message)
        if not isinstance(self._why, _FINAL):
            self._why = error


def _data_first(receive: Callable[[], tuple[bytes, BaseException | None]]) -> tuple[bytes, BaseException | None]:
    """What was received without what has ended it, which the next look finds again."""
    data, error = receive()
    return data, None if data else error

"""Pages over HTTP by which others see how a process is: probes, scrapers, a person with curl.

The server lives in threads of its own that end with the process. Whatever a client does or leaves undone, it can
take a connection here and nothing else.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from store.schema import LookfirstError, UsageError

TEXT: Final = "text/plain; charset=utf-8"
JSON: Final = "application/json"

_HOST: Final = "127.0.0.1"
_CONNECTIONS: Final = 16
"""Connections open at once; one more ends the oldest, so that idle ones cannot keep a probe out (count)."""
_PATIENCE: Final = 5.0
"""Wait for a client to say or to take something (s)."""
_POLL: Final = 0.2
"""Longest wait for the server to notice that it is to end (s)."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is answered: made anew for each request."""

    body: str
    kind: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


Pages = Mapping[str, Callable[[], Page]]
"""Pages by path. They are called from threads of the server, several at once."""


class HealthError(LookfirstError):
    """The pages cannot be served at the address that was asked for."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where pages are served; port 0 is any that is free."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `PORT`, `HOST:PORT` or `[IPv6]:PORT`; raises UsageError."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]") if colon else _HOST
        if not host or not port.isascii() or not port.isdecimal() or int(port) > 65_535:
            raise UsageError(
                f"{text!r} is no address to serve health at; give PORT or HOST:PORT, with a port from 0 to 65535."
            )
        return cls(host, int(port))

    @property
    def url(self) -> str:
        """The address as a link."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@contextmanager
def served(address: Address, pages: Pages) -> Iterator[Address]:
    """Serve pages for as long as the context lasts; yields the address with the port that was found.

    Raises HealthError when the address cannot be had.
    """
    try:
        server = _Server(address, pages)
    except OSError as error:
        raise HealthError(
            f"Health cannot be served at {address.host}:{address.port}: {error.strerror or error}; "
            "choose another address, or port 0 for any that is free."
        ) from error
    threading.Thread(target=server.serve_forever, args=(_POLL,), name="health", daemon=True).start()
    try:
        yield Address(address.host, server.server_port)
    finally:
        server.shutdown()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 4 * _CONNECTIONS
    """A client beyond it waits a second and more for its next try, so idle ones must not fill it (count)."""

    def __init__(self, address: Address, pages: Pages) -> None:
        self.pages = pages
        self.address_family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        self._open: dict[object, None] = {}
        self._lock = threading.Lock()
        super().__init__((address.host, address.port), _Handler)

    def server_bind(self) -> None:
        # Not the one of HTTPServer, which asks the name service for a name that nobody reads.
        socketserver.TCPServer.server_bind(self)
        self.server_port = int(self.server_address[1])

    def process_request(self, request: object, client_address: object) -> None:
        with self._lock:
            self._open[request] = None
            oldest = next(iter(self._open)) if len(self._open) > _CONNECTIONS else None
            if oldest is not None:
                del self._open[oldest]
        if isinstance(oldest, socket.socket):
            with suppress(OSError):
                # Its thread reads the end of the connection, and closes it.
                oldest.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)  # type: ignore[arg-type]

    def shutdown_request(self, request: object) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)  # type: ignore[arg-type]

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: a client that goes away is no matter of the run, nor of its stderr."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE
    server_version = "lookfirst"
    sys_version = ""
    error_content_type = TEXT
    error_message_format = "%(code)d %(message)s\n"

    def do_GET(self) -> None:
        self.wfile.write(self._headed())

    def do_HEAD(self) -> None:
        self._headed()

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: stderr is for the person who runs it."""

    def _headed(self) -> bytes:
        """Send status and headers; returns the body."""
        page = self._page()
        body = page.body.encode("utf-8", "backslashreplace")
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        return body

    def _page(self) -> Page:
        make = self.server.pages.get(self.path.partition("?")[0])
        if make is None:
            return Page(f"There is only {', '.join(self.server.pages)}.\n", status=HTTPStatus.NOT_FOUND)
        try:
            return make()
        except Exception as error:
            told = f"This page could not be made ({type(error).__name__}: {error}).\n"
            return Page(told, status=HTTPStatus.INTERNAL_SERVER_ERROR)

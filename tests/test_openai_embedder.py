"""The embedder behind an endpoint: what each answer means, and where the key goes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from connectors.openai_embedder import openai
from store.embedding import embed, embedder_of
from store.schema import ClassifiedFailure, EmbedderSpec, FailureClass, UsageError, load_settings

KEY = "sk-test-0123456789abcdef0123456789"
Answer = tuple[int, bytes]
Script = Callable[[list[str]], Answer | None]
"""Status and body for the texts of a request; None closes the connection."""


def vector(text: str) -> list[float]:
    """Something that tells texts apart."""
    return [float(len(text)), 1.0, float(ord(text[0]))]


def good(texts: list[str]) -> Answer:
    """What an endpoint answers, the last text first: only the index says which is which."""
    data = [{"object": "embedding", "index": n, "embedding": vector(text)} for n, text in enumerate(texts)]
    return 200, json.dumps({"object": "list", "data": data[::-1], "model": "m"}).encode()


def status(number: int, body: bytes = b'{"error": {"message": "no"}}') -> Script:
    """The same answer to everything."""
    return lambda texts: (number, body)


@dataclass
class Endpoint:
    """An endpoint on the loopback address that answers by script and keeps what it was sent."""

    script: Script = good
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    @property
    def spec(self) -> EmbedderSpec:
        """The embedder that asks here."""
        return EmbedderSpec(embedder="openai", url=f"http://127.0.0.1:{self.port}/v1/", model="m", dimensions=3)

    @property
    def asked(self) -> list[list[str]]:
        """The texts of each request."""
        return [body["input"] for body in self.bodies]


@contextmanager
def served() -> Iterator[Endpoint]:
    """An endpoint, as long as it lasts."""
    endpoint = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            endpoint.paths.append(self.path)
            endpoint.keys.append(self.headers["Authorization"])
            endpoint.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            answer = endpoint.script(endpoint.asked[-1])
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer[0])
            self.send_header("Content-Length", str(len(answer[1])))
            self.end_headers()
            self.wfile.write(answer[1])

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: pytest wants stderr for itself."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    endpoint.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """An endpoint that answers well, and a key for it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with served() as serving:
        yield serving


def unit(text: str) -> list[float]:
    """The vector of a text in its direction alone."""
    length = sum(number * number for number in vector(text)) ** 0.5
    return [number / length for number in vector(text)]


def failure_of(endpoint: Endpoint, *texts: str) -> ClassifiedFailure:
    """How embedding these fails; the key is in no part of it."""
    with pytest.raises(ClassifiedFailure) as failed:
        embed(endpoint.spec, texts)
    told, error = "", failed.value.__cause__
    while error is not None:
        told, error = told + repr(error), error.__cause__
    assert KEY not in failed.value.reason + told
    return failed.value


def test_a_vector_for_each_text_by_its_index(endpoint: Endpoint) -> None:
    """One request for all, as the protocol wants it; the answer's own order does not matter."""
    assert [unit(text) for text in ("one", "twotwo", "ä")] == [
        pytest.approx(made) for made in embed(endpoint.spec, ["one", "twotwo", "ä"])
    ]
    assert ["/v1/embeddings"] == endpoint.paths
    assert [{"model": "m", "input": ["one", "twotwo", "ä"]}] == endpoint.bodies


def test_the_key_goes_into_the_header(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the environment, without the line break of the file it came from; where there is none, none is sent."""
    for key, expected in ((KEY, f"Bearer {KEY}"), (f"{KEY}\n", f"Bearer {KEY}"), ("", None)):
        monkeypatch.setenv("OPENAI_API_KEY", key)
        embed(endpoint.spec, ["x"])
        assert expected == endpoint.keys.pop()
    assert KEY not in repr(vars(embedder_of(endpoint.spec)))


@pytest.mark.parametrize("key", [f"{KEY}\r\nX-Other: 1", f"{KEY}ключ", f"{KEY}\x7f"])
def test_a_key_that_no_header_can_carry(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The failure names the variable and not what is in it, and nothing was sent."""
    monkeypatch.setenv("OPENAI_API_KEY", key)
    failed = failure_of(endpoint, "x")
    assert FailureClass.UNKNOWN is failed.failure
    assert "OPENAI_API_KEY has characters" in failed.reason
    assert [] == endpoint.bodies


@pytest.mark.parametrize(
    ("script", "failure", "said"),
    [
        (status(429), FailureClass.TRANSIENT, "answered 429"),
        (status(408), FailureClass.TRANSIENT, "answered 408"),
        (status(500), FailureClass.TRANSIENT, "answered 500"),
        (status(503, b"<html>busy</html>"), FailureClass.TRANSIENT, "answered 503"),
        (status(401, f'{{"error": "wrong key {KEY}"}}'.encode()), FailureClass.UNKNOWN, "answered 401"),
        (status(404), FailureClass.UNKNOWN, "answered 404"),
        (status(302), FailureClass.UNKNOWN, "answered 302"),
        (status(200, b"not JSON"), FailureClass.UNKNOWN, "no list of 2 vectors"),
        (status(200, b"\xff\xfe"), FailureClass.UNKNOWN, "no list of 2 vectors"),
        (status(200, b"[]"), FailureClass.UNKNOWN, "no list of 2 vectors"),
        (status(200, b'{"data": null}'), FailureClass.UNKNOWN, "no list of 2 vectors"),
        (status(200, b'{"data": [{"index": 0, "embedding": "AAAA"}]}'), FailureClass.UNKNOWN, "no list of 2 vec"),
        (status(200, b'{"data": [{"index": 1e999, "embedding": []}]}'), FailureClass.UNKNOWN, "no list of 2 vec"),
        (status(200, b"[" * 100_000), FailureClass.UNKNOWN, "no list of 2 vectors"),
        (lambda texts: good(texts[1:]), FailureClass.UNKNOWN, "no list of 2 vectors"),
        (lambda texts: None, FailureClass.TRANSIENT, "cannot be asked: ProtocolError"),
        (
            status(200, json.dumps({"data": [{"index": n, "embedding": [1, 2]} for n in range(2)]}).encode()),
            FailureClass.UNKNOWN,
            "a vector of 2 dimensions came back, 3 were expected",
        ),
    ],
)
def test_what_an_answer_means(endpoint: Endpoint, script: Script, failure: FailureClass, said: str) -> None:
    """Busy and broken pass, a wrong key and nonsense do not: each a failure of its class, asked for once."""
    endpoint.script = script
    failed = failure_of(endpoint, "one", "two")
    assert (failure, 1) == (failed.failure, len(endpoint.bodies))
    assert said in failed.reason


def test_an_endpoint_that_is_not_there_is_away_for_a_while() -> None:
    """A closed port is a failure that passes."""
    with served() as gone:
        pass
    assert FailureClass.TRANSIENT is failure_of(gone, "x").failure


def test_an_endpoint_that_is_silent_is_not_waited_for(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that does not come in time is a failure that passes."""
    spoken = threading.Event()
    endpoint.script = lambda texts: good(texts) if spoken.wait(30) else None
    monkeypatch.setattr("connectors.openai_embedder._TIMEOUT", 0.1)
    with pytest.raises(ClassifiedFailure, match="cannot be asked: ReadTimeoutError") as failed:
        openai(endpoint.spec).embed(["x"])
    spoken.set()
    assert FailureClass.TRANSIENT is failed.value.failure


@pytest.mark.parametrize("number", [400, 413, 422])
def test_one_refused_text_of_a_batch_is_none(endpoint: Endpoint, number: int) -> None:
    """The others of its batch are embedded; the endpoint was asked whether it is the text's fault."""
    endpoint.script = lambda texts: (number, b"") if any("bad" in text for text in texts) else good(texts)
    made = embed(endpoint.spec, ["one", "bad", "two"])
    assert [True, False, True] == [each is not None for each in made]
    assert [["one", "bad", "two"], ["one"], ["bad"], ["hello"], ["two"]] == endpoint.asked


def test_an_endpoint_that_refuses_everything_has_failed(endpoint: Endpoint) -> None:
    """A model of another name is refused with 400 as well: no text is to blame for it, and none is given up."""
    endpoint.script = status(400)
    failed = failure_of(endpoint, "one", "two")
    assert (FailureClass.UNKNOWN, True) == (failed.failure, "answered 400" in failed.reason)


def test_blank_texts_are_not_sent(endpoint: Endpoint) -> None:
    """Of a blank text there is nothing to say; alone it costs no request."""
    made = embed(endpoint.spec, [" \n", "one", ""])
    assert [False, True, False] == [each is not None for each in made]
    assert [None] == embed(endpoint.spec, ["  "])
    assert [["one"]] == endpoint.asked


def test_marks_that_no_engine_can_read_are_replaced(endpoint: Endpoint) -> None:
    """NUL and half a surrogate do not reach the endpoint."""
    embed(endpoint.spec, ["a\0b\udc00c"])
    assert [["a\ufffdb\ufffdc"]] == endpoint.asked


def test_an_endpoint_that_comes_back_is_asked_again(endpoint: Endpoint) -> None:
    """After a closed connection the next request opens another one."""
    endpoint.script = lambda texts: None
    failure_of(endpoint, "x")
    endpoint.script = good
    assert 1 == len(embed(endpoint.spec, ["x"]))


@pytest.mark.parametrize(
    "url",
    [
        "http://ada:geheim42@127.0.0.1/v1",
        "https://geheim42@127.0.0.1",
        "http://127.0.0.1/v1?api_key=geheim42",
        "http://127.0.0.1/v1#geheim42",
        "geheim42:8080/v1",
        "ftp://geheim42",
        "http:// geheim42",
    ],
)
def test_an_address_with_a_secret_in_it_is_refused(url: str) -> None:
    """It would stand beside the vectors; the sentence names the setting and the key's place, not the secret."""
    with pytest.raises(
        UsageError, match=r"embedder_url.*OPENAI_API_KEY; mend or unset LOOKFIRST_EMBEDDER_URL"
    ) as told:
        load_settings(embedder_url=url)
    assert "geheim42" not in str(told.value)


def test_a_secret_in_an_address_is_masked() -> None:
    """Where an address comes past the settings, an error still does not tell it."""
    spec = EmbedderSpec(embedder="openai", url="http://ada:geheim42@127.0.0.1:9/v1", model="m", dimensions=3)
    with pytest.raises(ClassifiedFailure) as failed:
        openai(spec).embed(["x"])
    assert "geheim42" not in failed.value.reason
    assert "127.0.0.1:9/v1/embeddings cannot be asked" in failed.value.reason


def test_addresses_of_endpoints_are_accepted() -> None:
    """With and without a port, a path and a slash at its end."""
    for url in ("", "https://api.example.org/v1", "http://localhost:11434/v1/", "http://[::1]:8080"):
        assert url == load_settings(embedder_url=url).embedder_url

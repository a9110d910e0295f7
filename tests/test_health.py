"""How a run shows how it is: its pages over HTTP, its metrics, and that no client can disturb it."""

from __future__ import annotations

import http.client
import json
import queue
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from connectors.health import Address, HealthError, Page, served
from flows.cli.main import main
from flows.cli.progress import progress_line
from flows.data_folder import DataFolder
from flows.embedded import EmbeddedRun
from flows.health import health_pages
from flows.intake import Line
from flows.metrics import metrics_text
from flows.tally import Tally
from flows.vitals import BreakerVitals, Vitals
from store.schema import UsageError, load_settings
from tests.workplace import Script

STARTED = datetime(2024, 5, 1, 9, 0, tzinfo=UTC)
WELL = Vitals(started=STARTED, now=STARTED + timedelta(minutes=2))
BUSY = replace(
    WELL,
    pending=12,
    held=3,
    pending_bytes=4_096,
    in_flight=5,
    suspects=2,
    breakers=(BreakerVitals("judge", "open", 9, "503 from the provider"), BreakerVitals("memory")),
    decided=100,
    repeated=7,
    parked=2,
    unreadable=1,
    dropped=4,
    unembedded=9,
    places={"events_end": 130, "events_read": 122, "operations_end": 102, "applied": 90, "followed": 80},
)
ANY = Address("127.0.0.1", 0)

Answer = tuple[int, dict[str, str], str]


def ask(address: Address, path: str, method: str = "GET") -> Answer:
    """Status, headers and body of one request."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read().decode()
    finally:
        connection.close()


def samples(text: str) -> dict[str, float]:
    """Metrics by name and label value, such as `lookfirst_events_total decided`."""
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    """Wait for a condition; fails when it does not come about."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("vitals", "said"),
    [
        (replace(WELL, stopping=True), "The run is stopping."),
        (replace(WELL, recovering=True), "What an earlier run left is being taken up."),
        (
            replace(WELL, breakers=(BreakerVitals("judge", "open", 8, "503", retry_at=STARTED),)),
            "The judge is unwell (503): nothing more is read; asked again at 09:00:00 UTC.",
        ),
        (
            replace(WELL, breakers=(BreakerVitals("memory", "half_open", 8, "disk"),)),
            "The memory is unwell (disk): nothing more is read.",
        ),
        (
            replace(WELL, full=True, pending=9_999, held=1),
            "10,000 events are pending, which is the bound: nothing more is read.",
        ),
        (replace(WELL, memory_failure="OSError: no space"), "Memory lags behind the record (OSError: no space)."),
        (
            replace(WELL, embedder_failure="429"),
            "The embedder is unwell (429): its lane lags, and events that need it wait.",
        ),
    ],
)
def test_a_run_that_is_not_ready_says_why(vitals: Vitals, said: str) -> None:
    """Each problem makes `/readyz` a 503 with its sentence and the metric 0, while `/healthz` stays 200."""
    with served(ANY, health_pages(lambda: vitals)) as address:
        status, headers, body = ask(address, "/readyz")
        assert (503, "application/json") == (status, headers["Content-Type"])
        assert (False, [said]) == (json.loads(body)["ready"], json.loads(body)["problems"])
        assert 0.0 == samples(ask(address, "/metrics")[2])["lookfirst_ready"]
        assert 200 == ask(address, "/healthz")[0]


def test_a_ready_run_shows_its_vitals() -> None:
    """Without a problem `/readyz` is 200 and holds every vital; what is asked for later is seen later."""
    moments = iter([WELL, replace(WELL, pending=1)])
    with served(ANY, health_pages(lambda: next(moments))) as address:
        first, second = (json.loads(ask(address, "/readyz")[2]) for _ in range(2))
    assert (True, False) == (first["ready"], "problems" in first)
    assert set(Vitals.__dataclass_fields__) == set(first["vitals"])
    assert (0, 1) == (first["vitals"]["pending"], second["vitals"]["pending"])
    assert "2024-05-01T09:00:00Z" == first["vitals"]["started"]


def test_metrics_equal_the_vitals() -> None:
    """Every number of the vitals is a metric, by the parser of Prometheus."""
    found = {n: v for n, v in samples(metrics_text(BUSY)).items() if n.startswith("lookfirst_")}
    assert {
        "lookfirst_pending_events": 12,
        "lookfirst_held_events": 3,
        "lookfirst_pending_bytes": 4_096,
        "lookfirst_pending_full": 0,
        "lookfirst_in_flight": 5,
        "lookfirst_suspects": 2,
        "lookfirst_ready": 0,
        "lookfirst_stopping": 0,
        "lookfirst_recovering": 0,
        "lookfirst_memory_failed": 0,
        "lookfirst_unembedded_rows": 9,
        "lookfirst_embedder_failed": 0,
        "lookfirst_brokers_failed": 0,
        "lookfirst_breaker_open judge": 1,
        "lookfirst_breaker_open memory": 0,
        "lookfirst_start_time_seconds": STARTED.timestamp(),
        "lookfirst_uptime_seconds": 120,
        "lookfirst_events_total decided": 100,
        "lookfirst_events_total repeated": 7,
        "lookfirst_events_total parked": 2,
        "lookfirst_events_total unreadable": 1,
        "lookfirst_dropped_decisions_total": 4,
        **{f"lookfirst_position {place}": offset for place, offset in BUSY.places.items()},
        "lookfirst_lag_messages events_read": 8,
        "lookfirst_lag_messages applied": 12,
        "lookfirst_lag_messages followed": 22,
    } == found


def test_conditions_are_metrics_of_their_own() -> None:
    """Ready, stopping, recovering, full, a failed memory and embedder are 1 when they are so, and 0 when not."""
    names = ("ready", "stopping", "recovering", "pending_full", "memory_failed", "embedder_failed")
    unwell = replace(WELL, stopping=True, recovering=True, full=True, memory_failure="x", embedder_failure="y")
    for vitals, expected in ((WELL, [1, 0, 0, 0, 0, 0]), (unwell, [0, 1, 1, 1, 1, 1])):
        found = samples(metrics_text(vitals))
        assert expected == [found[f"lookfirst_{name}"] for name in names]


def test_every_metric_is_explained() -> None:
    """Each has a HELP line and a type; counters end in `_total`, and nothing is said twice."""
    text = metrics_text(BUSY)
    families = list(text_string_to_metric_families(text))
    assert [] == [family.name for family in families if not family.documentation or family.type == "unknown"]
    assert len(families) == len({family.name for family in families})
    counters = re.findall(r"# TYPE (lookfirst_\w+) counter", text)
    assert [True, True] == [name.endswith("_total") for name in counters]
    assert samples(text)["process_resident_memory_bytes"] > 0


def metrics_page() -> str:
    """The page of all metrics, made from a text of them."""
    rows = [
        f"| `{first.name}` | {family.type} | {', '.join(first.labels)} | {family.documentation} |"
        for family in text_string_to_metric_families(metrics_text(BUSY))
        for first in family.samples[:1]
        if family.name.startswith("lookfirst_")
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            "What `/metrics` of `lookfirst run --health` says, besides the `process_…` metrics of the process",
            "itself (memory, processor time, open files). This page is made from the metrics; a test keeps them",
            "equal.",
            "",
            "| metric | kind | by | what it is |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def test_every_metric_is_on_its_page() -> None:
    """Each metric stands on the page with its kind and help, and no other does."""
    page = Path(__file__).resolve().parent.parent / "deploy" / "metrics.md"
    assert metrics_page() == page.read_text(encoding="utf-8")


def test_lag_never_goes_below_nothing() -> None:
    """A place that was read after the end it is compared with is not ahead of it; a place not known has no lag."""
    found = samples(metrics_text(replace(WELL, places={"events_end": 5, "events_read": 6})))
    assert [("lookfirst_lag_messages events_read", 0.0)] == [i for i in found.items() if "lag" in i[0]]


def test_head_and_unknown_paths() -> None:
    """HEAD is GET without its body, a query is no part of the path, an unknown path names the known ones."""
    with served(ANY, health_pages(lambda: WELL)) as address:
        got, headed = ask(address, "/readyz"), ask(address, "/readyz?x=1", "HEAD")
        assert (got[0], got[1]["Content-Length"], "") == (headed[0], headed[1]["Content-Length"], headed[2])
        status, _, body = ask(address, "/")
        assert (404, "There is only /healthz, /readyz, /metrics.\n") == (status, body)
        assert 501 == ask(address, "/readyz", "POST")[0]


def test_a_page_that_cannot_be_made_is_an_answer(capfd: pytest.CaptureFixture[str]) -> None:
    """A fault behind a page is 500 with its sentence; other pages go on, and nothing is printed."""

    def fails() -> Page:
        raise RuntimeError("no vitals yet")

    with served(ANY, {"/bad": fails, "/good": lambda: Page("good")}) as address:
        status, _, body = ask(address, "/bad")
        assert (500, "This page could not be made (RuntimeError: no vitals yet).\n") == (status, body)
        assert (200, "good") == (ask(address, "/good")[0], ask(address, "/good")[2])
    assert ("", "") == capfd.readouterr()


def test_bad_clients_disturb_nobody(capfd: pytest.CaptureFixture[str]) -> None:
    """Garbage, half requests, sudden ends and many idle connections: the pages answer on, and silently."""
    with served(ANY, health_pages(lambda: WELL)) as address:
        where = (address.host, address.port)
        for bad in (b"\x16\x03\x01\x02\x00\x01\x00\x01", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"x" * 70_000):
            with socket.create_connection(where) as client:
                client.sendall(bad)
        with socket.create_connection(where) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        idle = [socket.create_connection(where) for _ in range(40)]
        try:
            assert [200] * 3 == [ask(address, path)[0] for path in ("/healthz", "/readyz", "/metrics")]
            wait_until(lambda: len([t for t in threading.enumerate() if "process_request" in t.name]) <= 16)
        finally:
            for client in idle:
                client.close()
    assert ("", "") == capfd.readouterr()


def test_the_server_ends_with_its_context() -> None:
    """After the run nobody listens there any more, and the port can be had again at once."""
    with served(ANY, {}) as address:
        pass
    with pytest.raises(ConnectionRefusedError):
        ask(address, "/healthz")
    with served(address, {"/": lambda: Page("again")}) as again:
        assert (address, "again") == (again, ask(again, "/")[2])


def test_a_port_in_use_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two runs at one address: the second says so and ends with 1 before it has touched anything."""
    with served(ANY, {}) as address:
        with pytest.raises(HealthError, match="choose another address"), served(address, {}):
            pass
        assert 1 == main(["run", "--data", str(tmp_path / "data"), "--health", str(address.port)])
    out, err = capsys.readouterr()
    said = f"Health cannot be served at 127.0.0.1:{address.port}: Address already in use; choose another address"
    assert ("", 1, True) == (out, err.count("\n"), err.startswith(said))
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9000", ("127.0.0.1", 9000, "http://127.0.0.1:9000")),
        ("0.0.0.0:0", ("0.0.0.0", 0, "http://0.0.0.0:0")),  # noqa: S104  only read
        ("[::1]:80", ("::1", 80, "http://[::1]:80")),
        ("localhost:65535", ("localhost", 65_535, "http://localhost:65535")),
    ],
)
def test_addresses(text: str, expected: tuple[str, int, str]) -> None:
    """A port alone is at the loopback address; a host may be a name or an address of either kind."""
    address = Address.parse(text)
    assert expected == (address.host, address.port, address.url)


@pytest.mark.parametrize("text", ["", "x", "host", "host:", ":9000", "1.2.3.4:65536", "a:-1", "a:¹"])
def test_an_address_that_is_none_is_wrong_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is no address is told with the remedy, and ends with 2."""
    with pytest.raises(UsageError, match="give PORT or HOST:PORT"):
        Address.parse(text)
    assert 2 == main(["run", "--health", text])
    assert 1 == capsys.readouterr().err.count("\n")


def test_progress_says_what_waits() -> None:
    """The line of progress names what waits and who is unwell, and only while there is something to name."""
    plain = progress_line(Tally(decided=10), 1.0, stopping=False)
    assert plain == progress_line(Tally(decided=10), 1.0, WELL, stopping=False)
    line = progress_line(Tally(decided=10), 1.0, replace(BUSY, recovering=True), stopping=True)
    assert (
        f"{plain} · stopping… · 12 pending · 3 held · 5 in flight · 9 to embed · taking up an earlier run · "
        "judge unwell: 503 from the provider"
    ) == line
    assert "\n" not in progress_line(
        Tally(), 1.0, replace(WELL, breakers=(BreakerVitals("judge", "open", 1, "a\nb"),)), stopping=False
    )


def event_line(number: int) -> Line:
    """One small event."""
    fields = {
        "id": str(number),
        "source": "chat",
        "thread": f"t{number}",
        "at": "2024-05-01T09:00:00Z",
        "text": "x",
    }
    return Line(json.dumps(fields), f"made:{number}")


def test_a_run_shows_how_it_is_while_it_lasts(tmp_path: Path) -> None:
    """A run whose input waits is ready, and its metrics count what it has decided so far."""
    settings = load_settings(epoch=0.05)
    run = EmbeddedRun(DataFolder.at(tmp_path, settings), settings, Script())
    given: queue.SimpleQueue[Line | None] = queue.SimpleQueue()

    def lines() -> Iterator[Line]:
        while (line := given.get()) is not None:
            yield line

    runner = threading.Thread(target=run.run, args=(lines(),))
    with served(ANY, health_pages(run.vitals)) as address:
        runner.start()
        try:
            for number in range(3):
                given.put(event_line(number))
            followed = "lookfirst_position followed"
            wait_until(lambda: samples(ask(address, "/metrics")[2]).get(followed) == 3)
            found = samples(ask(address, "/metrics")[2])
            status, _, body = ask(address, "/readyz")
        finally:
            given.put(None)
            runner.join(30)
    assert (200, True) == (status, json.loads(body)["ready"])
    assert [3, 0, 0, 1] == [
        found[f"lookfirst_{name}"]
        for name in ("events_total decided", "pending_events", "lag_messages applied", "ready")
    ]
    assert not runner.is_alive()


def test_run_with_health_names_its_address(tmp_path: Path) -> None:
    """`run --health 0` says where it serves, answers while its input is open, and ends with it."""
    command = [sys.executable, "-m", "flows.cli.main", "run", "--data", str(tmp_path), "--json"]
    process = subprocess.Popen(
        [*command, "--from", "-", "--health", "0"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr
        said = process.stderr.readline()
        url = re.search(r"http://\S+(?=/readyz)", said)
        assert url, said
        parts = urllib.parse.urlsplit(url[0])
        address = Address(str(parts.hostname), int(parts.port or 0))
        wait_until(lambda: ask(address, "/readyz")[0] == 200, 60)
        out, err = process.communicate(event_line(1).text + "\n", timeout=60)
    finally:
        process.kill()
    assert (0, "") == (process.returncode, err)
    assert 1 == json.loads(out)["decided"]

"""Secrets in logs, sentences and tracebacks: masked wherever they stand, and nothing else is touched."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.live import Live

from flows.cli.console import notes, say
from flows.cli.logs import logs_on_stderr, tell_more
from flows.cli.main import main
from store.schema.masking import mask
from tests.sample import SAMPLE

# Put together here, so that no scanner of this repository takes them for somebody's keys.
STRIPE = "sk_test_" + "4eC39HqLyjWDarjtT1zdp7dc"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"
ARMOUR = "PRIVATE KEY-----"

KEYS = {
    STRIPE: "sk_test_****",
    "sk_live_" + "51H8xQ2eZvKYlo2C": "sk_live_****",
    "sk-proj-" + "Zk3nT9vQ1xB7mW5c": "sk-****",
    "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a": "ghp_****",
    "gho_" + "16C7e42F292c6912E7710c838347Ae178B4a": "gho_****",
    "github_pat_" + "11ABCDEFG0123456789_abcdef": "github_pat_****",
    "xoxb-" + "263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1": "xoxb-****",
    "AKIA" + "IOSFODNN7EXAMPLE": "AKIA****",
    "ASIA" + "IOSFODNN7EXAMPLE": "ASIA****",
    "AIza" + "SyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe": "AIza****",
    JWT: "eyJ****",
}
"""Keys of many houses, and what is left of them."""


@pytest.mark.promise("N6")
@pytest.mark.parametrize("before", ["", " ", "凭证为", "鍵：", "key-", "(", '"', "ключ", "=", "\n"])
@pytest.mark.parametrize("after", ["", " ", "，请保存", "です", ".", ")", '"', "\n"])
def test_a_key_is_masked_whatever_it_is_glued_to(before: str, after: str) -> None:
    """Before and behind a key there may be Chinese, a quote or nothing: its head and what is around it stay."""
    for key, masked in KEYS.items():
        assert f"{before}{masked}{after}" == mask(f"{before}{key}{after}")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("password=hunter2&user=ben", "password=****&user=ben"),
        ("DB_PASSWORD = 'two words'", "DB_PASSWORD = '****'"),
        ('{"password": "two words", "n": 1}', '{"password": "****", "n": 1}'),
        ('{\\"api_key\\":\\"a1b2c3d4\\"}', '{\\"api_key\\":\\"****\\"}'),
        ("密码：hunter2，谢谢", "密码：****，谢谢"),
        ("token: 7f3a9c21", "token: ****"),
        ("LOOKFIRST_TOKEN=anything", "LOOKFIRST_TOKEN=****"),
        ("Authorization: Basic YmVuOmh1bnRlcjI=", "Authorization: ****"),
        ("bearer abcdef0123456789 was refused", "bearer **** was refused"),
        ("postgres://ben:hunter2@db.example/x", "postgres://ben:****@db.example/x"),
        ("amqp://:a@b:c@mq.example", "amqp://:****@mq.example"),
        ("SecretStr('hunter2')", "SecretStr('****')"),
        (f"-----BEGIN {ARMOUR}\nMIIE\n-----END {ARMOUR}\nx", f"-----BEGIN {ARMOUR}****-----END {ARMOUR}\nx"),
        (f"-----BEGIN {ARMOUR}\nMIIEvQIBADANBg", f"-----BEGIN {ARMOUR}****"),
    ],
)  # fmt: skip
def test_what_is_called_a_secret_is_masked(text: str, masked: str) -> None:
    """The word before it, the place in an address and the armour around it tell a secret too."""
    assert masked == mask(text)


@pytest.mark.parametrize(
    "text",
    [
        "token: Field required",
        "The secret: start early, and ask for the password.",
        "bearer certificates of 2024",
        "http://example.org:8080/a@b?token",
        "risk-assessment-of-the-2024-rollout, task-0123456789abcdef0123",
        "t-3f2a9c21d0e4b7a6f5c81234 of e-0f1e2d3c4b5a697887766554",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "550e8400-e29b-41d4-a716-446655440000",
        "mail ben@example.org at 12:30, see https://example.org/wiki/API_keys#tokens",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    """Ids, hashes, addresses and sentences about secrets are left as they are."""
    assert text == mask(text)


def test_the_sample_stays_as_it_is() -> None:
    """Not one line of the sample, and not one of what a run makes of it, has anything to mask."""
    for path in (SAMPLE / "events.jsonl", SAMPLE / "expected.json", SAMPLE / "README.md"):
        for line in path.read_text(encoding="utf-8").splitlines():
            assert line == mask(line)


words = [
    "password",
    "token",
    "Bearer",
    "密码",
    "=",
    "：",
    '"',
    "\\",
    "://",
    "@",
    "ben:",
    "****",
    "-----",
    "凭证为",
    "SecretStr('",
]
pieces = st.sampled_from([*KEYS, *KEYS.values(), *words, ": ", "\n", f"-----BEGIN {ARMOUR}", f"-----END {ARMOUR}"])


@given(st.lists(pieces | st.text(max_size=8), max_size=12).map("".join))
def test_what_is_masked_stays_masked(text: str) -> None:
    """Masking what was masked changes nothing: no secret comes back, and no mask is masked."""
    once = mask(text)
    assert once == mask(once)


@given(st.sampled_from(sorted(KEYS)), st.text(max_size=30), st.text(max_size=30))
def test_no_key_is_left(key: str, before: str, after: str) -> None:
    """Whatever is written around a key, set off by a space, the key itself cannot be read any more."""
    assert key not in mask(f"{before} {key} {after}")


@pytest.mark.parametrize("unit", ["sk-", "-eyJ", "token ", "password=", "://a:", "bearer ", "-----BEGIN ", "x"])
def test_a_long_text_is_masked_in_no_time(unit: str) -> None:
    """What only looks like the beginning of a secret, over and over, costs no more than any other text."""
    begun = time.perf_counter()
    mask(unit * (200_000 // len(unit)))
    assert time.perf_counter() - begun < 5.0


@pytest.mark.promise("N6")
def test_a_log_line_and_its_traceback_are_masked(capsys: pytest.CaptureFixture[str]) -> None:
    """A warning with a secret in its words, its arguments and its exception shows none of the three."""
    with logs_on_stderr():
        try:
            raise ValueError(f"凭证为{STRIPE}请保存")
        except ValueError:
            logging.getLogger("flows.some").warning("\x1b[31mrefused %s", f"password={STRIPE}", exc_info=True)
        logging.getLogger("flows.some").info("small talk")
    out, err = capsys.readouterr()
    assert "" == out
    assert STRIPE not in err
    assert err.startswith(
        "WARNING flows.some: \\x1b[31mrefused password=****\nTraceback (most recent call last):\n  "
    )
    assert err.endswith("ValueError: 凭证为sk_test_****请保存\n")


def test_debug_tells_more_and_the_log_is_put_back(capsys: pytest.CaptureFixture[str]) -> None:
    """Informing records come with --debug alone; afterwards logging is as it was."""
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    with logs_on_stderr():
        tell_more()
        logging.getLogger("flows.some").info("small talk")
    assert "INFO flows.some: small talk\n" == capsys.readouterr().err
    assert before == (root.level, list(root.handlers))


@pytest.mark.promise("N6")
def test_a_sentence_is_masked(capsys: pytest.CaptureFixture[str]) -> None:
    """What a command says on stderr shows no secret."""
    say(f"凭证为{STRIPE}")
    assert "凭证为sk_test_****\n" == capsys.readouterr().err


@pytest.mark.promise("N6")
@pytest.mark.parametrize("options", [[], ["--debug"]])
def test_an_error_and_its_traceback_are_masked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    """The sentence of an error, and with --debug its traceback, name the path but for the secret in it."""
    path = tmp_path / f"凭证为{STRIPE}"
    assert 2 == main([*options, "run", "--data", str(tmp_path / "data"), "--from", str(path)])
    err = capsys.readouterr().err
    assert STRIPE not in err
    assert f"{tmp_path}/凭证为sk_test_**** does not exist; check the path." in err.splitlines()[-1]
    assert bool(options) == ("Traceback" in err)


def test_a_log_line_does_not_break_the_line_of_progress(capsys: pytest.CaptureFixture[str]) -> None:
    """While progress is shown, a warning stands on a line of its own above it."""
    assert not notes().is_terminal
    console = Console(file=sys.stderr, force_terminal=True, markup=False, highlight=False, emoji=False)
    with logs_on_stderr(), Live("3 settled", console=console, auto_refresh=False, transient=True) as live:
        live.refresh()
        logging.getLogger("flows.some").warning("[bold]memory lags")
        live.refresh()
    err = capsys.readouterr().err
    assert 1 == err.count("WARNING flows.some: [bold]memory lags\n")
    assert 3 <= err.count("3 settled")


def test_masked_json_is_json() -> None:
    """A secret inside JSON is masked without breaking the JSON."""
    line = json.dumps({"text": f"凭证为{STRIPE}", "password": "two words", "n": 1}, ensure_ascii=False)
    assert {"text": "凭证为sk_test_****", "password": "****", "n": 1} == json.loads(mask(line))

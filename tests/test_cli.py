"""The command line: what it does to errors, what a run tells, and what importers and schemas print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest

from flows.cli.console import display, display_lines
from flows.cli.lines import InputLines, opened
from flows.cli.main import cli, main
from flows.cli.progress import progress_line
from flows.cli.result import Result
from flows.cli.schema import CONTRACTS, schema
from flows.tally import Tally
from store.schema import Event, UsageError

Captured = pytest.CaptureFixture[str]


def line(number: int, text: str, thread: str = "ops/1") -> str:
    """One event as a line of input."""
    event = {
        "id": str(number),
        "source": "chat",
        "thread": thread,
        "at": f"2026-03-02T09:{number:02d}:00Z",
        "author": {"id": "U1", "name": "Ada"},
        "text": text,
    }
    return json.dumps(event)


@pytest.fixture
def events(tmp_path: Path) -> Path:
    """A file of three events, a blank line, and two lines that are none."""
    path = tmp_path / "events.jsonl"
    lines = [
        line(1, "Please renew the TLS certificate of the gateway by 20 March."),
        "",
        line(2, "The TLS certificate of the gateway is renewed."),
        line(3, "Nice weather.", "general"),
        "{broken",
    ]
    path.write_bytes("\n".join(lines).encode() + b"\n\xff\xfe not text\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["taks"], "lookfirst has no command 'taks'; did you mean tasks?"),
        (["zzzzzz"], "lookfirst has no command 'zzzzzz'; the commands are "),
        (["import", "slak", "x"], "lookfirst import has no command 'slak'; did you mean slack?"),
        (["tasks", "--limit", "none"], "(see `lookfirst tasks --help`)"),
        (["search"], "Missing argument 'TEXT'"),
        (["schema", "evnt"], "There is no contract 'evnt'; the contracts are event, "),
        (["run", "--from", "nowhere.jsonl"], "nowhere.jsonl does not exist"),
        (["import", "jsonl", "nowhere.jsonl"], "nowhere.jsonl does not exist"),
        (["import", "jsonl", "x", "--zone", "Mars/Base"], "There is no time zone 'Mars/Base'"),
        (["import", "jsonl", "x", "--zone", "../etc"], "There is no time zone '../etc'"),
        (["import", "jsonl", "x", "--map", "no=x"], "names no event field"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], said: str, capsys: Captured) -> None:
    """Wrong usage ends with exit code 2 and one sentence on stderr that names the input and the remedy."""
    assert 2 == main(arguments)
    out, err = capsys.readouterr()
    assert "" == out
    assert said in err
    assert 1 == err.count("\n")


def test_help_is_the_default(capsys: Captured) -> None:
    """Without a command the help is printed, which names every command; that is no error."""
    assert 0 == main([])
    out = capsys.readouterr().out
    assert [] == [name for name in cli.commands if f"\n  {name} " not in out]
    assert 0 == main(["import"])


def test_version(capsys: Captured) -> None:
    """The version is that of the distribution."""
    assert 0 == main(["--version"])
    assert capsys.readouterr().out.startswith("lookfirst 0.")


def test_missing_store_is_a_fault(tmp_path: Path, capsys: Captured) -> None:
    """A page of a folder without a store is a fault of the run, and says how to make one."""
    assert 1 == main(["tasks", "--data", str(tmp_path / "none")])
    assert "lookfirst run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [(ValueError("two\nlines"), 1), (KeyboardInterrupt(), 130), (BrokenPipeError(), 0), (click.Abort(), 130)],
)
def test_whatever_happens_ends_in_a_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """An error nobody foresaw is one sentence as well, an interrupt 130, a closed pipe nothing at all."""

    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(schema, "callback", fail)
    assert code == main(["schema"])
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert (code == 1) == ("ValueError: two lines; run `lookfirst --debug …` for the traceback." in err)


def test_debug_shows_the_traceback(capsys: Captured) -> None:
    """`--debug` before the command shows where an error came from."""
    assert 2 == main(["--debug", "schema", "nothing"])
    assert "Traceback" in capsys.readouterr().err


def test_reader_that_goes_away(tmp_path: Path) -> None:
    """A pipe whose reader has seen enough is no error and no noise."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "flows.cli.main", "schema", "decision"],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (0, b"") == (ended.returncode, ended.stderr)


def test_run_then_run_again(events: Path, tmp_path: Path, capsys: Captured) -> None:
    """A run decides every event and keeps what is none; the same input again changes nothing."""
    data = str(tmp_path / "data")
    assert 0 == main(["run", "--data", data, "--from", str(events)])
    out, err = capsys.readouterr()
    assert "5 came in = 3 decided + 0 already decided + 0 parked + 2 unreadable" in out
    assert f"{events}:5: not JSON" in out
    assert f"{events}:6: not JSON" in out
    assert "TLS certificate of the gateway" in out
    assert "\x1b" not in out + err

    main(["tasks", "--data", data, "--json"])
    before = capsys.readouterr().out
    assert 0 == main(["run", "--data", data, "--from", str(events), "--json"])
    result = json.loads(capsys.readouterr().out)
    assert (0, 3, 2) == (result["decided"], result["already_decided"], result["unreadable"])
    assert Path(result["dead_letters"]).read_text().count("\n") == 1 + 2 * 2
    main(["tasks", "--data", data, "--json"])
    assert before == capsys.readouterr().out


def test_run_from_stdin(events: Path, tmp_path: Path) -> None:
    """`--from -` reads stdin, and the folder may be named by the environment."""
    data = tmp_path / "data"
    ended = subprocess.run(
        [sys.executable, "-m", "flows.cli.main", "run", "--from", "-"],
        input=events.read_bytes(),
        capture_output=True,
        check=False,
        env={**os.environ, "LOOKFIRST_FOLDER": str(data)},
    )
    assert 0 == ended.returncode
    assert b"stdin:5: not JSON" in ended.stdout
    assert (data / "store").is_dir()


def test_run_of_nothing(tmp_path: Path, capsys: Captured) -> None:
    """A file without events is said to be one; it is no error."""
    path = tmp_path / "empty.jsonl"
    path.write_text("\n \n")
    assert 0 == main(["run", "--data", str(tmp_path / "data"), "--from", str(path)])
    out, err = capsys.readouterr()
    assert f"{path} has no events.\n" == err
    assert "0 came in = " in out


def test_run_needs_a_file(tmp_path: Path, capsys: Captured) -> None:
    """A folder instead of a file is wrong usage, and nothing is made."""
    data = tmp_path / "data"
    assert 2 == main(["run", "--data", str(data), "--from", str(tmp_path)])
    assert "is a folder" in capsys.readouterr().err
    assert not data.exists()


def test_stopped_run_says_what_is_left(tmp_path: Path) -> None:
    """A stop in order ends with 0 and says how many events the next run will decide; it decides them."""
    data, source = tmp_path / "data", tmp_path / "many.jsonl"
    source.write_text("\n".join(line(n % 60, f"Note {n}", f"t/{n}") for n in range(800)))
    command = [sys.executable, "-m", "flows.cli.main", "run", "--data", str(data), "--json"]
    process = subprocess.Popen(
        [*command, "--from", str(source)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    topic = data / "topics" / "lookfirst.operations.jsonl"
    while process.poll() is None and not (topic.exists() and topic.stat().st_size > 10_000):
        time.sleep(0.05)
    process.terminate()
    out, err = process.communicate(timeout=60)
    first = json.loads(out)
    assert 0 == process.returncode
    assert first["stopped"]
    assert f"Stopped; left for the next run: {first['left']:,} events." in err
    assert first["produced"] == first["decided"] + first["left"]

    second = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert first["left"] == second["decided"]
    assert first["produced"] == first["decided"] + second["decided"]


def test_counts_add_up() -> None:
    """What came in is the sum of what became of it, with events of an earlier run's state and a stop."""
    resumed = Result(Tally(read=3, decided=4, repeated=1), 1.0, Path("x"))
    stopped = Result(Tally(read=9, decided=4, parked=1), 1.0, Path("x"), stopped=True, left=4)
    for result in (resumed, stopped):
        assert result.tally.read + result.resumed == sum(result.parts().values())
    assert (2, 4) == (resumed.resumed, stopped.parts()["unfinished"])


def test_progress_line() -> None:
    """Progress is counts and a rate in one line."""
    tally = Tally(produced=2_000, decided=100, applied=90)
    assert "2,000 produced · 100 settled · 90 applied · 50 events/s" == progress_line(tally, 2.0, stopping=False)
    assert progress_line(tally, 0.0, stopping=True).endswith("stopping…")


def test_lines_name_their_place(tmp_path: Path) -> None:
    """Blank lines count for the place and are not handed over; a byte order mark is not part of the text."""
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\n \ntwo \xff")
    with opened(str(path)) as lines:
        read = [(each.text, each.origin) for each in lines]
    assert [("one", f"{path}:1"), ("two \\xff", f"{path}:4")] == read
    assert (2, True) == (lines.taken, lines.finished)


def test_unreadable_input_is_wrong_usage(tmp_path: Path) -> None:
    """An input that fails while it is read is told by name."""

    class Failing:
        def __iter__(self) -> Failing:
            return self

        def __next__(self) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(UsageError, match=r"tape cannot be read \(Input/output error\)"):
        list(InputLines("tape", Failing()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\nlines\tand\r\nmore ", "two lines and more"),
        ("\x1b[2J\x07\x9b31m", "\\x1b[2J\\x07\\x9b31m"),
        ("a\u202eb\u2066c\u2028d", "a\\u202eb\\u2066c\\u2028d"),
        ("[red]佐藤 é[/red]", "[red]佐藤 é[/red]"),
    ],
)
def test_display_is_harmless(text: str, shown: str) -> None:
    """Somebody's text is one line without anything that steers a terminal, and otherwise as it was."""
    assert shown == display(text)


def test_display_keeps_lines_when_asked() -> None:
    """A body keeps its lines."""
    assert "one\n\ntwo \\x1b" == display_lines("one\n\ntwo\t\x1b")


def test_import_jsonl(events: Path, tmp_path: Path, capsys: Captured) -> None:
    """Every line goes to stdout, the summary and the problems to stderr."""
    assert 0 == main(["import", "jsonl", str(events), "--workspace", "acme"])
    out, err = capsys.readouterr()
    assert "3 events; 2 lines that a run will put in the dead letters." == err.splitlines()[0]
    assert ["- events.jsonl:5: not JSON", "- events.jsonl:6: not JSON"] == [
        told[: len("- events.jsonl:5: not JSON")] for told in err.splitlines()[1:]
    ]
    assert ["acme"] * 3 == [json.loads(each)["workspace"] for each in out.splitlines()[:3]]
    assert "{broken" == out.splitlines()[3]

    target = tmp_path / "out.jsonl"
    assert 0 == main(["import", "jsonl", str(events), "--workspace", "acme", "--out", str(target)])
    assert out == target.read_text()
    assert "" == capsys.readouterr().out


def test_import_writes_all_or_nothing(tmp_path: Path, capsys: Captured) -> None:
    """A file that is there stays as it was when the import fails, and nothing is left beside it."""
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert 2 == main(["import", "jsonl", str(empty), "--out", str(target)])
    assert "before" == target.read_text()
    assert {target, empty} == set(tmp_path.iterdir())
    assert 2 == main(["import", "jsonl", str(empty), "--out", str(tmp_path / "no" / "out.jsonl")])
    assert "cannot be written" in capsys.readouterr().err


def test_import_slack(tmp_path: Path, capsys: Captured) -> None:
    """A Slack export becomes events that a run can take."""
    folder = tmp_path / "export" / "general"
    folder.mkdir(parents=True)
    (folder / "2015-06-05.json").write_text(json.dumps([{"ts": "1433543210.000123", "user": "U1", "text": "hi"}]))
    assert 0 == main(["import", "slack", str(folder.parent)])
    out, err = capsys.readouterr()
    assert "hi" == Event.model_validate_json(out).text
    assert "1 event; 0 lines that a run will put in the dead letters.\n" == err


def test_schema_lists_and_prints(capsys: Captured) -> None:
    """Without a name the contracts are listed; each is a JSON Schema."""
    assert 0 == main(["schema"])
    assert list(CONTRACTS) == capsys.readouterr().out.split()
    for name in CONTRACTS:
        assert 0 == main(["schema", name])
        schema = json.loads(capsys.readouterr().out)
        assert "https://json-schema.org/draft/2020-12/schema" == schema["$schema"]
        assert {"properties", "oneOf"} & set(schema)


@pytest.mark.parametrize(
    ("group", "names"),
    [("replay", "dead-letters, events"), ("rebuild", "memory, store"), ("bench", "duplicates, input, irc")],
)
def test_a_group_alone_names_its_commands(group: str, names: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Asked for nothing in particular, a group says in one line what it has."""
    assert 2 == main([group])
    (line,) = capsys.readouterr().err.splitlines()
    assert f"lookfirst {group} needs one of {names}" in line


def test_reasons_show_no_secret() -> None:
    """What a failure says may hold a key: neither the page nor the JSON of a run shows it."""
    tally = Tally(reasons=["chat t/1: ValueError: password=hunter2secret"], parked=1)
    result = Result(tally, 1.0, Path("dead-letters.jsonl"))
    assert "hunter2" not in json.dumps(result.for_programs()) + "".join(map(str, result.for_people()))

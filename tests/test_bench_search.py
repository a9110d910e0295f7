"""The benches of search at tiny sizes, on labels made up here: what they count is right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.cli.main import main

REPORTS = (
    ("1", "The scheduler forgets its queue after a restart", []),
    ("2", "Upgrade the JSON library", []),
    ("3", "Documentation of the quota command is missing", []),
    ("4", "Queue of the scheduler is lost on restart", ["1"]),
    ("5", "Completely different words here", ["2"]),
)
LINES = (
    ("anna", "does anybody know how to mount a camera?", "c1", "create"),
    ("ben", "anna: which camera is it?", "c1", "update"),
    ("carl", "my printer prints green", "c2", "create"),
    ("dora", "night all", "c3", "nothing"),
    ("anna", "an old one with a serial port", "c1", "update"),
    ("ben", "still about what nobody has seen here", "c9", "update"),
)
SENTENCES = (
    ("en", "Remind me to call Stephanie on Tuesday", None),
    ("en", "Show all alarms", None),
    ("de", "Erinnere mich am Dienstag daran, Stephanie anzurufen", "Remind me to call Stephanie on Tuesday."),
    ("de", "Zeige alle Wecker", "Show all alarms"),
    ("ja", "アラームをすべて表示", "Show all alarms"),
    ("zh", "显示所有闹钟", "show all alarms"),
    ("ar", "اعرض جميع المنبهات", "Show all alarms"),
)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in the shape of the labelled data."""
    folder = tmp_path_factory.mktemp("labelled")
    write(
        folder / "bug_dups" / "hadoop.jsonl",
        (
            {
                "id": id,
                "created": f"2020-01-0{id}T10:00:00",
                "title": title,
                "text": title,
                "expected_row": row,
            }
            for id, title, row in REPORTS
        ),
    )
    write(
        folder / "irc_ops" / "dev.jsonl",
        (
            {
                "file": "2004-11-15_03",
                "i": number,
                "hhmm": f"03:0{number}",
                "user": user,
                "text": text,
                "system": False,
                "conversation": row,
                "expected_op_full": kind,
            }
            for number, (user, text, row, kind) in enumerate(LINES)
        ),
    )
    write(
        folder / "xsid_ops" / "half.jsonl",
        ({"lang": lang, "text": text, "text_en": english} for lang, text, english in SENTENCES),
    )
    return folder


def write(path: Path, lines: Any) -> None:
    """JSON lines."""
    path.parent.mkdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def figures(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, *arguments: str
) -> list[dict[str, Any]]:
    """The figures that a bench has written and printed."""
    out = tmp_path / "figures.json"
    assert 0 == main(["bench", name, *arguments, "--out", str(out), "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert json.loads(out.read_text(encoding="utf-8")) == printed
    return list(printed["figures"])


def test_duplicates(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two duplicates one shares words with its twin and one does not; the plain search finds the same."""
    (found,) = figures("duplicates", capsys, tmp_path, str(labelled))
    assert (5, 2) == (found["reports"], found["duplicates"])
    shares = {name: found[name] for name in ("in_view", "without_vector", "text", "plain_text", "exact")}
    assert {"in_view": 0.5, "without_vector": 0.5, "text": 0.5, "plain_text": 0.5, "exact": 0.0} == shares
    assert (None, None) == (found["vector"], found["plain_vector"])


def test_irc(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two of three updates have a row, and it is in view; the third is of a conversation that began before."""
    (found,) = figures("irc", capsys, tmp_path, str(labelled))
    assert (6, 3) == (found["lines"], found["updates"])
    assert (0.667, 0.333, 0.667) == (found["in_view"], found["first_seen"], found["newest"])
    assert 0.333 == found["last_of_author"]


def test_languages(labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an embedder only the name leads from German to the English row."""
    found = figures("languages", capsys, tmp_path, str(labelled))
    assert [("German", 2, 0.5), ("Japanese", 1, 0.0), ("Chinese", 1, 0.0), ("Arabic", 1, 0.0)] == [
        (each["language"], each["sentences"], each["in_view"]) for each in found
    ]


def test_quality_is_the_three_together(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One command prints the table for a page; the folder may come from the environment."""
    monkeypatch.setenv("LOOKFIRST_DATA", str(labelled))
    assert 0 == main(["bench", "quality", "--out", str(tmp_path / "quality.json")])
    printed = capsys.readouterr().out
    rows = [line for line in printed.splitlines() if line.startswith("| ")]
    assert "| what is in view | share | beside |" == rows[0]
    assert "2 duplicates | 0.500 | plain full-text 0.500" in rows[1]
    assert 1 + 1 + 1 + 4 == len(rows)


@pytest.mark.parametrize("name", ["duplicates", "irc", "languages", "quality"])
def test_data_that_is_not_there(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One sentence names the file that was looked for."""
    assert 2 == main(["bench", name, str(tmp_path), "--out", str(tmp_path / "out.json")])
    sentence = capsys.readouterr().err
    assert f"{tmp_path}/" in sentence
    assert "name the folder that holds the labelled data" in sentence


def test_tokenizers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The terms find every language, as all n-grams do; words alone do not."""
    simple, icu, ngrams, terms = figures("tokenizers", capsys, tmp_path, "--rows", "300")
    assert set(simple["found"]) == {"English", "German", "Japanese", "Chinese", "Korean", "Arabic"}
    assert {1.0} == set(terms["found"].values()) == set(ngrams["found"].values())
    assert min(icu["found"].values()) < 1
    assert min(simple["found"].values()) < min(terms["found"].values())
    assert all(each["median_ms"] > 0 and each["rows"] > 300 for each in (simple, icu, ngrams, terms))


def test_input_and_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each size has its figures, within the bound, beside the bare query."""
    few, more = figures("input", capsys, tmp_path, "--rows", "20", "--rows", "40", "--looks", "5")
    assert (20, 40) == (few["rows"], more["rows"])
    assert 0 < few["mean"] <= few["most"] <= few["bound"]
    (found,) = figures("search", capsys, tmp_path, "--rows", "30", "--looks", "5")
    assert 0 < found["bare_ms"] <= found["slowest_ms"]
    assert found["times_bare"] > 0

"""A judge of one's own: named by a setting, and refused in a sentence when it is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flows.cli.main import main
from flows.judge.named import judge_named
from flows.judge.rules import RulesJudge
from store.schema import UsageError, load_settings

MODULE = """
import sys


class Own:
    name = "own/1"
    remote = False

    def judge(self, event, view, refused):
        return None


def good(settings):
    return Own()


def raises(settings):
    raise RuntimeError("no key")


def ends(settings):
    sys.exit(3)


def junk(settings):
    return 42
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with judges, and one that cannot be read, where Python finds them."""
    (tmp_path / "judges_of_mine.py").write_text(MODULE)
    (tmp_path / "judges_broken.py").write_text("def (")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("judges_of_mine", "judges_broken"):
        sys.modules.pop(name, None)
    return "judges_of_mine"


def test_the_judge_that_is_named_is_made(module: str) -> None:
    """The rules by default; else what the factory returns."""
    assert isinstance(judge_named(load_settings()), RulesJudge)
    assert "own/1" == judge_named(load_settings(judge=f"{module}:good")).name


@pytest.mark.parametrize(
    ("judge", "told"),
    [
        ("judges_of_mine:raises", "cannot be made .RuntimeError: no key."),
        ("judges_of_mine:ends", "cannot be made .SystemExit: 3."),
        ("judges_of_mine:junk", "made no judge but int"),
        ("judges_of_mine:nobody", "There is no judge"),
        ("judges_of_nobody:good", "There is no judge"),
        ("judges_broken:good", "cannot be imported .SyntaxError"),
    ],
)
def test_what_is_no_judge_is_refused_in_a_sentence(module: str, judge: str, told: str) -> None:
    """Whatever is wrong with it, the setting and the remedy are named, before anything is made."""
    with pytest.raises(UsageError, match=told):
        judge_named(load_settings(judge=judge))


def test_a_run_with_a_judge_that_ends_the_process_says_so(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No silence and no success: exit code 2, one sentence, and no data folder."""
    monkeypatch.setenv("LOOKFIRST_JUDGE", f"{module}:ends")
    assert 2 == main(["run", "--data", str(tmp_path / "data")])
    assert "cannot be made" in capsys.readouterr().err
    assert not (tmp_path / "data").exists()

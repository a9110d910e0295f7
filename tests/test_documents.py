"""What the documents say is true: commands, settings and chores are all there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from flows.cli.main import COMMANDS, IMPORTS
from store.schema import Settings, parse_event
from tests.sample import SAMPLE

REPOSITORY = Path(__file__).resolve().parent.parent
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


def settings_page() -> str:
    """The page of all settings, made from the model."""
    rows = [
        f"| `LOOKFIRST_{name.upper()}` | `{field.default}` | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "Every limit and default, with its unit. A value comes from the environment, else from here; it is",
            "read once, at start. This page is made from `store/schema/settings.py`; a test keeps the two equal.",
            "",
            "| variable | default | what it is |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def test_settings_page_is_made_from_the_settings() -> None:
    """Each setting stands on the page with its default and unit, and no other does."""
    assert settings_page() == (REPOSITORY / "deploy" / "settings.md").read_text(encoding="utf-8")


def test_every_setting_has_a_unit() -> None:
    """The description of a setting ends with its unit."""
    assert [] == [
        n for n, f in Settings.model_fields.items() if not re.search(r"\([a-z]+\)$", f.description or "")
    ]


@pytest.mark.parametrize("command", [*COMMANDS, *(f"import {name}" for name in IMPORTS)])
def test_every_command_is_in_the_readme(command: str) -> None:
    """A command that nobody can read about is not there."""
    assert re.search(rf"`lookfirst {command}\b|[`,] `?{command}`", README)


def test_every_chore_in_the_documents_exists() -> None:
    """Each `make` word of README and CONTRIBUTING is a target."""
    said = README + (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set() == set(re.findall(r"\bmake ([a-z-]+)", said)) - set(targets)


def test_event_of_the_readme_is_one() -> None:
    """The example event is accepted as it stands."""
    block = re.search(r"## An event\n\n```json\n(.+?)```", README, re.DOTALL)
    assert block
    assert "launch" == parse_event(block[1]).thread


def test_followed_event_is_of_the_sample() -> None:
    """The event the README follows is in the sample, so that a reader can follow it too."""
    ids = {json.loads(line)["id"] for line in (SAMPLE / "events.jsonl").read_text(encoding="utf-8").splitlines()}
    assert "<066@tidewell.example>" in ids
    assert "<066@tidewell.example>" in README


def test_links_of_the_documents_lead_somewhere() -> None:
    """A relative link names a file of the repository."""
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (REPOSITORY / page).read_text(encoding="utf-8")
        links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
        assert [] == [link for link in links if not (REPOSITORY / link).exists()]

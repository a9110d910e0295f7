"""`lookfirst settings`: every setting with its source, and no secret."""

from __future__ import annotations

import json

import pytest
from pydantic import Field, SecretStr
from pydantic_settings import SettingsConfigDict

from flows.cli.main import main
from flows.cli.settings import effective
from store.schema import Settings

Captured = pytest.CaptureFixture[str]


class WithSecret(Settings):
    """Settings as a release with a key would have them."""

    model_config = SettingsConfigDict(env_prefix="LOOKFIRST_", frozen=True, extra="ignore")

    key: SecretStr = Field(SecretStr("built-in"), description="key of a provider (text)")
    other_key: SecretStr | None = Field(None, description="key of another (text)")


def test_every_setting_is_shown_with_its_source(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """For programs: all of them, each as it is in effect, with its default, its unit and its variable."""
    monkeypatch.setenv("LOOKFIRST_WAVE", "3")
    assert 0 == main(["settings", "--json"])
    shown = {each["name"]: each for each in map(json.loads, capsys.readouterr().out.splitlines())}
    assert list(Settings.model_fields) == list(shown)
    assert {
        "name": "wave",
        "variable": "LOOKFIRST_WAVE",
        "value": 3,
        "default": 64,
        "description": "events looked for side by side (count)",
        "source": "environment",
    } == shown["wave"]
    assert (4, 4, "default", "LOOKFIRST_QUERIES") == tuple(
        shown["queries"][name] for name in ("value", "default", "source", "variable")
    )


def test_settings_as_a_page(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """For people: a table that names the variable where one is set."""
    monkeypatch.setenv("LOOKFIRST_WAVE", "3")
    assert 0 == main(["settings"])
    lines = capsys.readouterr().out.splitlines()
    (wave,) = [line for line in lines if line.split()[:1] == ["wave"]]
    assert ["wave", "3", "64"] == wave.split()[:3]
    assert wave.rstrip().endswith("environment LOOKFIRST_WAVE")
    (queries,) = [line for line in lines if line.split()[:1] == ["queries"]]
    assert queries.rstrip().endswith("default")


def test_a_variable_counts_however_it_is_spelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library reads variables in any case: the page names the one that was read."""
    environment = {"lookfirst_wave": "5"}
    monkeypatch.setenv("lookfirst_wave", "5")
    (wave,) = [each for each in effective(Settings(), environment) if each.name == "wave"]
    assert (5, "environment", "lookfirst_wave") == (wave.value, wave.source, wave.variable)


def test_no_secret_is_shown() -> None:
    """A secret is four stars, whether it was set or built in; one that is not set is none."""
    environment = {"LOOKFIRST_KEY": "sk-123"}
    shown = {each.name: each for each in effective(WithSecret(key=SecretStr("sk-123")), environment)}
    assert ("****", "****", "environment") == (shown["key"].value, shown["key"].default, shown["key"].source)
    assert (None, None, "default") == tuple(
        getattr(shown["other_key"], name) for name in ("value", "default", "source")
    )
    written = "".join(each.model_dump_json() for each in shown.values())
    assert "sk-123" not in written
    assert "built-in" not in written


def test_a_wrong_setting_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    """Settings that cannot be read are one sentence, with the variable to mend."""
    monkeypatch.setenv("LOOKFIRST_WAVE", "many")
    assert 2 == main(["settings"])
    out, err = capsys.readouterr()
    assert "" == out
    assert "LOOKFIRST_WAVE" in err

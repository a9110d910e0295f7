"""Settings: from the environment, and wrong ones told in one sentence."""

from __future__ import annotations

import pytest

from store.schema import UsageError, load_settings


def test_environment_sets_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable with the name of a setting changes it; a value that is passed wins."""
    monkeypatch.setenv("LOOKFIRST_QUERIES", "3")
    assert 3 == load_settings().queries
    assert 2 == load_settings(queries=2).queries


def test_wrong_setting_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that cannot be read is wrong usage, and the sentence names the variable to mend."""
    monkeypatch.setenv("LOOKFIRST_WAVE", "many")
    with pytest.raises(UsageError, match=r"wave: .* mend or unset LOOKFIRST_WAVE\."):
        load_settings()


def test_settings_that_contradict_each_other_are_refused() -> None:
    """Slices never give way, so memory must have room for all of them."""
    with pytest.raises(UsageError, match="memory_characters is less than slices"):
        load_settings(memory_characters=2_000)

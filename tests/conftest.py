"""Fixtures that every test may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from store.schema import Settings
from tests.workplace import Script, Workplace

pytest_plugins = ("tests.broker",)

# A law is about what comes out, not about how busy the machine is.
settings.register_profile(
    "lookfirst", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("lookfirst")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture
def script() -> Script:
    """A judge that answers what the test tells it to."""
    return Script()


@pytest.fixture
def workplace(tmp_path: Path, script: Script) -> Iterator[Workplace]:
    """A real store and a desk over it, driven step by step, without an engine.

    A provider is never left alone here, so that each event's own delays can be looked at.
    """
    with Workplace.opened(tmp_path / "store", script, Settings(breaker_after=1_000)) as opened:
        yield opened


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public data sets, which are not part of the repository (setting LOOKFIRST_DATA)."""
    named = os.environ.get("LOOKFIRST_DATA")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("public data sets are not here; name their folder in LOOKFIRST_DATA")
    return folder

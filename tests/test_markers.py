"""The marks of what is being judged: who is a suspect after a crash, and who is charged."""

from __future__ import annotations

from pathlib import Path

import pytest

from connectors.markers import Markers
from store.schema import Arrival, Coordinates, StoreError
from tests.workplace import START, event


def place(offset: int) -> Coordinates:
    """An event by its place."""
    return Coordinates(topic="events", offset=offset)


def arrival(offset: int) -> Arrival:
    """An event at its place."""
    return Arrival(event=event("x", id=str(offset)), arrived=START, coordinates=place(offset))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The file of the marks."""
    return tmp_path / "in_flight.json"


def test_a_first_start_suspects_nobody(path: Path) -> None:
    """Nothing was left, so nobody is a suspect, and it was no unclean end."""
    markers = Markers(path)
    assert (0, False, None) == (len(markers), markers.unclean, markers.charged(place(1)))


def test_who_was_under_way_at_a_crash_is_a_suspect_and_not_charged(path: Path) -> None:
    """Three were marked, one was left in time: two suspects with no charge, however often it happens."""
    for _ in range(3):
        markers = Markers(path)
        markers.enter([arrival(1), arrival(2), arrival(3)])
        markers.leave(place(2))
        markers.write()
    markers = Markers(path)
    assert (2, True) == (len(markers), markers.unclean)
    assert (0, None, 0) == tuple(markers.charged(place(n)) for n in (1, 2, 3))


def test_only_who_is_alone_is_charged(path: Path) -> None:
    """Alone at three unclean ends: charged three times; the other suspect is still charged nothing."""
    Markers(path).enter([arrival(1), arrival(2)])
    for charges in (1, 2, 3):
        Markers(path).enter([arrival(1)], alone=True)
        markers = Markers(path)
        assert (charges, 0) == (markers.charged(place(1)), markers.charged(place(2)))


def test_one_event_of_an_ordinary_wave_is_not_charged(path: Path) -> None:
    """The last of a wave was the only mark, but not judged alone from the start: a suspect, no charge."""
    markers = Markers(path)
    markers.enter([arrival(1), arrival(2)])
    markers.leave(place(2))
    markers.write()
    assert 0 == Markers(path).charged(place(1))


def test_an_end_in_order_blames_nobody(path: Path) -> None:
    """Marks that are left by an end that was seen make no suspects, and suspects from before stay."""
    Markers(path).enter([arrival(1)])
    markers = Markers(path)
    markers.enter([arrival(2)], alone=False)
    markers.end()
    markers = Markers(path)
    assert (False, 0, None) == (markers.unclean, markers.charged(place(1)), markers.charged(place(2)))


def test_after_the_end_record_nothing_is_written(path: Path) -> None:
    """A judgment that ends after the end record does not take it back."""
    markers = Markers(path)
    markers.enter([arrival(1)])
    markers.end()
    markers.leave(place(1))
    markers.write()
    assert not Markers(path).unclean


def test_who_was_judged_alone_and_lived_is_cleared(path: Path) -> None:
    """A suspect whose judgment ended is none any more, also after the next crash."""
    Markers(path).enter([arrival(1), arrival(2)])
    markers = Markers(path)
    markers.enter([arrival(1)], alone=True)
    markers.leave(place(1))
    markers.clear(place(1))
    markers.write()
    assert [None, 0] == [Markers(path).charged(place(n)) for n in (1, 2)]


def test_a_parked_one_is_remembered_until_the_end_record(path: Path) -> None:
    """A crash before its parking is written finds it with its charges; an end in order forgets it."""
    Markers(path).enter([arrival(1)])
    for _ in range(3):
        Markers(path).enter([arrival(1)], alone=True)
    markers = Markers(path)
    markers.convict(place(1))
    assert 0 == len(markers)
    markers.write()
    assert 3 == Markers(path).charged(place(1))
    again = Markers(path)
    again.convict(place(1))
    again.end()
    assert None is Markers(path).charged(place(1))


def test_a_damaged_file_is_an_error_with_its_remedy(path: Path) -> None:
    """Nobody guesses what stood there."""
    path.write_text("{")
    with pytest.raises(StoreError, match="delete it"):
        Markers(path)

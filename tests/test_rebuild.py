"""Memory anew from the record, the store anew from its topic: equal to what was there, whole when interrupted."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import flows.rebuild
from connectors.disk import swap
from connectors.lock import exclusive
from connectors.message import Outgoing
from flows.cli.main import main
from flows.data_folder import DataFolder
from flows.rebuild import DROPPED, REBUILDING, rebuild_memory, rebuild_store
from store import Store, open_store
from store.memory import Memory
from store.schema import Position, StoreError, load_settings
from store.tables import RECORD
from store.upkeep import Upkeep
from tests.sample import EVENTS, opened, run_embedded, sample_lines
from tests.test_embedded import lines_of, scripted
from tests.workplace import rows_of

Captured = pytest.CaptureFixture[str]


class Interrupted(BaseException):
    """The process ends here."""


def folder_at(path: Path) -> DataFolder:
    """The data folder as a command opens it."""
    return DataFolder.at(path, load_settings())


def everything(path: Path) -> dict[str, list[Any]]:
    """Every table as plain values, memory too."""
    store = opened(path)
    return {**rows_of(store, tuple(RECORD)), "memory": remembered(store)}


def remembered(store: Store) -> list[Any]:
    """All rows of memory."""
    rows: list[Any] = store.tables["memory"].to_arrow().sort_by("row_id").to_pylist()
    return rows


def opened_with_memory(path: Path) -> list[Position]:
    """Positions of a store whose memory table may have gone."""
    return open_store(path / "store", create=True).record.positions()


def spoilt(path: Path) -> Store:
    """A folder with seven tasks whose memory somebody has changed by hand: one row gone, one other, one twice."""
    scripted(path, lines_of(20))
    memory = opened(path).tables["memory"]
    ids = sorted(memory.to_arrow()["row_id"].to_pylist())
    memory.delete(f"row_id = '{ids[0]}'")
    memory.update(where=f"row_id = '{ids[1]}'", values={"text": "something else"})
    memory.add(memory.to_arrow().slice(0, 1))
    return opened(path)


def test_memory_is_right_again(tmp_path: Path) -> None:
    """Rows of memory deleted, changed and doubled by hand: rebuilt, search finds what the record holds."""
    store = spoilt(tmp_path)
    before = rows_of(store, tuple(RECORD))
    assert 7 == rebuild_memory(folder_at(tmp_path), load_settings())
    again = opened(tmp_path)
    assert before == rows_of(again, tuple(RECORD))
    ids = sorted(again.record.arrow("tasks")["id"].to_pylist())
    assert ids == [row["row_id"] for row in remembered(again)]
    assert ids == sorted(again.memory.text("default", ["number"], 20))
    assert 0 == scripted(tmp_path, []).tally.read
    assert not (tmp_path / "store" / DROPPED).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("owner", "place"),
    [
        (flows.rebuild, "_drop_memory"),
        (flows.rebuild, "_opened"),
        (Memory, "project"),
        (Upkeep, "optimize_all"),
    ],
)
def test_an_interrupted_rebuild_of_memory_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: object, place: str
) -> None:
    """Wherever it ends, memory is known to be behind: the next commit completes it, and so does a rebuild."""
    folder = folder_at(tmp_path)
    for complete in (lambda: scripted(tmp_path, lines_of(21)), lambda: rebuild_memory(folder, load_settings())):
        shutil.rmtree(tmp_path)
        calls = iter([spoilt(tmp_path)])

        def interrupted(*_: object, calls: Iterator[Store] = calls) -> Store:
            # The store is opened twice; the second time memory is gone.
            if place == "_opened" and (store := next(calls, None)):
                return store
            raise Interrupted

        with monkeypatch.context() as patched:
            patched.setattr(owner, place, interrupted)
            with pytest.raises(Interrupted):
                rebuild_memory(folder, load_settings())
        assert {0} == {each.next_offset for each in opened_with_memory(tmp_path) if each.part == "memory"}
        complete()
        store = opened(tmp_path)
        found = {row["row_id"]: row["text"] for row in remembered(store)}
        assert {row["id"]: f"{row['title']}\n{row['body']}" for row in rows_of(store)["tasks"]} == found


def test_the_store_is_equal_to_the_old_one(tmp_path: Path) -> None:
    """The sample applied anew: all rows of all tables, people, sessions, decisions and memory, are equal."""
    run_embedded(tmp_path, sample_lines(), paced=False)
    before = everything(tmp_path)
    rebuilt = rebuild_store(folder_at(tmp_path), load_settings())
    assert before == everything(tmp_path)
    assert (EVENTS, 0, 0) == (rebuilt.messages, rebuilt.dropped, rebuilt.unreadable)
    assert not (tmp_path / REBUILDING).exists()
    tally = run_embedded(tmp_path, [], paced=False)
    assert (0, 0) == (tally.read, tally.applied)


def test_a_store_that_is_gone_or_damaged_is_made(tmp_path: Path) -> None:
    """Without the folder, and with a table that cannot be opened, the topic is all it takes."""
    scripted(tmp_path, lines_of(20))
    before = everything(tmp_path)
    shutil.rmtree(tmp_path / "store")
    rebuild_store(folder_at(tmp_path), load_settings())
    assert before == everything(tmp_path)
    for manifest in (tmp_path / "store" / "tasks.lance" / "_versions").iterdir():
        manifest.write_bytes(b"nothing")
    with pytest.raises(StoreError, match="lookfirst rebuild store"):
        rebuild_memory(folder_at(tmp_path), load_settings())
    rebuild_store(folder_at(tmp_path), load_settings())
    assert before == everything(tmp_path)


def test_unreadable_and_second_messages_are_counted(tmp_path: Path) -> None:
    """A message that is none is skipped, a second Decision dropped, as apply does; positions are at the end."""
    scripted(tmp_path, lines_of(10))
    topic = folder_at(tmp_path).topic("operations")
    found, _ = topic.read(topic.start, 1)
    topic.append([Outgoing(None, "{}"), Outgoing(found[0].key, found[0].value)])
    scripted(tmp_path, [])
    before = everything(tmp_path)
    rebuilt = rebuild_store(folder_at(tmp_path), load_settings())
    assert (12, 1, 1, 10) == (rebuilt.messages, rebuilt.unreadable, rebuilt.dropped, rebuilt.events)
    assert before == everything(tmp_path)


@pytest.mark.parametrize("place", ["_fill", "swap", "rmtree"])
def test_an_interrupted_rebuild_leaves_a_whole_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Ended while it is filled, at the swap, or while the old one is removed: what is there is whole."""
    scripted(tmp_path, lines_of(20))
    before = everything(tmp_path)

    def interrupted(*_: object, **named: object) -> None:
        if place == "rmtree" and "ignore_errors" in named:
            return
        raise Interrupted

    with monkeypatch.context() as patched:
        patched.setattr(flows.rebuild.shutil if place == "rmtree" else flows.rebuild, place, interrupted)
        with pytest.raises(Interrupted):
            rebuild_store(folder_at(tmp_path), load_settings())
    assert before == everything(tmp_path)
    rebuild_store(folder_at(tmp_path), load_settings())
    assert before == everything(tmp_path)
    assert not (tmp_path / REBUILDING).exists()


def test_a_store_is_not_replaced_by_less(tmp_path: Path) -> None:
    """A topic that was cut, and one that is gone, are told; the store stays as it is, and so does the topic."""
    scripted(tmp_path, lines_of(10))
    before = everything(tmp_path)
    topic = tmp_path / "topics" / "lookfirst.operations.jsonl"
    whole = topic.read_bytes()
    topic.write_bytes(b"".join(whole.splitlines(keepends=True)[:4]))
    with pytest.raises(StoreError, match=r"to offset 10, but .* ends at 3"):
        rebuild_store(folder_at(tmp_path), load_settings())
    topic.unlink()
    with pytest.raises(StoreError, match="There is no operations topic"):
        rebuild_store(folder_at(tmp_path), load_settings())
    assert not topic.exists()
    topic.write_bytes(whole)
    assert before == everything(tmp_path)


def test_no_rebuild_beside_a_run(tmp_path: Path) -> None:
    """While a run holds the folder neither rebuild begins, and nothing changes."""
    scripted(tmp_path, lines_of(5))
    before = everything(tmp_path)
    with exclusive(tmp_path / "recovery"):
        for rebuild in (rebuild_memory, rebuild_store):
            with pytest.raises(StoreError, match="Another run is using"):
                rebuild(folder_at(tmp_path), load_settings())
    assert before == everything(tmp_path)


def test_two_folders_change_hands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Swapped at one moment where the system can, by renames where it cannot."""
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
        (folder / folder.name).touch()
    swap(one, other)
    assert ["other"] == [path.name for path in one.iterdir()]
    monkeypatch.setattr("connectors.disk._exchanged", lambda *_: False)
    swap(one, other)
    assert (["one"], ["other"]) == ([p.name for p in one.iterdir()], [p.name for p in other.iterdir()])
    assert ["one", "other"] == sorted(path.name for path in tmp_path.iterdir())


def test_the_commands_say_what_they_made(tmp_path: Path, capsys: Captured) -> None:
    """Sentences for people, counts for programs; no store and no topic are one sentence each."""
    scripted(tmp_path, lines_of(10))
    assert 0 == main(["rebuild", "memory", "--data", str(tmp_path)])
    assert "Memory holds 7 tasks" in capsys.readouterr()[0]
    assert 0 == main(["rebuild", "store", "--data", str(tmp_path), "--json"])
    assert 10 == json.loads(capsys.readouterr()[0])["messages"]
    for what, said in (("memory", "There is no store in"), ("store", "There is no operations topic")):
        assert 1 == main(["rebuild", what, "--data", str(tmp_path / "nowhere")])
        out, err = capsys.readouterr()
        assert ("", True, 1) == (out, said in err, err.count("\n"))
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("table", ["tasks", "events"])
def test_a_table_that_is_lost_is_not_made_empty(tmp_path: Path, table: str) -> None:
    """A run over a store without one of its tables is refused, with the command that mends it; it does."""
    scripted(tmp_path, lines_of(12))
    before = rows_of(opened(tmp_path))
    shutil.rmtree(tmp_path / "store" / f"{table}.lance")
    with pytest.raises(StoreError, match=f"no table {table}; .*rebuild store"):
        scripted(tmp_path, [])
    rebuild_store(folder_at(tmp_path), load_settings())
    assert before == rows_of(opened(tmp_path))

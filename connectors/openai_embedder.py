"""An embedder behind any endpoint that speaks OpenAI's protocol (`POST …/embeddings`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import urllib3

from store.schema import ClassifiedFailure, EmbedderSpec, FailureClass, UsageError
from store.schema.masking import mask

_URL: Final = "https://api.openai.com/v1"
_KEY: Final = "OPENAI_API_KEY"
_FAR: Final = 0.7
"""Cosine distance beyond which two texts have nothing in common, for models whose vectors spread well."""
_TIMEOUT: Final = 30.0
"""Wait for one answer (s)."""
_CONNECTIONS: Final = 8
"""Connections that are kept open (count)."""
_PASSING: Final = frozenset({408, 409, 425, 429})
_REFUSING: Final = frozenset({400, 413, 422})
_HARMLESS: Final = "hello"
"""A text that no endpoint refuses for what it says."""


class OpenAIEmbedder:
    """Texts to vectors over HTTP. The key comes from the environment and goes nowhere else."""

    far = _FAR

    def __init__(self, url: str, model: str, dimensions: int) -> None:
        self.dimensions = dimensions
        self._url = f"{url.rstrip('/')}/embeddings"
        self._named = mask(self._url)
        self._model = model
        # Whoever asks tries again, by the class of the failure and with a breaker.
        self._http = urllib3.PoolManager(
            timeout=urllib3.Timeout(total=_TIMEOUT), retries=False, maxsize=_CONNECTIONS
        )

    def embed(self, texts: Sequence[str]) -> Sequence[Sequence[float] | None]:
        """One vector for each text; one that the endpoint refuses alone is None.

        Raises ClassifiedFailure: transient for a busy or unreachable endpoint, unknown for one that refuses the
        key, refuses whatever it is asked, or answers with something else.
        """
        # Of a blank text there is nothing to say, and some endpoints refuse all for one.
        said = [text for text in texts if text.strip()]
        vectors = iter(self._embedded(said) if said else ())
        return [next(vectors) if text.strip() else None for text in texts]

    def _embedded(self, texts: Sequence[str]) -> list[Sequence[float] | None]:
        status, body = self._post(texts)
        if status in _REFUSING and len(texts) > 1:
            return [vector for text in texts for vector in self._embedded([text])]
        # A text is to blame only where another one is taken: a model of another name is refused the same way.
        if status in _REFUSING and self._post([_HARMLESS])[0] == 200:
            return [None]
        if status == 200:
            return [*_vectors(body, len(texts))]
        passing = status in _PASSING or status >= 500
        failure = FailureClass.TRANSIENT if passing else FailureClass.UNKNOWN
        raise ClassifiedFailure(failure, f"{self._named} answered {status}")

    def _post(self, texts: Sequence[str]) -> tuple[int, bytes]:
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(_KEY, "").strip():
            headers["Authorization"] = f"Bearer {key}"
            if not (key.isascii() and key.isprintable()):
                # The library would say so, with the key in its words.
                told = f"{_KEY} has characters in it that no request can carry"
                raise ClassifiedFailure(FailureClass.UNKNOWN, told)
        asked = json.dumps({"model": self._model, "input": list(texts)}).encode()
        try:
            answer = self._http.request("POST", self._url, body=asked, headers=headers)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            told = f"{self._named} cannot be asked: {type(error).__name__}"
            raise ClassifiedFailure(FailureClass.TRANSIENT, told) from error
        return answer.status, answer.data


def openai(spec: EmbedderSpec) -> OpenAIEmbedder:
    """The embedder; raises UsageError when model or dimensions are not set."""
    if not spec.model or spec.dimensions is None:
        raise UsageError(
            "The embedder openai needs LOOKFIRST_EMBEDDER_MODEL and LOOKFIRST_EMBEDDER_DIMENSIONS, the length of "
            "that model's vectors; LOOKFIRST_EMBEDDER_URL names another endpoint than OpenAI's."
        )
    return OpenAIEmbedder(spec.url or _URL, spec.model, spec.dimensions)


def _vectors(body: bytes, count: int) -> list[Sequence[float]]:
    """The vectors of an answer, in the order of the texts."""
    try:
        items: Sequence[Mapping[str, Any]] = json.loads(body)["data"]
        vectors = {int(item["index"]): [float(number) for number in item["embedding"]] for item in items}
        return [vectors[number] for number in range(count)]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        told = f"the answer of the endpoint is no list of {count} vectors"
        raise ClassifiedFailure(FailureClass.UNKNOWN, told) from error

"""Embedders for tests: `LOOKFIRST_EMBEDDER=tests.embedders:hashed`, and so on.

A text is the bag of its words, each at a place of its own: whoever shares words is near, and nothing has to be
learned. What goes wrong is switched on in `SWITCHES`, or by variables where the embedder is in another process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from zlib import crc32

from store.schema import ClassifiedFailure, EmbedderSpec, FailureClass
from store.terms import words

HASHED: Final = "tests.embedders:hashed"
UNSTEADY: Final = "tests.embedders:unsteady"
DIMENSIONS: Final = 128
FAR: Final = 0.6
"""Two texts that share less than every third word have nothing in common."""

DOWN: Final = "TEST_EMBEDDER_DOWN"
"""Variable with a file: while it is there the `unsteady` embedder is down."""
WITNESS: Final = "TEST_EMBEDDER_WITNESS"
"""Variable with a file in which the `unsteady` embedder writes a line for each text."""
SECONDS: Final = "TEST_EMBEDDER_SECONDS"
"""Variable with what a text takes the `unsteady` embedder (s)."""

BUSY: Final = ClassifiedFailure(FailureClass.TRANSIENT, "429")

Texts = Sequence[str]


@dataclass
class Switches:
    """What the `hashed` embedder of this process does beyond embedding, and what it was asked."""

    error: BaseException | None = None
    """Raised, as long as it stands here."""
    errs_on: str = ""
    """The error is for calls in which a text holds this."""
    refused: str | None = None
    """Texts that hold this cannot be embedded."""
    answer: Callable[[Texts], Any] | None = None
    """Answers in its place."""
    gate: threading.Event | None = None
    """Each call waits for it."""
    waits_on: str = ""
    """Only calls in which a text holds this wait."""
    dimensions: int = DIMENSIONS
    calls: list[Texts] = field(default_factory=list)
    asked: threading.Condition = field(default_factory=threading.Condition)

    @property
    def texts(self) -> list[str]:
        """Every text that was asked for, in order."""
        return [text for texts in self.calls for text in texts]

    def wait_for(self, texts: int) -> None:
        """Wait until so many texts were asked for."""
        with self.asked:
            assert self.asked.wait_for(lambda: len(self.texts) >= texts, 60)


SWITCHES: Final = Switches()


@contextmanager
def fresh_switches() -> Iterator[Switches]:
    """Switches with nothing on, and again afterwards; whoever waits at a gate is let go."""
    _reset()
    yield SWITCHES
    if SWITCHES.gate:
        SWITCHES.gate.set()
    _reset()


def _reset() -> None:
    blank = Switches()
    for each in fields(Switches):
        setattr(SWITCHES, each.name, getattr(blank, each.name))


class Hashed:
    """The bag of words, and the switches."""

    far = FAR

    @property
    def dimensions(self) -> int:
        return SWITCHES.dimensions

    def embed(self, texts: Texts) -> Any:
        with SWITCHES.asked:
            SWITCHES.calls.append(list(texts))
            SWITCHES.asked.notify_all()
        if SWITCHES.gate and any(SWITCHES.waits_on in text for text in texts):
            SWITCHES.gate.wait(60)
        if SWITCHES.error and any(SWITCHES.errs_on in text for text in texts):
            raise SWITCHES.error
        if SWITCHES.answer:
            return SWITCHES.answer(texts)
        refused = SWITCHES.refused
        return [None if refused and refused in text else bag(text, self.dimensions) for text in texts]


def hashed(spec: EmbedderSpec) -> Hashed:
    """The embedder of the tests in this process."""
    return Hashed()


def unsteady(spec: EmbedderSpec) -> SimpleNamespace:
    """The same for a process of its own, which variables tell what to do."""
    return SimpleNamespace(dimensions=DIMENSIONS, far=FAR, embed=_unsteady)


def _unsteady(texts: Texts) -> list[list[float]]:
    if (down := os.environ.get(DOWN)) and Path(down).exists():
        raise BUSY
    if seconds := float(os.environ.get(SECONDS, "0")):
        time.sleep(seconds * len(texts))
    if witness := os.environ.get(WITNESS):
        with Path(witness).open("a", encoding="utf-8") as file:
            file.write("".join(f"{text!r}\n" for text in texts))
    return [bag(text) for text in texts]


def bag(text: str, dimensions: int = DIMENSIONS) -> list[float]:
    """How often each word is in a text; all zero for a text without a word."""
    counts = [0.0] * dimensions
    for word in words(text):
        counts[crc32(word.encode()) % dimensions] += 1
    return counts

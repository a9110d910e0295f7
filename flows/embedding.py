"""Rows are embedded in the background: the record, the words and the judge never wait for a vector."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from time import monotonic

from store.schema import Settings, classify
from store.vector_writer import VectorWriter

_log = logging.getLogger(__name__)


class Embedding:
    """One thread that brings the vectors to where memory is, for as long as a run lasts.

    What it has not done when the process ends is found again at the next start.
    """

    def __init__(self, writer: VectorWriter, settings: Settings) -> None:
        self._writer = writer
        self._settings = settings
        self._changed = threading.Condition()
        self._stirred = False
        """Rows have changed since the thread has looked."""
        self._surveyed = False
        self._busy = False
        self._ended = False
        self._failure: str | None = None
        self._failures = 0
        """Failures in a row (count)."""
        self._not_before = 0.0
        """When the embedder is asked again after a failure, on the monotonic clock (s)."""
        self.rows = 0
        """Rows embedded so far (count)."""
        self.refused = 0
        """Rows whose text cannot be embedded (count)."""
        # A call that hangs must not hold the process.
        self._thread = threading.Thread(target=self._work, name="embed", daemon=True)

    def start(self) -> None:
        """Find what is missing and begin."""
        self._thread.start()

    def touched(self, row_ids: Iterable[str]) -> None:
        """Rows of memory have changed."""
        self._writer.touched(row_ids)
        with self._changed:
            self._stirred = True
            self._changed.notify_all()

    @property
    def pending(self) -> int:
        """Rows that are not embedded yet, those under way included (count)."""
        return self._writer.pending

    @property
    def is_done(self) -> bool:
        """Whether every row that can be embedded is."""
        with self._changed:
            return self._surveyed and not self._busy and not self._writer.pending

    @property
    def failure(self) -> str | None:
        """Why rows cannot be embedded at present."""
        since, most = self._writer.asking_since, self._settings.embed_timeout
        if since is not None and monotonic() - since > most:
            return f"no answer of the embedder within {most:g} s"
        return self._failure

    @property
    def lasting_failure(self) -> str | None:
        """The same once it is no hiccup any more, and waiting for it is in vain."""
        failure = self.failure
        passing = failure == self._failure and self._failures < self._settings.breaker_after
        return None if passing else failure

    @property
    def trouble(self) -> str | None:
        """Why rows, or the texts that are searched for, cannot be embedded at present."""
        return self.failure or self._writer.vectors.failure

    def end(self) -> None:
        """Finish the batch under way and begin no other; what hangs is left alone and writes nothing any more."""
        with self._changed:
            ended, self._ended = self._ended, True
            self._changed.notify_all()
        if not ended:
            self._thread.join(self._settings.stop_wait)
            self._writer.close()

    def _work(self) -> None:
        while self._wait_for_work():
            try:
                self._round()
            except BaseException as error:
                # Whatever an embedder throws: a thread that is gone would be waited for.
                self._failed(error)
            finally:
                with self._changed:
                    self._busy = False

    def _round(self) -> None:
        if not self._surveyed:
            self._writer.survey()
            with self._changed:
                self._surveyed = True
        self._writer.compare()
        if monotonic() < self._not_before:
            return
        done = self._writer.work(self._settings.embed_batch)
        self.rows += done.rows
        self.refused += done.refused
        self._failure, self._failures = None, 0

    def _failed(self, error: BaseException) -> None:
        failure = classify(error).reason if isinstance(error, Exception) else f"{type(error).__name__}: {error}"
        if failure != self._failure and not self._ended:
            _log.warning("rows cannot be embedded and wait: %s", failure)
        self._failure = failure
        first, longest = self._settings.retry_first, self._settings.retry_longest
        self._not_before = monotonic() + min(first * 2 ** min(self._failures, 32), longest)
        self._failures += 1

    def _wait_for_work(self) -> bool:
        with self._changed:
            while not self._is_due():
                left = self._not_before - monotonic()
                self._changed.wait(left if left > 0 else None)
            self._stirred = False
            self._busy = not self._ended
            return self._busy

    def _is_due(self) -> bool:
        has_work = not self._surveyed or self._writer.pending > 0
        return self._ended or self._stirred or (has_work and monotonic() >= self._not_before)

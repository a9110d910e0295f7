"""Judgments under way: of a judge at hand one at a time, of a remote one many side by side."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic

from flows.daemons import Daemons
from flows.judge.contract import Answer, Judge
from flows.pending import Pending
from store.schema import ClassifiedFailure, Event, FailureClass, Rejection, View, classify


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What a judge was asked: one event, or one piece of a long one."""

    pending: Pending
    event: Event
    """The event as it was shown: of a long one, with the text of the piece."""
    view: View
    rejected: tuple[Rejection, ...] = ()
    attempt: int = 1
    """Judgments of it in a row, this one included (count)."""


@dataclass(frozen=True, slots=True)
class Call:
    """A judgment that has ended: with an answer, or with a failure."""

    asked: Asked
    result: Answer | ClassifiedFailure


@dataclass(frozen=True, slots=True)
class _Waiting:
    future: Future[Answer]
    until: float
    """On the monotonic clock (s): a wait is not shortened when somebody sets the time."""


class Calls:
    """Asks the judge; hands back what has ended. `threads` is needed by a remote judge only."""

    def __init__(self, judge: Judge, timeout: float, threads: Daemons | None = None) -> None:
        self._judge = judge
        self._timeout = timeout
        self._threads = threads if judge.remote else None
        self._waiting: dict[Asked, _Waiting] = {}
        self._ended: list[Call] = []

    def __len__(self) -> int:
        """Judgments under way (count)."""
        return len(self._waiting)

    @property
    def side_by_side(self) -> bool:
        """Whether a judgment that was started may still be under way when `start` returns."""
        return self._threads is not None

    def start(self, asked: Asked) -> None:
        """Ask. A judge at hand has answered when this returns; a remote one answers later."""
        if self._threads is None:
            self._ended.append(Call(asked, self._judged(asked)))
            return
        future = self._threads.submit(lambda: self._judge.judge(asked.event, asked.view, asked.rejected))
        self._waiting[asked] = _Waiting(future, monotonic() + self._timeout)

    def ended(self) -> Iterator[Call]:
        """Hand over every judgment that has ended, also those that were started meanwhile."""
        while self._ended or self._collect():
            yield self._ended.pop(0)

    def _collect(self) -> bool:
        now = monotonic()
        for asked, waiting in list(self._waiting.items()):
            if waiting.future.done():
                self._ended.append(Call(asked, _result(waiting.future)))
            elif now >= waiting.until:
                assert self._threads is not None  # noqa: S101  whoever waits has threads
                self._threads.give_up(waiting.future)
                reason = f"no answer of the judge within {self._timeout:g} s"
                self._ended.append(Call(asked, ClassifiedFailure(FailureClass.TRANSIENT, reason)))
            else:
                continue
            del self._waiting[asked]
        return bool(self._ended)

    def _judged(self, asked: Asked) -> Answer | ClassifiedFailure:
        try:
            return self._judge.judge(asked.event, asked.view, asked.rejected)
        except Exception as error:
            return classify(error)


def _result(future: Future[Answer]) -> Answer | ClassifiedFailure:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, Exception):
        return classify(error)
    raise error

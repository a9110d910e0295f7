"""Threads that nobody waits for."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from flows.daemons import Daemons


@pytest.mark.promise("R39")
def test_threads_that_hang_are_replaced() -> None:
    """Two threads that never come back: given up, two others take their place, again and again."""
    release = threading.Event()
    with Daemons(2, "read") as pool:
        for _ in range(5):
            hanging = [pool.submit(release.wait) for _ in range(2)]
            for future in hanging:
                pool.give_up(future)
            assert 7 == pool.submit(lambda: 7).result(5)
        release.set()


def test_what_has_not_begun_does_not_begin() -> None:
    """A read that waited behind one that hangs is called off, and costs no thread."""
    release, begun = threading.Event(), []
    with Daemons(1, "read") as pool:
        first = pool.submit(release.wait)
        second = pool.submit(lambda: begun.append("second"))
        pool.give_up(second)
        release.set()
        assert first.result(5)
        assert 3 == pool.submit(lambda: 3).result(5)
    assert [] == begun


def test_a_failure_is_the_future_s() -> None:
    """An exception goes to whoever asks for the result, and the thread lives on."""
    with Daemons(1, "read") as pool:
        failed = pool.submit(lambda: 1 // 0)
        assert isinstance(failed.exception(5), ZeroDivisionError)
        assert 1 == pool.submit(lambda: 1).result(5)


def test_a_thread_that_hangs_does_not_hold_the_process() -> None:
    """The process ends although a thread of it never will."""
    code = (
        "import threading\n"
        "from flows.daemons import Daemons\n"
        "with Daemons(1, 'x') as pool:\n"
        "    pool.submit(threading.Event().wait)\n"
    )
    assert 0 == subprocess.run([sys.executable, "-c", code], timeout=60).returncode

"""Cancellation of work: an order to stop, given by one thread and obeyed by another.

One job: `Cancellation`, which remembers the reason and runs what wakes the work (closing a stream,
waking a queue), and `check_wanted`, by which long work asks again and again whether its answer is
still wanted. `asking` says whom it asks, so that whoever answers a call may end the work of a
client that gave up, or of a plan that takes too long or too much memory. Where nobody is asked, all
work is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event, Lock

from fabric.errors import CancelledError

_ASKED: ContextVar[Callable[[], None] | None] = ContextVar("wanted", default=None)


def check_wanted() -> None:
    """Raise what this work was given up with, if it was. Costs a tenth of a microsecond."""
    ask = _ASKED.get()
    if ask is not None:
        ask()


@contextmanager
def asking(ask: Callable[[], None]) -> Iterator[None]:
    """Have `check_wanted` call `ask` in this thread, which raises once the work is not wanted.

    >>> def gone() -> None:
    ...     raise TimeoutError("nobody waits")
    >>> with asking(gone):
    ...     check_wanted()
    Traceback (most recent call last):
    TimeoutError: nobody waits
    """
    token = _ASKED.set(ask)
    try:
        yield
    finally:
        _ASKED.reset(token)


class Cancellation:
    """Not cancelled at first; stays cancelled."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._event = Event()
        self._reason = ""
        self._wakers: dict[int, Callable[[], None]] = {}
        self._n_wakers = 0

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._event.is_set()

    @property
    def reason(self) -> str:
        """Why; empty before."""
        return self._reason

    def cancel(self, reason: str) -> None:
        """Stop the task, once; later calls change nothing."""
        with self._lock:
            if self._event.is_set():
                return
            self._reason = reason
            self._event.set()
            wakers = list(self._wakers.values())
        for wake in wakers:
            wake()

    def check(self) -> None:
        """Raise `CancelledError` when cancelled."""
        if self._event.is_set():
            raise CancelledError(self._reason)

    def wait(self, timeout_s: float) -> bool:
        """Wait until cancelled, at most `timeout_s`; whether it is."""
        return self._event.wait(timeout_s)

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Within the block, `cancel` calls `wake` (at once when cancelled already)."""
        with self._lock:
            number, self._n_wakers = self._n_wakers, self._n_wakers + 1
            self._wakers[number] = wake
            late = self._event.is_set()
        if late:
            wake()
        try:
            yield
        finally:
            with self._lock:
                del self._wakers[number]

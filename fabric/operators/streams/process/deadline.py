"""An end to calls of a user's function that take too long.

One job: `Deadline`, which raises `TookTooLongError` inside a call from another thread, wherever its
Python code is then. A call that hangs outside of Python (in a C function) only ends when it comes
back; the agent's own deadline ends the process of such a task.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fabric.operators.functions.watched import raise_in, raise_nothing

_S = 1_000_000


class TookTooLongError(BaseException):
    """Raised in a user's code; not an `Exception`, so that its own handlers leave it alone."""


class Deadline:
    """Watches the calls of one thread; `limit_us` is for each of them.

    >>> deadline = Deadline(60_000_000)
    >>> with deadline.call():
    ...     pass
    >>> deadline.close()
    """

    def __init__(self, limit_us: int, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.limit_s = limit_us / _S
        self._clock_s = clock_s
        self._lock = threading.Lock()
        self._number = 0
        self._since_s: float | None = None
        self._thread_id = 0
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None

    @contextmanager
    def call(self) -> Iterator[None]:
        """Around one call; raises `TookTooLongError` in it once the time is over."""
        if self._watcher is None:
            self._watcher = threading.Thread(target=self._watch, name="deadline", daemon=True)
            self._watcher.start()
        self._thread_id = threading.get_ident()
        try:
            self._begin()
            yield
        finally:
            try:
                self._end()
            except TookTooLongError:  # it came just now: the call was too long all the same
                self._end()
                raise

    def close(self) -> None:
        """Stop watching."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()

    def _begin(self) -> None:
        with self._lock:
            self._number += 1
            self._since_s = self._clock_s()

    def _end(self) -> None:
        with self._lock:
            was_raised, self._since_s = self._since_s is None, None
            if was_raised:  # perhaps it has not come yet
                raise_nothing()

    def _watch(self) -> None:
        wait_s = self.limit_s
        while not self._closed.wait(wait_s):
            wait_s = self._check()

    def _check(self) -> float:
        """End the call if its time is over; returns when to look again."""
        with self._lock:
            if self._since_s is None:
                return self.limit_s
            left_s = self._since_s + self.limit_s - self._clock_s()
            if left_s > 0:
                return left_s
            self._since_s = None
            raise_in(self._thread_id, TookTooLongError)
            return self.limit_s

"""A thread that calls a function whenever an eventfd is written to.

One job: keep Python off librdkafka's threads. They only write to the descriptor, because they hold
locks that a call into Python could deadlock on.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable


class Wake:
    """Calls `callback` once for all events since the previous call.

    Parameters
    ----------
    wake_fd
        A non-blocking eventfd that no other code reads.
    callback
        Called by this object's thread; must not raise.
    """

    def __init__(self, wake_fd: int, callback: Callable[[], None]) -> None:
        self._fd = os.dup(wake_fd)  # the reader's own may be closed before the thread has ended
        self._callback = callback
        self._over = False
        self._ending = threading.Lock()
        """Held while the thread is told to end: before that it does not close the descriptor."""
        self._thread = threading.Thread(target=self._run, name="kafka-wake", daemon=True)
        self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """Start no further calls; safe to call from the callback itself, and repeatedly."""
        with self._ending:
            if not self._over:
                self._over = True
                os.eventfd_write(self._fd, 1)
        if wait and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        finally:
            with self._ending:
                os.close(self._fd)

    def _watch(self) -> None:
        waiter = select.poll()
        waiter.register(self._fd, select.POLLIN)
        while True:
            waiter.poll()
            if self._over:
                return
            try:
                os.eventfd_read(self._fd)
            except BlockingIOError:
                continue
            self._callback()

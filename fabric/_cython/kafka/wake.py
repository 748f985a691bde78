"""A thread that calls a function when a file descriptor of events was written to.

One job: keep Python off librdkafka's own threads. Those only write to the descriptor, with locks
held that a call into Python could wait for.
"""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable


class Wake:
    """Calls `callback`, once for any number of events that came since it was called last.

    Parameters
    ----------
    wake_fd
        An eventfd that does not block; nobody else may read it.
    callback
        Called by this object's thread; must not raise.
    """

    def __init__(self, wake_fd: int, callback: Callable[[], None]) -> None:
        self._fd = os.dup(wake_fd)  # the reader's own may be closed before the thread has ended
        self._callback = callback
        self._over = False
        self._thread = threading.Thread(target=self._run, name="kafka-wake", daemon=True)
        self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """No call begins after this; may be called from the callback itself, and again."""
        if not self._over:
            self._over = True
            os.eventfd_write(self._fd, 1)
        if wait and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._watch()
        finally:
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

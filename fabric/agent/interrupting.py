"""An end to functions that go on when their task was cancelled.

One job: `Interrupter`. A task that is cancelled ends at its next step; one whose function does not
come back is interrupted in it after a while. Functions in slots are not meant: those are killed.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue

from fabric.operators.functions.watched import interrupt

PATIENT_S = 2.0


class Interrupter:
    """Waits for threads in a thread of its own, which begins with the first one.

    >>> interrupter = Interrupter()
    >>> interrupter.later(threading.current_thread())
    >>> interrupter.close()
    """

    def __init__(self, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._waiting: SimpleQueue[tuple[float, threading.Thread] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def later(self, thread: threading.Thread) -> None:
        """Interrupt the call that `thread` is in if it has not ended by then; from one thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="interrupter", daemon=True)
            self._thread.start()
        self._waiting.put((self._clock_s() + PATIENT_S, thread))

    def close(self) -> None:
        """Wait for nobody else, and for the end of those that were named."""
        self._waiting.put(None)
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while (one := self._waiting.get()) is not None:
            due_s, thread = one
            thread.join(max(0.0, due_s - self._clock_s()))
            if thread.is_alive() and thread.ident is not None:
                interrupt(thread.ident)

"""Signals that ask a process to end.

One job: set an event from a signal's handler without waiting for its lock. The handler runs in the
midst of whatever the main thread does, perhaps while that holds the very lock of the event: a
process that was asked twice to end then stood still for ever.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable


def sets(event: threading.Event) -> Callable[..., None]:
    """A handler that has a thread of its own set `event`; starting one takes no lock.

    >>> event = threading.Event()
    >>> with event._cond:
    ...     sets(event)(15, None)
    >>> event.wait(10)
    True
    """
    return lambda *_: _start(event.set)


def _start(call: Callable[[], None]) -> None:
    _thread.start_new_thread(call, ())

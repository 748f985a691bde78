"""What a process that serves for long does about its heap, its limits and its signals.

One job: `bound_arenas`, `allow_descriptors` and `forbid_cores`, before threads are started, and
`settle_heap`, when it is ready. Then `resident_bytes` says how large it is, and `give_back` makes
it smaller.

`sets` handles a signal that asks the process to end, without waiting for the lock of an event: the
handler runs in the midst of whatever the main thread does, perhaps while that holds this very lock.
A process that was asked twice to end then stood still for ever.
"""

from __future__ import annotations

import _thread
import ctypes
import gc
import os
import resource
import threading
from collections.abc import Callable

ARENAS_MAX = 2
"""Arenas of the system's malloc: one for each thread keeps memory in each, and each grows for as
long as the thread has not done everything once."""
_M_ARENA_MAX = -8


def bound_arenas() -> None:
    """Let the threads of this process share `ARENAS_MAX` arenas; nothing where malloc has none."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, ARENAS_MAX)


def forbid_cores() -> None:
    """Have the system write no core of this process, nor of those it starts: secrets are in it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def allow_descriptors() -> None:
    """Let this process have all the descriptors it may: every client's connection is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def settle_heap() -> None:
    """Leave what is loaded now out of later collections: it stays as long as the process does.

    A full collection went through all of it, and nobody was answered meanwhile. The last of these
    sees next to nothing, which is what Python measures by when the next full one is worth it.
    """
    gc.collect()
    gc.freeze()
    gc.collect()


def resident_bytes() -> int:
    """Memory of this process that is in RAM now (Linux); 0 where that is not known."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def give_back() -> None:
    """Give memory that is free just now back to the system; nothing where malloc can't."""
    gc.collect()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


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

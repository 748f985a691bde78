"""Processes that stay up or take long: Ctrl-C, SIGTERM, and whether a port is free for one.

Two ways to end: `stop_asked`, an event instead of an exception somewhere in the midst of things,
and `ctrl_c_ends` for work that is best ended by one.
"""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fabric.process import sets

STOPPERS = (signal.SIGINT, signal.SIGTERM)
POLL_S = 0.2
"""How long one wait for the event may be: a signal that another thread took wakes nobody."""


END_S = 15
"""How long what Ctrl-C ends may take to clean up: processes are killed after 10 s."""


@contextmanager
def ctrl_c_ends(within_s: int = END_S) -> Iterator[None]:
    """Have Ctrl-C end this process, whatever becomes of the `KeyboardInterrupt` that it raises.

    That is lost where C code calls back, turned into something else by imports of others, and on
    its way out may meet what waits. Where SIGINT is ignored, it stays so.
    """

    def interrupt(*_: object) -> None:
        signal.alarm(within_s)  # ends a process that does not handle it; needs no lock or thread
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stop_asked() -> Iterator[threading.Event]:
    """An event that Ctrl-C or SIGTERM sets while the context lasts; for the main thread.

    Also where SIGINT was ignored, as a shell has it for what it starts with ``&`` or ``nohup``:
    who sends one there means it.
    """
    stop = threading.Event()
    handlers = {sign: signal.signal(sign, sets(stop)) for sign in STOPPERS}
    try:
        yield stop
    finally:
        for sign, handler in handlers.items():
            signal.signal(sign, handler)


def port_is_free(host: str, number: int) -> bool:
    """Whether a server could listen there now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, number))
        except OSError:
            return False
    return True

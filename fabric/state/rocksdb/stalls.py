"""Writes that RocksDB has no room for yet.

One job: `taken`. Where RocksDB's buffers wait for a flush it lets a writer wait inside, with the
GIL held, and on a full disk until somebody makes room: the whole process would stand still. So
every write is one that may not wait (`impatient`), and is asked again from here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rocksdict import WriteOptions

_PAUSE_S, _PAUSE_MAX_S = 5e-4, 5e-3
_FULL = ("is-write-stopped", "actual-delayed-write-rate")
PATIENCE_S = 10.0
"""How long a write may find no room once a flush or a compaction has failed."""


def impatient() -> Any:
    """Options of a write that fails rather than waits."""
    found: Any = WriteOptions()  # its stub calls this a method
    found.no_slowdown = True
    return found


def taken(
    database: Any, write: Callable[[], None], pause: Callable[[float], None] = time.sleep
) -> None:
    """Call `write` until `database` takes it; it makes its batch anew, so room is seen first.

    Raises
    ------
    Exception
        What RocksDB refused it with: that it has no room only where it will not have any.
    """
    waited_s, pause_s = 0.0, _PAUSE_S
    while True:
        try:
            return write()
        except Exception as error:  # rocksdict raises bare Exception
            if not is_stall(error):
                raise
            has_room = False
            while not has_room:
                if waited_s >= PATIENCE_S and _ask(database, "background-errors"):
                    raise
                pause(pause_s)
                waited_s, pause_s = waited_s + pause_s, min(2 * pause_s, _PAUSE_MAX_S)
                has_room = not any(_ask(database, name) for name in _FULL)


def is_stall(error: Exception) -> bool:
    """Whether RocksDB had no room, as opposed to an error of the disk.

    >>> is_stall(Exception("Result incomplete: Write stall")), is_stall(Exception("No space left"))
    (True, False)
    """
    return "Write stall" in str(error)


def _ask(database: Any, name: str) -> int:
    return database.property_int_value(f"rocksdb.{name}") or 0

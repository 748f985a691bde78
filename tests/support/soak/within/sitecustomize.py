"""Has a process of a soak say each second how many bytes it has in use.

One job: Python imports this as it starts, by ``PYTHONPATH``; with ``SOAK_HELD`` a thread writes the
number into that folder, under the process id, and so does each process that is forked. Pages that
an allocator keeps are no growth, and they come and go by megabytes; what is in use does not.
Python's small objects count as 64 bytes each.

Python's table of interned strings has 128 Ki places from the start. Otherwise the table grows from
64 Ki once enough names have come and gone: 1 MB in each process, after minutes, and never again.
"""

from __future__ import annotations

import _thread
import ctypes
import os
import sys
import time
from functools import partial

_EVERY_S = 1.0
_BLOCK_BYTES = 64
_NAMES = 50_000
"""More than fit into a table of 64 Ki places, which is full at two thirds: 128 Ki are made."""


class _Mallinfo(ctypes.Structure):
    """What ``mallinfo2`` says, of all arenas together."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def _grow_interned() -> None:
    """The names go at once, the size of the table stays."""
    names = [sys.intern(f"soak-held {i}") for i in range(_NAMES)]
    names.clear()


def _begin(folder: str) -> None:
    """In a thread that `threading` does not count: slots say whether any are left."""
    _thread.start_new_thread(_say, (folder,))


def _say(folder: str) -> None:
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    path = os.path.join(folder, str(os.getpid()))
    while True:
        time.sleep(_EVERY_S)
        found = libc.mallinfo2()
        arrow = sys.modules.get("pyarrow")
        held = found.uordblks + found.hblkhd + _BLOCK_BYTES * sys.getallocatedblocks()
        held += getattr(arrow, "total_allocated_bytes", int)()
        with open(f"{path}.new", "w") as file:
            file.write(str(held))
        os.replace(f"{path}.new", path)


if _folder := os.environ.get("SOAK_HELD"):
    _grow_interned()
    _begin(_folder)
    os.register_at_fork(after_in_child=partial(_begin, _folder))

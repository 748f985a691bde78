"""Has a process of a soak say each second how many bytes it has in use.

One job: Python imports this as it starts, by ``PYTHONPATH``; with ``SOAK_HELD`` a thread writes the
number into that folder, under the process id. Pages that an allocator keeps are no growth, and they
come and go by megabytes; what is in use does not. Python's small objects count as 64 bytes each.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

_EVERY_S = 1.0
_BLOCK_BYTES = 64


class _Mallinfo(ctypes.Structure):
    """What ``mallinfo2`` says, of all arenas together."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


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
    threading.Thread(target=_say, args=(_folder,), name="soak-held", daemon=True).start()

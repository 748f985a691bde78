"""Which user functions run now, on a page that agent and slot share.

One job: `CallPage`. The slot notes every call of a function at its begin and end, and the agent
reads that without asking: a call that holds the GIL, or that killed the process, is on the page. A
call is one batch. More calls than there are lines at once go unseen.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections import deque
from dataclasses import dataclass

_LINE = struct.Struct("<QQ")  # function, monotonic time of the begin in ns; 0: no call
_N_LINES = 128
_BYTES = _LINE.size * _N_LINES


@dataclass(frozen=True, slots=True)
class Call:
    """A call under way."""

    function: int
    """See `fabric.operators.functions.user_code`."""
    since_s: float


class CallPage:
    """The page, in either process."""

    def __init__(self, descriptor: int) -> None:
        self._page = mmap.mmap(descriptor, _BYTES)
        self._free = deque(range(_N_LINES))

    @staticmethod
    def new_file() -> int:
        """A descriptor of a fresh page."""
        descriptor = os.memfd_create("fabric-calls", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _BYTES)
        return descriptor

    def begin(self, function: int) -> int:
        """Note a call; returns its line, for `end`."""
        try:
            line = self._free.popleft()
        except IndexError:
            return -1
        _LINE.pack_into(self._page, line * _LINE.size, function, time.monotonic_ns())
        return line

    def end(self, line: int) -> None:
        """The call of that line returned."""
        if line >= 0:
            _LINE.pack_into(self._page, line * _LINE.size, 0, 0)
            self._free.append(line)

    def oldest(self) -> Call | None:
        """The call that runs longest; None once the page is closed, as its process has ended."""
        try:
            lines = self._page[:_BYTES]
        except ValueError:
            return None
        calls = [
            Call(function, since_ns / 1e9)
            for function, since_ns in _LINE.iter_unpack(lines)
            if since_ns
        ]
        return min(calls, key=lambda call: call.since_s, default=None)

    def close(self) -> None:
        """Unmap it here."""
        self._page.close()

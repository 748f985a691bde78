"""What a slot prints.

One job: `Output`: lines from a pipe, each of bounded length, to whoever listens now. The slot waits
when nobody reads; the agent never does.
"""

from __future__ import annotations

import os
from collections.abc import Callable

LINE_BYTES_MAX = 2000
_READ, _READS_MAX = 1 << 16, 16

Listener = Callable[[str], None]


class Output:
    """The reading end; owns its descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.listener: Listener = lambda _: None
        self._rest = b""
        os.set_blocking(descriptor, False)

    def read(self) -> bool:
        """Hand on the lines that wait; False when no more will come."""
        for _ in range(_READS_MAX):
            try:
                data = os.read(self.descriptor, _READ)
            except BlockingIOError:
                return True
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._tell(line)
            if len(self._rest) > LINE_BYTES_MAX or not data:
                self._tell(self._rest)
                self._rest = b""
            if not data:
                return False
        return True

    def close(self) -> None:
        """Read what is left, and close it."""
        self.read()
        self._tell(self._rest)
        os.close(self.descriptor)

    def _tell(self, line: bytes) -> None:
        if line:
            self.listener(line[:LINE_BYTES_MAX].decode(errors="replace"))

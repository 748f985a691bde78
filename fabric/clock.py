"""Time as an argument: what a pure core may know about it.

One job: the `Clock` protocol and the two clocks processes use. The one that tests move by hand
is `fabric.testing.ManualClock`. Leases and timeouts use `monotonic_s`; `wall_s` is for people and
token expiry.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Where a party gets its time from."""

    def monotonic_s(self) -> float:
        """Seconds on a clock that never goes back; only differences mean something."""

    def wall_s(self) -> float:
        """Seconds since 1970-01-01 UTC; may jump."""


class SystemClock:
    """The machine's own time."""

    def monotonic_s(self) -> float:
        """`time.monotonic`."""
        return time.monotonic()

    def wall_s(self) -> float:
        """`time.time`."""
        return time.time()

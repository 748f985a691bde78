"""Event time: watermarks, lateness, windows, triggers and timers, as pure functions over a clock.

Time is int64 microseconds since the epoch, UTC; naive timestamps are taken as UTC. Three values
stand outside of time, and the times of rows lie strictly between them:

    BEGINNING     nothing is known yet
    IDLE          this producer has nothing at the moment: leave it out of the minimum
    END_OF_TIME   the input has ended: everything fires

Nothing here does I/O, reads a clock or starts a thread. What a window or trigger is stands in
`fabric.plan.windowing`.
"""

from __future__ import annotations

BEGINNING = -(2**63)
IDLE = -(2**63) + 1
END_OF_TIME = 2**63 - 1
EMISSION_US = 200_000
"""How often a watermark is sent when no batch carries it."""

WATERMARK_COLUMN = "__watermark"
"""The int64 column that brings each row's own watermark to where lateness is decided."""

"""Event time: watermarks, lateness, windows, triggers and timers, as pure functions over a clock.

Time is int64 microseconds since the epoch, UTC; naive timestamps are taken as UTC. Three values
stand outside of time, and the times of rows lie strictly between them:

    BEGINNING     nothing is known yet
    IDLE          this producer has nothing at the moment: leave it out of the minimum
    END_OF_TIME   the input has ended: everything fires

Nothing here does I/O, reads a clock or starts a thread. What a window or trigger is stands in
`fabric.plan.event_windows`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

BEGINNING = -(2**63)
IDLE = -(2**63) + 1
END_OF_TIME = 2**63 - 1

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def shown(time_us: int) -> str:
    """A watermark as people read it.

    >>> shown(0), shown(BEGINNING), shown(IDLE), shown(END_OF_TIME)
    ('1970-01-01 00:00:00', 'none yet', 'idle', 'ended')
    """
    outside = {BEGINNING: "none yet", IDLE: "idle", END_OF_TIME: "ended"}
    if time_us in outside:
        return outside[time_us]
    try:
        moment = _EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return f"{time_us} us"
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def least(times: Iterable[int]) -> int:
    """The watermark of several inputs: the least, idle ones left out.

    Where all others have ended, an idle one keeps the end away: it may still have rows.

    >>> least([5, 3]), least([5, IDLE]), least([IDLE, END_OF_TIME]) == IDLE
    (3, 5, True)
    """
    found = END_OF_TIME
    idle = False
    for time_us in times:
        if time_us == IDLE:
            idle = True
        elif time_us < found:
            found = time_us
    return IDLE if idle and found == END_OF_TIME else found

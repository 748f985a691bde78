"""Which windows a time is in, when they close, which rows are late, and when results are given.

One job: the meaning of the specs of windows and triggers of `fabric.plan.event_windows`, on
columns. A row is late for a window iff the window's end plus the allowed lateness is not after the
row's own watermark; a row alone in a session is the window from its time for the gap. A trigger
decides which open windows give a result now.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabric._cython.kernels.window_assign import (
    assign_cumulative,
    assign_sliding,
    assign_tumbling,
    window_spans,
)
from fabric.errors import DataError, InternalError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.plan.event_windows import Cumulative, Session, Sliding, Trigger, Tumbling, Window
from fabric.plan.zones import zone_rules

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
_FAR = 1 << 61
Framed = Tumbling | Sliding | Cumulative
"""Windows whose bounds follow from a row's time alone."""


class Assigned(NamedTuple):
    """One entry a row and window: which row, and the window's start and end."""

    rows: Ints
    starts: Ints
    ends: Ints


class Clock:
    """What windows are counted by: the clocks of a zone (see `clock_zone`), or UTC.

    >>> clock = Clock("Europe/Berlin")
    >>> clock.shown(np.array([0, END_OF_TIME])).tolist() == [3_600_000_000, END_OF_TIME]
    True
    >>> clock.instants(np.array([3_600_000_000])).tolist()
    [0]
    """

    def __init__(self, zone: str | None) -> None:
        self._rules = None if zone is None else zone_rules(zone)
        self.zoned = self._rules is not None
        """Whether it may show something else than UTC."""

    def shown(self, times: Ints) -> Ints:
        """What the clock shows at `times`, which never goes back; `BEGINNING` and its like stay."""
        if self._rules is None:
            return times
        near = (times < _FAR) & (times > -_FAR)
        return np.where(near, self._rules.forward(times), times)

    def instants(self, shown: Ints) -> Ints:
        """When it shows that, or more, for the first time."""
        return shown if self._rules is None else self._rules.begun(shown)


class Spans(NamedTuple):
    """The ends of the first and the last open window of each row, a `step` apart.

    A row that is late for all its windows has first > last; `n_late` rows are.
    """

    first: Ints
    last: Ints
    n_late: int


def assign(window: Window, times: Ints) -> Assigned:
    """Each row once for each window it is in, in order of rows.

    >>> found = assign(Sliding(10, 5), np.array([12, 20]))
    >>> [column.tolist() for column in found]
    [[0, 0, 1, 1], [10, 5, 20, 15], [20, 15, 30, 25]]
    """
    rows = np.arange(len(times))
    match window:
        case Tumbling(size_us=size, offset_us=offset):
            return Assigned(rows, *assign_tumbling(times, size, offset))
        case Sliding(size_us=size, slide_us=slide, offset_us=offset):
            return Assigned(*assign_sliding(times, size, slide, offset))
        case Cumulative(size_us=size, step_us=step, offset_us=offset):
            return Assigned(*assign_cumulative(times, size, step, offset))
        case Session(gap_us=gap):
            return Assigned(rows, times, np.minimum(times, END_OF_TIME - 1 - gap) + gap)
    raise InternalError(f"rows are not in {window} by their time")


def spans(
    window: Framed, times: Ints, watermarks: Ints | None, reached: int, lateness_us: int
) -> Spans:
    """The windows of rows that still take them; see the kernel `window_spans`.

    `watermarks` is what rows carry (None: nothing), `reached` how far the operator has come: what
    it has put out takes no rows, whatever they carry.

    Raises
    ------
    DataError
        If a time is too far away for windows.

    Examples
    --------
    >>> found = spans(Tumbling(10), np.array([3, 12]), np.array([10, 10]), BEGINNING, 0)
    >>> found.first.tolist(), found.last.tolist(), found.n_late
    ([20, 20], [10, 20], 1)
    """
    cumulated = isinstance(window, Cumulative)
    try:
        found = window_spans(
            times, watermarks, reached, window.size_us, step(window), window.offset_us, cumulated,
            lateness_us,
        )  # fmt: skip
    except ValueError as error:
        furthest = int(times[np.abs(times).argmax()])
        raise DataError(
            f"a row has the time {furthest} µs since 1970, too far away for a window; bound it by "
            ".with_watermark(…, future=…), or filter the row"
        ) from error
    return Spans(*found)


def step(window: Framed) -> int:
    """From the end of one window of a row to the end of the next."""
    match window:
        case Tumbling(size_us=size):
            return size
        case Sliding(slide_us=slide):
            return slide
        case Cumulative(step_us=step):
            return step


def starts(window: Framed, ends: Ints) -> Ints:
    """Where the windows with these ends begin.

    >>> starts(Cumulative(30, 10), np.array([10, 30, 40])).tolist()
    [0, 0, 30]
    """
    if isinstance(window, Cumulative):
        return assign_tumbling(ends - 1, window.size_us, window.offset_us)[0]
    return ends - window.size_us


def expanded(first: Ints, last: Ints, step: int) -> tuple[Ints, Ints]:
    """Each row once for each window of its span: the row's number, and the window's end.

    >>> rows, ends = expanded(np.array([5, 10, 12]), np.array([10, 10, 10]), 5)
    >>> rows.tolist(), ends.tolist()
    ([0, 0, 1], [5, 10, 10])
    """
    n = np.maximum((last - first) // step + 1, 0)
    rows = np.repeat(np.arange(len(first)), n)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(n) - n, n)
    return rows, first[rows] + nth * step


def waits_us(window: Window | None, lateness_us: int) -> int:
    """How long after its end a window may still take a row that is on time.

    A session's end moves: a row may be on time for its own window, one gap long, and yet touch a
    session that ended up to a gap before the watermark. Only when that too is over is it complete.

    >>> waits_us(Tumbling(10), 3), waits_us(Session(10), 3)
    (3, 13)
    """
    return lateness_us + window.gap_us if isinstance(window, Session) else lateness_us


def closed(watermarks: Ints | np.int64, waits_us: int) -> Ints | np.int64:
    """Windows that end at this time or before take no rows any more; at END_OF_TIME all.

    >>> int(closed(np.int64(10), 4)), int(closed(np.int64(END_OF_TIME), 4)) == END_OF_TIME
    (6, True)
    """
    early = np.maximum(watermarks, BEGINNING + waits_us) - waits_us
    return np.where(watermarks == END_OF_TIME, watermarks, early)


def closed_at(watermark: int, waits_us: int) -> int:
    """The same of one watermark, which numpy takes fifty times as long for.

    >>> closed_at(10, 4), closed_at(END_OF_TIME, 4) == END_OF_TIME, closed_at(BEGINNING, 4)
    (6, True, -9223372036854775808)
    """
    if watermark == END_OF_TIME:
        return watermark
    return max(watermark, BEGINNING + waits_us) - waits_us


def behind(watermark: int, waits_us: int) -> int:
    """The watermark that leaves an operator which may still put out ends that long before.

    >>> behind(10, 4), behind(END_OF_TIME, 4) == END_OF_TIME, behind(BEGINNING, 4) == BEGINNING
    (6, True, True)
    """
    if watermark in (BEGINNING, IDLE, END_OF_TIME):
        return watermark
    return max(watermark - waits_us, BEGINNING)


def shown_after_rows(trigger: Trigger, n_unshown: Ints, ends: Ints | None, reached: int) -> Bools:
    """Which windows give a result because rows came.

    `n_unshown` counts each window's rows that are in no result yet, `ends` where windows have one,
    `reached` is the operator's watermark: one that has ended gives each update at once where the
    trigger says so.

    >>> unshown, ends = np.array([3, 1]), np.array([20, 10])
    >>> shown_after_rows(Trigger(count=3, late="each"), unshown, ends, 15).tolist()
    [True, True]
    """
    shown = np.zeros(len(n_unshown), np.bool_)
    if trigger.count is not None:
        shown |= n_unshown >= trigger.count
    if trigger.late == "each" and ends is not None:
        shown |= (ends <= reached) & (n_unshown > 0)
    return shown


def is_early(trigger: Trigger, told_us: int, now_us: int) -> bool:
    """Whether open windows give what they have, `told_us` being when they last did.

    Early results come at whole multiples of the interval, so that all tasks agree on when.

    >>> trigger = Trigger(early_us=100)
    >>> is_early(trigger, 150, 199), is_early(trigger, 150, 200), is_early(Trigger(), 0, 10**9)
    (False, True, False)
    """
    every = trigger.early_us
    if every is None:
        return False
    return told_us == BEGINNING or now_us // every > told_us // every

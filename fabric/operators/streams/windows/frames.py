"""Which windows a row counts in, as the first and the last of their ends.

One job: arithmetic on times. The windows of a row end at ``first, first + step, … last``; rows that
have both in common are in the same windows, so they are kept together and each is added up once,
however many windows it is in. A row that is late for some of its windows has a later `first`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabric.errors import DataError
from fabric.event_time import BEGINNING, END_OF_TIME
from fabric.plan.windowing import Cumulative, Sliding, Tumbling

Ints = NDArray[np.int64]
_FAR = 1 << 61
"""Times beyond this (73,000 years) might leave int64 together with a window."""


class Spans(NamedTuple):
    """The ends of the first and the last window of each row; none when first > last."""

    first: Ints
    last: Ints


@dataclass(frozen=True, slots=True)
class Frames:
    """The windows of one kind; `lateness_us` is how long after its end one takes rows.

    >>> frames = Frames(Sliding(10, 5), lateness_us=0)
    >>> spans = frames.spans(np.array([12, 12, 12]), np.array([0, 15, 20]))
    >>> spans.first.tolist(), spans.last.tolist()
    ([15, 20, 25], [20, 20, 20])
    """

    window: Tumbling | Sliding | Cumulative
    lateness_us: int

    @property
    def step(self) -> int:
        """From the end of one window of a row to the next."""
        match self.window:
            case Tumbling(size_us=step) | Sliding(slide_us=step) | Cumulative(step_us=step):
                return step

    def spans(self, times: Ints, watermarks: Ints | np.int64) -> Spans:
        """The windows of rows at `times` that are not complete at `watermarks`.

        Raises
        ------
        DataError
            If a time is too far away for windows.
        """
        if len(times) and (times.min() < -_FAR or times.max() > _FAR):
            raise DataError(
                f"a row has the time {int(times[np.abs(times).argmax()])} µs since 1970, too far "
                f"away for a window; bound it by .with_watermark(…, future=…), or filter the row"
            )
        first, last = self._ends(times)
        passed = closed(watermarks, self.lateness_us)
        late = first <= passed
        if late.any():
            steps = (np.maximum(passed, first - 1) - first) // self.step + 1
            first = np.where(late, first + np.minimum(steps, (last - first) // self.step + 1)
                             * self.step, first)  # fmt: skip
        return Spans(first, last)

    def starts(self, ends: Ints) -> Ints:
        """Where windows with these ends begin."""
        if isinstance(self.window, Cumulative):
            size, offset = self.window.size_us, self.window.offset_us
            return _floor(ends - 1, size, offset)
        return ends - self.window.size_us

    def _ends(self, times: Ints) -> Spans:
        match self.window:
            case Tumbling(size_us=size, offset_us=offset):
                end = _floor(times, size, offset) + size
                return Spans(end, end)
            case Sliding(size_us=size, slide_us=slide, offset_us=offset):
                first = _floor(times - size, slide, offset) + slide + size
                return Spans(first, _floor(times, slide, offset) + size)
            case Cumulative(size_us=size, step_us=step, offset_us=offset):
                start = _floor(times, size, offset)
                return Spans(_floor(times, step, offset) + step, start + size)


def closed(watermarks: Ints | np.int64, lateness_us: int) -> Ints | np.int64:
    """Windows that end at this time or before take no rows any more.

    >>> int(closed(np.int64(10), 4)), int(closed(np.int64(END_OF_TIME), 4)) == END_OF_TIME
    (6, True)
    """
    early = np.maximum(watermarks, BEGINNING + lateness_us) - lateness_us
    return np.where(watermarks == END_OF_TIME, watermarks, early)


def behind(watermark: int, lateness_us: int) -> int:
    """The watermark that leaves an operator which may still put out ends so long after them.

    >>> behind(10, 4), behind(END_OF_TIME, 4) == END_OF_TIME, behind(BEGINNING, 4) == BEGINNING
    (6, True, True)
    """
    if watermark == END_OF_TIME or watermark <= BEGINNING + lateness_us + 1:
        return watermark if watermark == END_OF_TIME or watermark <= BEGINNING + 1 else BEGINNING
    return watermark - lateness_us


def expanded(first: Ints, last: Ints, step: int) -> tuple[Ints, Ints]:
    """Each row once for each of its windows: the row's number, and the window's end.

    >>> rows, ends = expanded(np.array([5, 10, 12]), np.array([10, 10, 10]), 5)
    >>> rows.tolist(), ends.tolist()
    ([0, 0, 1], [5, 10, 10])
    """
    n = np.maximum((last - first) // step + 1, 0)
    rows = np.repeat(np.arange(len(first)), n)
    nth = np.arange(len(rows)) - np.repeat(np.cumsum(n) - n, n)
    return rows, first[rows] + nth * step


def _floor(times: Ints, size: int, offset: int) -> Ints:
    """The last multiple of `size`, counted from `offset`, that is not after each time."""
    return times - (times - offset % size) % size

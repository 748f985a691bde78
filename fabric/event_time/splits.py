"""The watermark of one split, row by row.

One job: `SplitWatermark`. Row r carries w(r) = the greatest event time of earlier rows of its
split, less the bound, whatever the batches are. A row without usable time, or one too far in the
future, is bad: it is marked here, and what becomes of it is for the operator to say.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabric._cython.kernels.watermark import row_watermarks
from fabric.errors import FabricError, UserError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE
from fabric.event_time.strategies import DEFAULT, Bounded, Custom, Strategy, Times

GOOD, MISSING, FUTURE = 0, 1, 2
"""Kinds of rows: fine; without usable time; too far ahead of all rows before."""


class RowTimes(NamedTuple):
    """What is known of each row; `kinds` are `GOOD`, `MISSING`, `FUTURE`."""

    watermarks: Times
    kinds: NDArray[np.uint8]
    n_bad: int


class SplitWatermark:
    """How far event time has come in one split.

    Parameters
    ----------
    strategy
        How the watermark follows from times.
    future_us
        How far ahead of the greatest time so far a row may be; one that is more is `FUTURE`, and
        pushes that greatest time by no more than this. A real gap is caught up with so, some rows
        later. A first row has none before it and is compared with the clock; it pushes nothing
        when it is `FUTURE`. None: any time is fine.

    Examples
    --------
    >>> split = SplitWatermark(Bounded(5), future_us=20)
    >>> rows = split.row_watermarks(np.array([100, 90, 200, 101]))
    >>> rows.watermarks.tolist()[1:], rows.kinds.tolist(), split.watermark
    ([95, 95, 115], [0, 0, 2, 0], 115)
    """

    def __init__(self, strategy: Strategy = DEFAULT, future_us: int | None = None) -> None:
        self._strategy = strategy
        self._future_us = future_us
        self._greatest = BEGINNING
        self._watermark = BEGINNING

    @property
    def watermark(self) -> int:
        """What the next row will carry; BEGINNING before the first good row."""
        return self._watermark

    def row_watermarks(
        self, times: Times, valid: NDArray[np.uint8] | None = None, now_us: int = END_OF_TIME
    ) -> RowTimes:
        """The watermark of each row of a batch; goes on from there.

        `valid` is 0 where a row has no time (None: all have one); `now_us` is what the clock says.

        Raises
        ------
        UserError
            If a custom strategy's function fails or returns something else than asked for; then
            nothing has moved on.
        """
        strategy, future = self._strategy, self._future_us
        bound = strategy.bound_us if isinstance(strategy, Bounded) else 0
        ceiling = END_OF_TIME if future is None else min(now_us + future, END_OF_TIME)
        jump = -1 if future is None else future
        watermarks, kinds, greatest, n_bad = row_watermarks(
            times, valid, self._greatest, bound, jump, ceiling
        )
        if isinstance(strategy, Custom):
            after = np.append(watermarks[1:], greatest)[: len(times)]
            shown = np.where(kinds == GOOD, times, after)
            watermarks = self._brought(strategy, shown, after)
        elif greatest != BEGINNING:
            self._watermark = max(greatest - bound, IDLE + 1)
        self._greatest = greatest
        return RowTimes(watermarks, kinds, n_bad)

    def _brought(self, strategy: Custom, times: Times, greatest: Times) -> Times:
        """The watermarks of rows by a custom strategy, made to rise."""
        found = _called(strategy, times, greatest)
        found = np.minimum(found, greatest)
        found[found <= IDLE] = BEGINNING
        rising = np.maximum.accumulate(np.concatenate([[self._watermark], found]))
        self._watermark = int(rising[-1])
        carried: Times = rising[:-1]
        return carried

    def state(self) -> tuple[int, int]:
        """What a snapshot keeps: the greatest time, the watermark."""
        return self._greatest, self._watermark

    def restore(self, state: tuple[int, int]) -> None:
        """Go on from `state`."""
        self._greatest, self._watermark = state


def _called(strategy: Custom, times: Times, greatest: Times) -> Times:
    try:
        found = np.asarray(strategy.function(times, greatest))
    except FabricError:
        raise
    except Exception as error:  # whatever a user's function raises is the user's to mend
        raise UserError(
            f"the watermark function failed: {type(error).__name__}: {error}"
        ) from error
    if found.shape != times.shape or found.dtype != np.int64:
        raise UserError(
            f"the watermark function returned {found.dtype} of shape {found.shape}; "
            f"return int64 microseconds of shape {times.shape}"
        )
    return found

"""Watermarks: of one split, row by row, and of a task, the least of what it reads.

How a split's watermark follows from the times of its rows is one of three frozen strategies
(`Bounded`, `Monotonic`, `Custom`), each a function of the rows so far, one after the other, so that
the same rows in other batches give the same watermarks.

`SplitWatermark`: row r carries w(r) = the greatest event time of earlier rows of its split, less
the bound, whatever the batches are. A row without usable time, or one too far in the future, is
bad: it is marked here, and what becomes of it is for the operator to say.

`TaskWatermark` is what a task sends on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fabric._cython.kernels.watermark import MinTracker, row_watermarks
from fabric.errors import ConfigError, FabricError, UserError
from fabric.event_time import BEGINNING, END_OF_TIME, IDLE

Times = NDArray[np.int64]
GOOD, MISSING, FUTURE = 0, 1, 2
"""Kinds of rows: fine; without usable time; too far ahead of all rows before."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """Rows come at most `bound_us` behind the greatest time so far: the watermark is that far back.

    >>> Bounded().bound_us
    5000000
    """

    bound_us: int = 5_000_000

    def __post_init__(self) -> None:
        if self.bound_us < 0:
            raise ConfigError(f"bound_us must not be negative, got {self.bound_us}")


@dataclass(frozen=True, slots=True)
class Monotonic:
    """Rows come in order of time: the watermark is the greatest time so far.

    A row that is behind all the same is no error: it is late where its window is over.
    """


@dataclass(frozen=True, slots=True)
class Custom:
    """`function(times, greatest)` says which watermark each row brings, for the rows after it.

    Both arguments and the result are int64 microseconds, shape (rows,): a row's time (where it is
    bad, that of the row before), and the greatest up to and with it. Each result must follow from
    its own row alone: batches may be cut anywhere. BEGINNING brings none; a watermark never goes
    back, and never beyond the greatest time.

    >>> Custom(lambda times, greatest: greatest - 10)  # doctest: +ELLIPSIS
    Custom(function=<function <lambda> at ...>)
    """

    function: Callable[[Times, Times], Times]


Strategy = Bounded | Monotonic | Custom
DEFAULT: Strategy = Bounded()


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


class TaskWatermark:
    """The minimum over channels; idle ones are left out, an ended one holds nobody back.

    A task that reads nothing, or nothing but idle channels, is idle itself. END_OF_TIME comes only
    when all channels have ended: one that rests may still have rows.

    Examples
    --------
    >>> task = TaskWatermark(["a", "b"])
    >>> task.update("a", 70)
    >>> task.current == BEGINNING
    True
    >>> task.update("b", IDLE)
    >>> task.current
    70
    """

    def __init__(self, channels: Iterable[Hashable] = ()) -> None:
        self._tracker = MinTracker()
        self._numbers: dict[Hashable, int] = {}
        self._reached = BEGINNING
        for channel in channels:
            self.add(channel)

    def add(self, channel: Hashable) -> None:
        """One more channel, of which nothing is known yet; one that is known already stays."""
        if channel not in self._numbers:
            self._numbers[channel] = self._tracker.add()

    def update(self, channel: Hashable, time_us: int) -> None:
        """A channel's watermark, IDLE or END_OF_TIME; one that goes back is ignored."""
        if self._tracker.update(self._numbers[channel], time_us):
            self._reached = max(self._reached, self._tracker.minimum())

    @property
    def current(self) -> int:
        """The watermark now; IDLE while nothing is to come."""
        return IDLE if self._tracker.minimum() == IDLE else self._reached

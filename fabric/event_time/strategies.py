"""How a split's watermark follows from the times of its rows.

One job: three frozen strategies. Each is a function of the rows so far, one after the other, so
that the same rows in other batches give the same watermarks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fabric.errors import ConfigError

Times = NDArray[np.int64]


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

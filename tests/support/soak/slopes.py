"""How fast something grows, whatever a few odd samples say.

One job: `theil_sen`, the median of the slopes of all pairs of samples, with the interval that holds
the true slope with 95 %. Theil, A rank-invariant method, 1950; Sen, Estimates of the regression
coefficient based on Kendall's tau, 1968 (its normal approximation).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

_Z = 1.959964


@dataclass(frozen=True, slots=True)
class Slope:
    """`least` and `most` hold the true slope with 95 %, where samples are independent."""

    least: float
    median: float
    most: float

    def times(self, factor: float) -> Slope:
        """In another unit."""
        return Slope(factor * self.least, factor * self.median, factor * self.most)

    def __str__(self) -> str:
        return f"{self.median:+.2f} [{self.least:+.2f}, {self.most:+.2f}]"


def theil_sen(x: Sequence[float], y: Sequence[float]) -> Slope:
    """The slope of `y` over `x`, which grows; two samples at least.

    >>> print(theil_sen([0, 1, 2, 3, 4], [1, 3, 5, 70, 9]))
    +2.00 [-61.00, +65.00]
    """
    at, values = np.asarray(x, np.float64), np.asarray(y, np.float64)
    i, j = np.triu_indices(len(at), 1)
    slopes = np.sort((values[j] - values[i]) / (at[j] - at[i]))
    n, n_pairs = len(at), len(slopes)
    spread = _Z * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(0, int((n_pairs - spread) / 2))
    high = min(n_pairs - 1, math.ceil((n_pairs + spread) / 2))
    return Slope(float(slopes[low]), float(np.median(slopes)), float(slopes[high]))

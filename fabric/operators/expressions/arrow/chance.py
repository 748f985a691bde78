"""Random numbers, and how often an event happens that is expected a number of times.

One job: random, poisson.
"""

from __future__ import annotations

import math
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    as_array,
)
from fabric.operators.expressions.arrow.buffers import from_numpy, to_numpy

_EXPECTED_MAX = float(1 << 30)


def _random(_: Request) -> Bound:
    def drawn(values: Datum, _: Datum) -> pa.Array:
        return pa.array(np.random.default_rng().random(len(values)))

    return Bound(drawn, order="all", array=0)


def poisson(quantiles: Datum, expected: Datum) -> pa.Array:
    """The number of events as int32, for each quantile and the number that is expected.

    >>> poisson(pa.array([0.0, 0.5, 0.999, None]), pa.scalar(1.0)).to_pylist()
    [0, 1, 5, None]
    """
    n_rows = next(len(value) for value in (quantiles, expected) if isinstance(value, pa.Array))
    arrays = [as_array(value, n_rows) for value in (quantiles, expected)]
    valid = pc.and_(pc.is_valid(arrays[0]), pc.is_valid(arrays[1]))
    at, means = (to_numpy(pc.fill_null(array, 0)) for array in arrays)
    good = (at >= 0) & (at < 1) & (means >= 0) & (means < _EXPECTED_MAX)
    counts = np.zeros(n_rows, np.int32)
    for mean in np.unique(means[good]):
        rows = good & (means == mean)
        first, cumulative = _cumulative(float(mean))
        counts[rows] = first + np.searchsorted(cumulative, at[rows], side="right")
    return from_numpy(counts, pa.int32(), pc.and_(valid, pa.array(good)))


def _cumulative(mean: float) -> tuple[int, NDArray[np.float64]]:
    """The first number of events that is possible, and the probabilities of at most so many.

    What lies more than twelve deviations away is less likely than a float64 can say.
    """
    if mean == 0:
        return 0, np.ones(1)
    width = 12 * math.sqrt(mean) + 30
    numbers = range(max(0, int(mean - width)), int(mean + width))
    likely = (math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in numbers)
    return numbers[0], np.fromiter(accumulate(likely), np.float64)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "random": _random,
    "poisson": lambda _: Bound(poisson, order="all"),
}

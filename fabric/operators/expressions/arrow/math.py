"""Functions of numbers: of float64, factorial and width_bucket, bits of integers, and chance.

What `fabric.plan.functions` lists under `math` and `bitwise` and Arrow has not by name, with Java's
answers where C's differ: null where a logarithm is asked of 0 or less, NaN for 1 to the power of
NaN, +0.0 and -0.0 alike in atan2, and integers of Java's widths for bits. Nothing raises. `random`
draws numbers, and `poisson` says how often an event happens that is expected a number of times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Kernel,
    Request,
    Values,
    arrays,
    from_numpy,
    numeric,
    numeric_kernel,
    simple,
    to_numpy,
)

_NULL = pa.scalar(None, pa.float64())
_FACTORIALS = pa.array([math.factorial(n) for n in range(21)], pa.int64())
_INT64_MAX = (1 << 63) - 1
_UNSIGNED = {pa.int32(): np.uint32, pa.int64(): np.uint64}
_EXPECTED_MAX = float(1 << 30)


def _above(limit: float, kernel: Kernel) -> Implementation:
    """Null where the argument is not above `limit`; of NaN the kernel's answer."""

    def logarithm(value: Datum) -> Datum:
        return kernel(pc.if_else(pc.less_equal(value, limit), _NULL, value))

    return simple(logarithm)


def _by_numpy(compute: Callable[..., Values]) -> Implementation:
    """A function of float64 arrays; null where an argument is."""

    def quiet(*numbers: Values) -> Values:
        with np.errstate(all="ignore"):
            return compute(*numbers)

    return simple(numeric_kernel(quiet, pa.float64()))


def _sign(value: Values) -> Values:
    """-0.0 keeps its sign, NaN is NaN."""
    signs: Values = np.where(value == 0, value, np.sign(value))
    return signs


def _power(base: Values, exponent: Values) -> Values:
    """Java's: NaN where the exponent is NaN, or infinite beside 1 or -1."""
    unknown = np.isnan(exponent) | (np.isinf(exponent) & (np.abs(base) == 1))
    powers: Values = np.where(unknown, np.nan, np.power(base, exponent))
    return powers


def _log(base: Datum, value: Datum) -> Datum:
    """The quotient of two logarithms; to base 1 it is infinite or NaN."""
    both = (pc.if_else(pc.less_equal(x, 0.0), _NULL, x) for x in (base, value))
    below, above = (pc.ln(x) for x in both)
    return pc.divide(above, below)


def _factorial(value: Datum) -> Datum:
    fits = pc.and_(pc.greater_equal(value, 0), pc.less_equal(value, 20))
    return pc.take(_FACTORIALS, pc.if_else(fits, value, pa.scalar(None, pa.int32())))


def _width_bucket(value: Datum, low: Datum, high: Datum, n_buckets: Datum) -> pa.Array:
    columns = arrays(value, low, high, n_buckets)
    valid = reduce(pc.and_, map(pc.is_valid, columns))
    v, a, b, n = (to_numpy(pc.fill_null(column, 1)) for column in columns)
    good = (n > 0) & (n < _INT64_MAX) & ~np.isnan(v) & (a != b) & np.isfinite(a) & np.isfinite(b)
    with np.errstate(all="ignore"):
        inside = n * (v - a) / (b - a)
        upwards = a < b
        before = np.where(upwards, v < a, v > a)
        after = np.where(upwards, v >= b, v <= b)
        middle = np.where(before | after | ~good, 0.0, inside)
        bucket = np.where(before, 0, np.where(after, n, middle.astype(np.int64)) + 1)
    return from_numpy(bucket, pa.int64(), pc.and_(valid, pa.array(good)))


def _shift(request: Request) -> Bound:
    """By the lower 5 bits of the distance for int32 and 6 for int64: no shift is too far."""
    dtype = request.result

    def compute(bits: Values, distance: Values) -> Values:
        if request.name == "shift_right_unsigned":
            bits = bits.view(_UNSIGNED[dtype])
        places = (distance & (dtype.bit_width - 1)).astype(bits.dtype)
        shifted: Values = bits << places if request.name == "shift_left" else bits >> places
        return shifted

    return Bound(numeric_kernel(compute, dtype))


def _bit_count(numbers: Values) -> Values:
    bits = np.unpackbits(numbers.view(np.uint8).reshape(-1, 8), axis=1)
    counts: Values = bits.sum(axis=1)
    return counts


def _random(values: Datum, _: Datum) -> pa.Array:
    return pa.array(np.random.default_rng().random(len(values)))


def poisson(quantiles: Datum, expected: Datum) -> pa.Array:
    """The number of events as int32, for each quantile and the number that is expected.

    >>> poisson(pa.array([0.0, 0.5, 0.999, None]), pa.scalar(1.0)).to_pylist()
    [0, 1, 5, None]
    """
    columns = arrays(quantiles, expected)
    valid = pc.and_(*map(pc.is_valid, columns))
    at, means = (to_numpy(pc.fill_null(column, 0)) for column in columns)
    good = (at >= 0) & (at < 1) & (means >= 0) & (means < _EXPECTED_MAX)
    counts = np.zeros(len(at), np.int32)
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
    "cbrt": _by_numpy(np.cbrt),
    "ln": _above(0.0, pc.ln),
    "log10": _above(0.0, pc.log10),
    "log2": _above(0.0, pc.log2),
    "log1p": _above(-1.0, pc.log1p),
    "sign": _by_numpy(_sign),
    "cot": _by_numpy(lambda value: 1.0 / np.tan(value)),
    "degrees": _by_numpy(np.degrees),
    "radians": _by_numpy(np.radians),
    "power": _by_numpy(_power),
    "log": simple(_log),
    "atan2": _by_numpy(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),
    "hypot": _by_numpy(np.hypot),
    "factorial": simple(_factorial),
    "width_bucket": simple(_width_bucket),
    **dict.fromkeys(("shift_left", "shift_right", "shift_right_unsigned"), _shift),
    "bit_count": numeric(_bit_count, array=0),
    "random": simple(_random, order="all", array=0),
    "poisson": simple(poisson, order="all"),
}

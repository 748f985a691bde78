"""Functions of numbers as float64, factorial and width_bucket; nothing raises.

One job: what `fabric.plan.functions.math` lists and Arrow has not by name, with Java's answers
where C's differ: null where a logarithm is asked of 0 or less, NaN for 1 to the power of NaN, +0.0
and -0.0 alike in atan2.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Kernel,
    as_array,
)
from fabric.operators.expressions.arrow.buffers import Values, from_numpy, to_numpy

_NULL = pa.scalar(None, pa.float64())
_FACTORIALS = pa.array([math.factorial(n) for n in range(21)], pa.int64())
_INT64_MAX = (1 << 63) - 1


def _simple(kernel: Kernel) -> Implementation:
    return lambda _: Bound(kernel)


def _above(limit: float, kernel: Kernel) -> Implementation:
    """Null where the argument is not above `limit`; of NaN the kernel's answer."""

    def logarithm(value: Datum) -> Datum:
        return kernel(pc.if_else(pc.less_equal(value, limit), _NULL, value))

    return _simple(logarithm)


def _by_numpy(compute: Callable[..., Values]) -> Implementation:
    """A function of float64 arrays; null where an argument is."""

    def kernel(*operands: Datum) -> pa.Array:
        n_rows = next(len(value) for value in operands if isinstance(value, pa.Array))
        arrays = [as_array(value, n_rows) for value in operands]
        valid = pc.is_valid(arrays[0])
        for array in arrays[1:]:
            valid = pc.and_(valid, pc.is_valid(array))
        with np.errstate(all="ignore"):
            values = compute(*(to_numpy(pc.fill_null(array, 1)) for array in arrays))
        return from_numpy(values, pa.float64(), valid)

    return _simple(kernel)


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
    operands = (value, low, high, n_buckets)
    n_rows = next(len(operand) for operand in operands if isinstance(operand, pa.Array))
    arrays = [as_array(operand, n_rows) for operand in operands]
    valid = pc.is_valid(arrays[0])
    for array in arrays[1:]:
        valid = pc.and_(valid, pc.is_valid(array))
    v, a, b, n = (to_numpy(pc.fill_null(array, 1)) for array in arrays)
    good = (n > 0) & (n < _INT64_MAX) & ~np.isnan(v) & (a != b) & np.isfinite(a) & np.isfinite(b)
    with np.errstate(all="ignore"):
        inside = n * (v - a) / (b - a)
        upwards = a < b
        before = np.where(upwards, v < a, v > a)
        after = np.where(upwards, v >= b, v <= b)
        middle = np.where(before | after | ~good, 0.0, inside)
        bucket = np.where(before, 0, np.where(after, n, middle.astype(np.int64)) + 1)
    return from_numpy(bucket, pa.int64(), pc.and_(valid, pa.array(good)))


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
    "log": _simple(_log),
    "atan2": _by_numpy(lambda y, x: np.arctan2(y + 0.0, x + 0.0)),
    "hypot": _by_numpy(np.hypot),
    "factorial": _simple(_factorial),
    "width_bucket": _simple(_width_bucket),
}

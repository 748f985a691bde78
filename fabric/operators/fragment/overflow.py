"""Sums that wrapped, found by a float sum beside them.

One job: `checked_sum`. DataFusion's int64 and decimal sums wrap silently. An exact sum and a float
sum of the same values are close, unless the exact one wrapped: then they are 2^64 (or 2^128) apart.
"""

from __future__ import annotations

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.buffers import from_numpy

DECIMAL_SAFE_DIGITS = 28
"""A decimal sum of fewer digits can't pass 38 digits in less than 10^10 rows."""

_INT_SLACK = float(1 << 62)


def about(values: pa.Array) -> pa.Array:
    """Decimals as floats, each wrong by less than 2^64 of its last digits: its upper half.

    >>> from decimal import Decimal
    >>> about(pa.array([Decimal(10) ** 30, None, Decimal(-1)], pa.decimal128(38, 0))).to_pylist()
    [9.99999999994923e+29, None, -1.8446744073709552e+19]
    """
    data = values.buffers()[1]
    words = np.frombuffer(data, np.int64) if data is not None else np.empty(0, np.int64)
    high = words[2 * values.offset + 1 : 2 * (values.offset + len(values)) : 2]
    found = high * (2.0**64 / 10.0**values.type.scale)
    floats = from_numpy(found, pa.float64())
    return pc.if_else(values.is_valid(), floats, None) if values.null_count else floats


def checked_sum(dtype: pa.DataType, name: str) -> datafusion.ScalarUDF:
    """A function (sum, float sum) that returns the sum, or raises when it has wrapped."""
    slack, limit = _INT_SLACK, float(1 << 63)
    if t.is_decimal(dtype):
        limit = 10.0 ** (dtype.precision - dtype.scale)
        slack = limit / 2

    def check(total: pa.Array, near: pa.Array) -> pa.Array:
        apart = pc.abs(pc.subtract(total.cast(pa.float64(), safe=False), near))
        wrapped = pc.or_(pc.greater(apart, slack), pc.greater(pc.abs(near), limit * 1.0001))
        if pc.any(wrapped).as_py():
            raise ExpressionError(
                f"the sum {name!r} does not fit in {dtype}; sum a cast to a wider decimal"
            )
        return total

    return datafusion.udf(check, [dtype, pa.float64()], dtype, "volatile", "fabric_checked_sum")

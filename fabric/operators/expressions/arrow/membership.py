"""``IN`` a list of constants, with SQL's null rule and Fabric's equality of floats.

One job: `is_in`. No match is null, not false, when one of the constants is null.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import Datum, Kernel


def is_in(values: Sequence[pa.Scalar], dtype: pa.DataType) -> Kernel:
    """The kernel for constants of the type of the input."""
    known = pa.array([value for value in values if value.is_valid], dtype)
    has_null = len(known) < len(values)
    if t.is_floating(dtype):
        known = one_zero(known)

    def kernel(value: Datum) -> Datum:
        wanted = one_zero(value) if t.is_floating(dtype) else value
        found = pc.is_in(wanted, value_set=known)
        sure = pc.is_valid(value)
        if has_null:
            sure = pc.and_(sure, found)
        return pc.if_else(sure, found, pa.scalar(None, pa.bool_()))

    return kernel


def one_zero(value: Datum) -> Datum:
    """-0.0 as 0.0 and every NaN as the one positive NaN, so that equal floats have equal bits."""
    value = pc.add(value, pa.scalar(0.0, value.type))
    return pc.if_else(pc.is_nan(value), pa.scalar(float("nan"), value.type), value)

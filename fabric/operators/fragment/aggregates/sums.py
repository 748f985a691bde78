"""Sums and means, with Spark's result types and overflow.

One job: their forms. DataFusion's int64 and decimal sums wrap silently, so an int64 or wide decimal
sum has a float64 sum beside it: both are close, unless the exact one wrapped; then they are 2^64
(or 2^128) apart. Where no sum can be so large, it is left out (`sum_bounds.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import datafusion
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datafusion import functions as f
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import from_numpy
from fabric.operators.fragment.aggregates.parts import F64, I64, Bound, Form, Found, Part, function
from fabric.operators.fragment.sum_bounds import Fit
from fabric.plan.expr import Call, Case, Cast, Column, Literal
from fabric.plan.types import numeric


def _near(value: datafusion.Expr, dtype: pa.DataType) -> datafusion.Expr:
    """About a decimal as a float, for a tenth of what a cast costs."""
    return function(about, [dtype], F64, value.cast(dtype))


def _number(dtype: pa.DataType) -> pa.DataType:
    """The type a value is added up in; the plan's check let only numbers through."""
    number = F64 if t.is_null(dtype) else numeric(dtype)
    assert number is not None
    return number


def _sum(bound: Bound) -> list[Part]:
    dtype = bound.type()
    number = _number(dtype)
    if t.is_decimal(number):
        parts = [bound.part("sum", f.sum, dtype=number)]
        if number.precision > DECIMAL_SAFE_DIGITS and bound.fit is not Fit.SUMS:
            parts.append(bound.part("near", f.sum, dtype=F64, value=_near(bound.value(), number)))
        return parts
    parts = [bound.part("sum", f.sum, dtype=I64 if t.is_integer(number) else F64)]
    if dtype.equals(I64) and bound.fit is not Fit.SUMS:
        parts.append(bound.part("sum_f64", f.sum, dtype=F64))
    return parts


def _merged_sum(bound: Bound) -> list[Part]:
    parts = [bound.merging("sum", f.sum)]
    if "sum_f64" in bound.states:
        parts.append(bound.merging("sum_f64", f.sum))
    dtype = parts[0].dtype
    if t.is_decimal(dtype) and dtype.precision > DECIMAL_SAFE_DIGITS:
        parts.append(Part("near", _near(parts[0].value, dtype), F64, f.sum, parts[0].same))
    return parts


def _sum_of(bound: Bound, found: Found) -> datafusion.Expr:
    """The sum, checked where it may have wrapped."""
    other = next((kind for kind in ("sum_f64", "near") if kind in found), None)
    if other is None:
        return found["sum"]
    return checked_sum(found.type("sum"), bound.name)(found["sum"], found[other])


def _sum_states(bound: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    if "sum_f64" in found:  # checked once, at the end
        return {"sum": found["sum"], "sum_f64": found["sum_f64"]}
    if bound.type().equals(I64):
        return {"sum": found["sum"], "sum_f64": found["sum"].cast(F64)}
    return {"sum": _sum_of(bound, found)}


def _mean(bound: Bound) -> list[Part]:
    count = bound.part("count", f.count)
    if t.is_decimal(_number(bound.type())):
        return [count, *_sum(bound)]
    return [count, bound.part("sum", f.sum, dtype=F64)]


def _merged_mean(bound: Bound) -> list[Part]:
    return [bound.merging("count", f.sum), *_merged_sum(bound)]


def _mean_states(bound: Bound, found: Found) -> Mapping[str, datafusion.Expr]:
    return {"sum": _sum_of(bound, found), "count": found["count"]}


def _mean_of(bound: Bound, found: Found) -> datafusion.Expr:
    if not t.is_decimal(bound.dtype):
        return found["sum"] / f.nullif(found["count"], datafusion.lit(0)).cast(F64)
    n, dtype = Column(found.names["count"]), bound.dtype
    some = Call("gt", (n, Literal(0, I64)))
    mean = Call("divide", (Column(found.names["sum"]), Cast(n, pa.decimal128(20, 0))))
    return found.relation.expr(Case(((some, Cast(mean, dtype)),), Literal(None, dtype)))


FORMS = {
    "sum": Form(_sum, _sum_of, _merged_sum, _sum_states),
    "mean": Form(_mean, _mean_of, _merged_mean, _mean_states),
}


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

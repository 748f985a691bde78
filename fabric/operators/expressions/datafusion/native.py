"""The native DataFusion form of a function, where it means what Spark means.

One job: `NATIVE`, from a function's name and operand types to a builder, or None where DataFusion
differs. Nothing here can raise on a value, but for a decimal product of more than 38 digits:
DataFusion computes in 128 bits, which hold some numbers of 39 digits; there Spark's answer is an
overflow (`fits`, about 0.3 ns a value).

Comparison of floats: DataFusion has -0.0 = 0.0 and NaN = NaN, but a NaN with its sign bit set
(which x86 makes of inf - inf) is its smallest value; `nanvl` makes every NaN the positive one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import count

import datafusion
import numpy as np
import pyarrow as pa
from datafusion import functions as f
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.plan.types import MAX_PRECISION, adjusted, as_decimal, product_digits, sum_digits

_HIGH_MAX = 10**38 >> 64
_NUMBERS = count()


Build = Callable[..., datafusion.Expr]
Choose = Callable[[Sequence[pa.DataType]], Build | None]


def literal(value: pa.Scalar) -> datafusion.Expr:
    """A constant of exactly the scalar's type."""
    if t.is_nested(value.type) and not value.is_valid:  # DataFusion's own way fails on these
        return datafusion.Expr.literal(pa.scalar(None)).cast(value.type)
    return datafusion.Expr.literal(value)


def one_nan(value: datafusion.Expr, dtype: pa.DataType) -> datafusion.Expr:
    """Every NaN as the positive one, so that it is the largest value."""
    return f.nanvl(value, literal(pa.scalar(float("nan"), dtype)))


def _compare(build: Build) -> Choose:
    def choose(operands: Sequence[pa.DataType]) -> Build | None:
        dtype = operands[0]
        if t.is_floating(dtype):
            return lambda left, right: build(one_nan(left, dtype), one_nan(right, dtype))
        return build if is_plain(dtype) else None

    return choose


def is_plain(dtype: pa.DataType) -> bool:
    """Types that DataFusion compares as Spark does."""
    return bool(
        t.is_integer(dtype) or t.is_boolean(dtype) or t.is_string(dtype) or t.is_large_string(dtype)
        or t.is_binary(dtype) or t.is_large_binary(dtype) or t.is_date32(dtype)
        or t.is_timestamp(dtype) or t.is_decimal128(dtype)
    )  # fmt: skip


def _floats(build: Build) -> Choose:
    return lambda operands: build if t.is_floating(operands[0]) else None


def _numbers(build: Build, digits: Callable[[pa.DataType, pa.DataType], int]) -> Choose:
    """Floats, and decimals whose result has room for every value: there the types agree too."""

    def choose(operands: Sequence[pa.DataType]) -> Build | None:
        if all(map(t.is_decimal128, operands)):
            return build if digits(*operands) <= MAX_PRECISION else None
        return build if t.is_floating(operands[0]) else None

    return choose


def _multiply(operands: Sequence[pa.DataType]) -> Build | None:
    """As `_numbers`; a longer product is checked, if Spark keeps all its fraction digits too."""
    plain = _numbers(operator.mul, product_digits)(operands)
    if plain is not None or not all(map(t.is_decimal128, operands)):
        return plain
    a, b = operands
    result = adjusted(product_digits(a, b), a.scale + b.scale)
    if result.scale < a.scale + b.scale:
        return None
    return lambda left, right: fits(left * right, result)


def _strings(build: Build) -> Choose:
    return lambda operands: build if all(map(t.is_string, operands)) else None


def _always(build: Build) -> Choose:
    return lambda _: build


def _is_nan(value: datafusion.Expr) -> datafusion.Expr:
    return f.coalesce(f.isnan(value), literal(pa.scalar(False)))


NATIVE: dict[str, Choose] = {
    "eq": _compare(operator.eq),
    "ne": _compare(operator.ne),
    "lt": _compare(operator.lt),
    "le": _compare(operator.le),
    "gt": _compare(operator.gt),
    "ge": _compare(operator.ge),
    "add": _numbers(operator.add, sum_digits),
    "subtract": _numbers(operator.sub, sum_digits),
    "multiply": _multiply,
    "abs": _floats(f.abs),
    "and": _always(operator.and_),
    "or": _always(operator.or_),
    "not": _always(operator.invert),
    "is_null": _always(lambda value: value.is_null()),
    "is_not_null": _always(lambda value: value.is_not_null()),
    "is_nan": _floats(_is_nan),
    "coalesce": _always(f.coalesce),
    "as_time_of": _always(lambda value, _: value),
    "contains": _strings(f.contains),
    "starts_with": _strings(f.starts_with),
    "ends_with": _strings(f.ends_with),
}


def casts_natively(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether DataFusion's cast never fails and agrees: numbers widened, or to floats."""
    if t.is_null(source):
        return True
    if t.is_integer(source) and t.is_signed_integer(target):
        needed = source.bit_width + (not t.is_signed_integer(source))
        return bool(needed <= target.bit_width)
    if t.is_floating(target):
        return bool(t.is_integer(source) or t.is_floating(source))
    if t.is_decimal128(target) and (t.is_signed_integer(source) or t.is_decimal128(source)):
        whole = as_decimal(source)
        room = target.precision - target.scale >= whole.precision - whole.scale
        return bool(room and target.scale >= whole.scale)
    return bool(t.is_string(source) and t.is_large_string(target))


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

"""Which expressions can't raise, and which differ from call to call: the one place that knows.

One job: `total` and `volatile` for expressions and `total_cast` for pairs of types; for functions
the registry says it (`Function.total`, `Function.volatile`). The optimizer moves total expressions
past what takes rows away, engines evaluate them on any row. On the safe side: what is not known can
raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
from pyarrow import types as t

from fabric.plan.expr import Alias, Call, Case, Cast, Column, Expr, IsIn, Literal
from fabric.plan.functions import FUNCTIONS
from fabric.plan.types import (
    common_of,
    flat_type,
    is_binary,
    is_boolean,
    is_date,
    is_list,
    is_nested,
    is_string,
    is_struct,
    is_timestamp,
)
from fabric.plan.walk import fold, walk_expr

_UNITS = ("s", "ms", "us", "ns")


class _Known(NamedTuple):
    dtype: pa.DataType
    total: bool


def total(expr: Expr, schema: pa.Schema) -> bool:
    """Whether `expr`, which was checked, has a value or null for every row of `schema`.

    >>> x = Column("x")
    >>> schema = pa.schema([("x", pa.int64())])
    >>> total(Call("gt", (x, x)), schema), total(Call("divide", (x, x)), schema)
    (True, False)
    """
    return fold(expr, lambda part, below: _known(part, below, schema)).total


def volatile(expr: Expr) -> bool:
    """Whether `expr` may have another value for the same row the next time."""
    return any(isinstance(e, Call) and FUNCTIONS[e.function].volatile for e in walk_expr(expr))


def _known(part: Expr, below: tuple[_Known, ...], schema: pa.Schema) -> _Known:
    """The type of one part and whether it can't raise."""
    fine = all(child.total for child in below)
    match part:
        case Column(name=name):
            return _Known(schema.field(name).type, True)
        case Literal(dtype=dtype):
            return _Known(dtype, True)
        case Alias():
            return below[0]
        case Call():
            return _call(part, below, fine)
        case Case():
            values = [*(each.dtype for each in below[1:-1:2]), below[-1].dtype]
            dtype = common_of(values)
            assert dtype is not None, "a case was not checked"
            return _Known(dtype, fine and _all_cast(values, [dtype] * len(values)))
        case Cast(dtype=dtype, try_=try_):
            return _Known(dtype, fine and (try_ or total_cast(below[0].dtype, dtype)))
        case IsIn(values=values):
            types = [below[0].dtype, *(value.dtype for value in values)]
            dtype = common_of(types)
            same = dtype is not None and _all_cast(types, [dtype] * len(types))
            return _Known(pa.bool_(), fine and same)
        case _:
            return _Known(pa.null(), False)


def _call(call: Call, below: tuple[_Known, ...], fine: bool) -> _Known:
    function = FUNCTIONS[call.function]
    types = [child.dtype for child in below]
    literals = [arg if isinstance(arg, Literal) else None for arg in call.args]
    made = function.signature(types, literals)
    fine = fine and _all_cast(types, made.args) and function.is_total(made.args, literals)
    return _Known(made.result, fine)


def _all_cast(sources: Sequence[pa.DataType], targets: Sequence[pa.DataType]) -> bool:
    return all(map(total_cast, sources, targets))


def total_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether every value of `source` can be cast to `target`, if perhaps with a loss of digits.

    >>> total_cast(pa.int32(), pa.int64()), total_cast(pa.int64(), pa.int32())
    (True, False)
    """
    if source.equals(target):
        return True
    sized = t.is_fixed_size_binary(target) or t.is_fixed_size_list(target)
    if sized and not source.equals(target):
        return False
    source, target = flat_type(source), flat_type(target)
    if source.equals(target) or t.is_null(source):
        return True
    if is_list(source) and is_list(target):
        return total_cast(source.value_type, target.value_type)
    if is_struct(source) and is_struct(target):
        return all(total_cast(a.type, b.type) for a, b in zip(source, target, strict=True))
    if is_nested(source) or is_nested(target):
        return False
    if is_string(target):
        return True
    if is_string(source) or is_binary(source):
        return is_binary(target)
    if is_date(source) or is_date(target):
        return is_date(target)
    if is_timestamp(source):
        return _from_timestamp(source, target)
    if is_timestamp(target):
        return not t.is_floating(source) and target.unit != "ns"
    return _total_number(source, target)


def _from_timestamp(source: pa.DataType, target: pa.DataType) -> bool:
    """To a coarser unit, or to seconds since 1970."""
    if is_timestamp(target):
        return _UNITS.index(source.unit) >= _UNITS.index(target.unit)
    if t.is_decimal(target):
        digits = 3 * _UNITS.index(source.unit)
        return _decimal_fits(19 + (digits == 0), digits, target)
    return _total_number(pa.int64(), target)


def _total_number(source: pa.DataType, target: pa.DataType) -> bool:
    if is_boolean(target):
        return True
    if is_boolean(source):
        source = pa.int8()
        if t.is_integer(target):
            return True
    if t.is_floating(target):
        return True
    if t.is_decimal(target):
        if t.is_decimal(source):
            return _decimal_fits(source.precision, source.scale, target)
        return t.is_integer(source) and _decimal_fits(_n_digits(source), 0, target)
    if t.is_integer(source) and t.is_integer(target):
        signed = t.is_signed_integer(source), t.is_signed_integer(target)
        wider = target.bit_width > source.bit_width
        return bool(source.equals(target) or (wider and (signed[1] or not signed[0])))
    return False


def _decimal_fits(precision: int, scale: int, target: pa.DataType) -> bool:
    """Rounding to fewer fraction digits may need one digit more before the point."""
    needed = precision - scale + (scale > target.scale)
    return bool(needed <= target.precision - target.scale)


def _n_digits(dtype: pa.DataType) -> int:
    """Of the largest value of an integer type."""
    return len(str((1 << (dtype.bit_width - t.is_signed_integer(dtype))) - 1))

"""Comparisons, extremes and null tests: NaN equals NaN and is the largest, -0.0 equals 0.0.

eq ne lt le gt ge eq_null_safe is_nan greatest least, and `is_in` a list of constants, where no
match is null, not false, when one of the constants is. Arrow compares floats by IEEE rules, where
NaN is unequal to all; the rows with a NaN are mended when there are any. Of equal extremes the
first one is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Kernel,
    Request,
    arrays,
    simple,
)
from fabric.operators.expressions.arrow.lists.codes import canonical, order_of

_ARROW: dict[str, Kernel] = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}

_WITH_NAN: dict[str, Callable[[Datum, Datum], Datum]] = {
    "eq": pc.and_,
    "ne": pc.xor,
    "lt": lambda left, right: pc.and_(pc.invert(left), right),
    "le": lambda _, right: right,
    "gt": lambda left, right: pc.and_(left, pc.invert(right)),
    "ge": lambda left, _: left,
}
"""The answer from ``is_nan(left), is_nan(right)`` on rows where one of them is true."""


def _comparison(request: Request) -> Bound:
    return Bound(compare(request.name, request.operands[0]))


def compare(name: str, dtype: pa.DataType) -> Kernel:
    """The kernel of one of the six comparisons of two values of `dtype`."""
    if t.is_null(dtype):
        return _unknown
    if t.is_nested(dtype):
        return _nested(name)
    return _nan_aware(name) if t.is_floating(dtype) else _ARROW[name]


def _nested(name: str) -> Kernel:
    """Of lists and structs: the order of each pair beside 0."""

    def kernel(left: Datum, right: Datum) -> Datum:
        a, b = arrays(left, right)
        answer = _ARROW[name](pa.array(order_of(a, b)), pa.scalar(0, pa.int8()))
        valid = pc.and_(pc.is_valid(a), pc.is_valid(b))
        return pc.if_else(valid, answer, pa.scalar(None, pa.bool_()))

    return kernel


def _unknown(left: Datum, right: Datum) -> Datum:
    """Comparing nothing with nothing."""
    return pa.nulls(max(len(v) for v in (left, right) if isinstance(v, pa.Array)), pa.bool_())


def _null_safe(request: Request) -> Bound:
    """Equality where null equals null; never null."""
    equal = compare("eq", request.operands[0])

    def kernel(left: Datum, right: Datum) -> Datum:
        both_null = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(pc.fill_null(equal(left, right), False), both_null)

    return Bound(kernel, order="all")


def _nan_aware(name: str) -> Kernel:
    def kernel(left: Datum, right: Datum) -> Datum:
        answer = _ARROW[name](left, right)
        left_nan, right_nan = pc.is_nan(left), pc.is_nan(right)
        either = pc.or_(left_nan, right_nan)
        if not pc.any(either).as_py():
            return answer
        return pc.if_else(either, _WITH_NAN[name](left_nan, right_nan), answer)

    return kernel


def _is_nan(value: Datum) -> Datum:
    """False for null, as in Spark."""
    return pc.fill_null(pc.is_nan(value), False)


def _extreme(request: Request) -> Bound:
    dtype = request.result
    better = compare("gt" if request.name == "greatest" else "lt", dtype)

    def kernel(*values: Datum) -> Datum:
        n_rows = next(len(value) for value in values if isinstance(value, pa.Array))
        if t.is_null(dtype):
            return pa.nulls(n_rows)
        best = values[0] if isinstance(values[0], pa.Array) else pa.repeat(values[0], n_rows)
        for value in values[1:]:
            wins = pc.if_else(pc.is_null(best), True, pc.fill_null(better(value, best), False))
            best = pc.if_else(wins, value, best)
        return best

    return Bound(kernel, order="all")


def is_in(values: Sequence[pa.Scalar], dtype: pa.DataType) -> Kernel:
    """The kernel for constants of the type of the input."""
    known = canonical(pa.array([value for value in values if value.is_valid], dtype))
    has_null = len(known) < len(values)

    def kernel(value: Datum) -> Datum:
        found = pc.is_in(canonical(value), value_set=known)
        sure = pc.is_valid(value)
        if has_null:
            sure = pc.and_(sure, found)
        return pc.if_else(sure, found, pa.scalar(None, pa.bool_()))

    return kernel


IMPLEMENTATIONS: dict[str, Implementation] = {
    **dict.fromkeys(_ARROW, _comparison),
    "eq_null_safe": _null_safe,
    "is_nan": simple(_is_nan),
    "greatest": _extreme,
    "least": _extreme,
}

"""Arithmetic on integers and floats; an integer that does not fit is an error.

One job: add subtract multiply divide floor_divide modulo pmod negate abs. Decimals are in
`decimals.py`. Where a divisor is zero and neither side is null, division is an error, for
floats too.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import decimals, durations
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Kernel,
    Request,
    as_array,
)
from fabric.operators.expressions.arrow.buffers import from_numpy, to_numpy

_CHECKED: dict[str, Kernel] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "negate": pc.negate_checked,
    "abs": pc.abs_checked,
}
_FLOAT: dict[str, Kernel] = {
    "add": pc.add,
    "subtract": pc.subtract,
    "multiply": pc.multiply,
    "negate": pc.negate,
    "abs": pc.abs,
}


def _arithmetic(request: Request) -> Bound:
    """Add, subtract, multiply, negate, abs: operands and result are of one type."""
    if t.is_floating(request.result):
        return Bound(_FLOAT[request.name])
    return Bound(_CHECKED[request.name])


def _divide(_: Request) -> Bound:
    def kernel(left: Datum, right: Datum) -> Datum:
        refuse_zero(left, right)
        return pc.divide(left, right)

    return Bound(kernel, order="right")


def _floor_divide(_: Request) -> Bound:
    """Truncates; the smallest integer by -1 overflows."""

    def kernel(left: Datum, right: Datum) -> Datum:
        refuse_zero(left, right)
        return pc.divide_checked(left, _no_zero(right))

    return Bound(kernel, order="right")


def _modulo(request: Request) -> Bound:
    """The remainder with the sign of the dividend; numpy answers 0 for the smallest by -1.

    pmod adds the divisor to what is below 0, as Java does: it may wrap.
    """

    def kernel(left: Datum, right: Datum) -> Datum:
        refuse_zero(left, right)
        right = _no_zero(right)
        n_rows = next(len(v) for v in (left, right) if isinstance(v, pa.Array))
        both = as_array(left, n_rows), as_array(right, n_rows)
        a, b = (to_numpy(pc.fill_null(side, 1)) for side in both)
        with np.errstate(invalid="ignore", over="ignore"):
            values = np.fmod(a, b)
            if request.name == "pmod":
                values = np.where(values < 0, np.fmod(values + b, b), values)
        return from_numpy(values, request.result, valid=pc.and_(*map(pc.is_valid, both)))

    return Bound(kernel, order="right")


def refuse_zero(left: Datum, right: Datum) -> None:
    """Raise if a divisor is zero on a row where neither side is null."""
    zero = pc.equal(right, pa.scalar(0).cast(right.type))
    if pc.any(zero).as_py() and pc.any(pc.and_(zero, pc.is_valid(left))).as_py():
        raise ExpressionError("division by zero")


def _no_zero(right: Datum) -> Datum:
    """Zeros that are left stand beside a null; the kernels would still refuse them."""
    zero = pc.equal(right, pa.scalar(0).cast(right.type))
    if not pc.any(zero).as_py():
        return right
    return pc.if_else(zero, pa.scalar(None, right.type), right)


def _by_type(plain: Implementation) -> Implementation:
    """Decimals take another way."""

    def implementation(request: Request) -> Bound:
        if durations.is_of_times(request):
            return durations.arithmetic(request)
        if t.is_decimal(request.operands[0]):
            return decimals.arithmetic(request)
        return plain(request)

    return implementation


IMPLEMENTATIONS: dict[str, Implementation] = {
    **{name: _by_type(_arithmetic) for name in _CHECKED},
    "divide": _by_type(_divide),
    "floor_divide": _by_type(_floor_divide),
    "modulo": _by_type(_modulo),
    "pmod": _by_type(_modulo),
}

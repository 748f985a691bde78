"""Arithmetic on integers and floats; an integer that does not fit is an error.

One job: add subtract multiply divide floor_divide modulo pmod floor_quotient floor_remainder
exact_power negate abs. Decimals are in `decimals.py`, durations in `epochs.py`; texts are
joined. Where a divisor is zero and neither side is null, division is an error, for floats too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import decimals, epochs
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    Values,
    numeric_kernel,
    simple,
)
from fabric.operators.expressions.arrow.math import IMPLEMENTATIONS as FUNCTIONS_OF_FLOATS


def _arithmetic(request: Request) -> Bound:
    """Add, subtract, multiply, negate, abs: operands and result are of one type."""
    checked = "" if t.is_floating(request.result) else "_checked"
    return Bound(getattr(pc, request.name + checked))


def _divide(left: Datum, right: Datum) -> Datum:
    refuse_zero(left, right)
    return pc.divide(left, right)


def _floor_divide(left: Datum, right: Datum) -> Datum:
    """Truncates; the smallest integer by -1 overflows."""
    refuse_zero(left, right)
    return pc.divide_checked(left, _no_zero(right))


def _by_values(request: Request, compute: Callable[[Values, Values], Values]) -> Bound:
    """`compute` over the values of both sides where neither is null and no divisor is 0."""

    by_numpy = numeric_kernel(compute, request.result)

    def kernel(left: Datum, right: Datum) -> Datum:
        refuse_zero(left, right)
        with np.errstate(invalid="ignore", over="ignore"):
            return by_numpy(left, _no_zero(right))

    return Bound(kernel, order="right")


def _modulo(request: Request) -> Bound:
    """The remainder with the sign of the dividend; numpy answers 0 for the smallest by -1.

    pmod adds the divisor to what is below 0, as Java does: it may wrap.
    """

    def compute(a: Values, b: Values) -> Values:
        values: Values = np.fmod(a, b)
        if request.name == "pmod":
            values = np.where(values < 0, np.fmod(values + b, b), values)
        return values

    return _by_values(request, compute)


def _floored(request: Request) -> Bound:
    """``//`` and ``%`` of Python."""
    compute = _float_floored if t.is_floating(request.result) else _integer_floored
    return _by_values(request, partial(compute, is_quotient=request.name == "floor_quotient"))


def _integer_floored(a: Values, b: Values, is_quotient: bool) -> Values:
    if not is_quotient:
        rest: Values = np.remainder(a, b)
        return rest
    if np.any((b == -1) & (a == np.iinfo(a.dtype).min)):
        raise ExpressionError("overflow: the smallest integer divided by -1")
    quotient: Values = np.floor_divide(a, b)
    return quotient


def _float_floored(a: Values, b: Values, is_quotient: bool) -> Values:
    """Python's algorithm, step by step as on Spark, so that no bit differs."""
    rest = np.fmod(a, b)
    is_off = np.sign(rest) * np.sign(b) < 0
    if not is_quotient:
        return np.where(rest == 0, np.sign(b) * 0.0, np.where(is_off, rest + b, rest))
    quotient = np.rint((a - rest) / b - is_off)
    return np.where(quotient == 0, a / b * 0.0, quotient)


def _power(request: Request) -> Bound:
    """``**`` of Python; where the base is null, too, no exponent of integers may be below 0."""
    if t.is_floating(request.result):
        return FUNCTIONS_OF_FLOATS["power"](request)

    def kernel(base: Datum, exponent: Datum) -> Datum:
        below = pc.and_(pc.less(exponent, 0), pc.is_valid(base))
        if pc.any(below).as_py():
            raise ExpressionError(
                "an integer to a power below 0 is no integer; cast the base to float64"
            )
        return pc.power_checked(base, pc.max_element_wise(exponent, 0, skip_nulls=False))

    return Bound(kernel)


def _joined(_: Request) -> Bound:
    return Bound(lambda left, right: pc.binary_join_element_wise(left, right, ""))


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
        if epochs.is_of_times(request):
            return epochs.arithmetic(request)
        if t.is_decimal(request.operands[0]):
            return decimals.arithmetic(request)
        if t.is_string(request.result):
            return _joined(request)
        return plain(request)

    return implementation


IMPLEMENTATIONS: dict[str, Implementation] = {
    **dict.fromkeys(("add", "subtract", "multiply", "negate", "abs"), _by_type(_arithmetic)),
    "divide": _by_type(simple(_divide, order="right")),
    "floor_divide": _by_type(simple(_floor_divide, order="right")),
    "modulo": _by_type(_modulo),
    "pmod": _by_type(_modulo),
    "floor_quotient": _by_type(_floored),
    "floor_remainder": _by_type(_floored),
    "exact_power": _power,
}

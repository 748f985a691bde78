"""Rounding to decimal digits, half away from zero or half to even; floor and ceil to whole numbers.

One job: round bround floor ceil. A float is rounded by digits as its shortest decimal text says:
``round(2.675, 2)`` is 2.68 in Spark although the float lies below 2.675. Whole arrays are rounded
by one product, which is right unless the product lies within its own error of a half; only those
rows need the text.
"""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import decimals
from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    Values,
    all_null,
    from_numpy,
    to_numpy,
)
from fabric.operators.expressions.arrow.casts.numbers import limits


def _round(request: Request) -> Bound:
    digits = request.constant(1) if len(request.operands) == 2 else 0
    dtype = request.operands[0]
    if digits is None:
        return all_null(request)
    mode = decimals.TO_EVEN if request.name == "bround" else decimals.AWAY
    if t.is_decimal(dtype):
        return Bound(decimals.rounding(digits, request.result, mode), array=0)
    if t.is_floating(dtype):
        return Bound(lambda value, *_: _rounded_floats(value, digits, mode), array=0)
    if digits >= 0:
        return Bound(lambda value, *_: value)
    return Bound(lambda value, *_: _rounded_integers(value, -digits, mode), array=0)


def _rounded_integers(value: pa.Array, places: int, mode: str) -> pa.Array:
    """To tens, hundreds, ...; what does not fit is an overflow."""
    _, high = limits(value.type)
    step = 10**places
    if step // 2 > high:
        return pc.if_else(pc.is_valid(value), pa.scalar(0, value.type), value)
    wide = pa.decimal128(38, 0)
    rounded = pc.round(value.cast(wide), ndigits=-places, round_mode=mode)
    return rounded.cast(value.type)


def _rounded_floats(value: pa.Array, digits: int, mode: str) -> pa.Array:
    """Infinities and NaN stay; no -0.0 comes out."""
    source = to_numpy(pc.fill_null(value, 0.0)).astype(np.float64)
    finite = np.isfinite(source)
    whole, doubtful = scaled(np.where(finite, source, 0.0), digits)
    with np.errstate(over="ignore"):
        power = 10.0 ** abs(digits) if abs(digits) <= EXACT_POWER else 1.0
        result = whole / power if digits >= 0 else whole * power
    half = ROUND_HALF_EVEN if mode == decimals.TO_EVEN else ROUND_HALF_UP
    for row in np.flatnonzero(doubtful):
        result[row] = float(rounded_text(source[row], digits, half))
    result = np.where(finite, result + 0.0, source)
    return from_numpy(result, value.type, pc.is_valid(value) if value.null_count else None)


def _whole(name: str) -> Implementation:
    kernel = pc.floor if name == "floor" else pc.ceil

    def implementation(request: Request) -> Bound:
        dtype = request.operands[0]
        if t.is_decimal(dtype):
            return Bound(lambda value: kernel(decimals.wide(value)).cast(request.result))
        if t.is_integer(dtype):
            return Bound(lambda value: value.cast(pa.int64()))
        return Bound(lambda value: _to_int64(kernel(value)))

    return implementation


def _to_int64(whole: Datum) -> Datum:
    """NaN is 0, as Java's cast has it; what an int64 can't hold is an overflow."""
    whole = pc.if_else(pc.is_nan(whole), pa.scalar(0.0, whole.type), whole)
    bound = pa.scalar(2.0**63, whole.type)
    fits = pc.and_(pc.greater_equal(whole, pc.negate(bound)), pc.less(whole, bound))
    if pc.all(fits).as_py() is False:
        raise ExpressionError("overflow: a value does not fit int64")
    return whole.cast(pa.int64())


IMPLEMENTATIONS: dict[str, Implementation] = {
    "round": _round,
    "bround": _round,
    "floor": _whole("floor"),
    "ceil": _whole("ceil"),
}


EXACT_POWER = 22
"""10**22 is the largest power of ten that a float64 holds exactly."""
_CONTEXT = Context(prec=800)


def scaled(source: Values, digits: int) -> tuple[Values, Values]:
    """``source * 10**digits`` rounded half away from zero, and where that is in doubt.

    `source` is finite float64. In doubt are values so close to a half that the error of the
    product may decide, and products too large to have a fraction; the number there is any.

    >>> [part.tolist() for part in scaled(np.array([1.26, 2.675]), 1)]
    [[13.0, 27.0], [False, False]]
    """
    if abs(digits) > EXACT_POWER:
        return np.zeros_like(source), source != 0
    power = 10.0 ** abs(digits)
    with np.errstate(over="ignore"):
        product = np.abs(source * power if digits >= 0 else source / power)
    doubtful = product >= 2.0**50
    product = np.where(doubtful, 0.0, product)
    doubtful |= np.abs(product - np.floor(product) - 0.5) <= product * 2.0**-50
    return np.copysign(np.floor(product + 0.5), source), doubtful


def rounded_text(value: float, digits: int, half: str = ROUND_HALF_UP) -> Decimal:
    """One finite float rounded by its text.

    >>> rounded_text(2.675, 2), rounded_text(2.665, 2, "ROUND_HALF_EVEN")
    (Decimal('2.68'), Decimal('2.66'))
    """
    exact = Decimal(repr(float(value)))
    if -int(exact.as_tuple().exponent) <= digits:
        return exact
    return exact.quantize(Decimal(1).scaleb(-digits), half, _CONTEXT)

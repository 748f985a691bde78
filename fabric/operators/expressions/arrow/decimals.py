"""Decimal arithmetic by Spark's rules: exact, then rounded half up to the result's scale.

One job: the decimal half of `arithmetic.py` and `digits.py`. Sums and products are computed in
decimal256 where they fit its 76 digits, the rest in Python's `decimal`. A result that needs more
than its precision is an overflow.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Bound, Datum, Kernel, Request, by_row

CONTEXT = Context(prec=200, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_NEGATED = Context(prec=34, rounding=decimal.ROUND_HALF_EVEN)
AWAY, TO_EVEN = "half_towards_infinity", "half_to_even"
"""How Arrow calls the two ways to round what lies in the middle."""
DIGITS_MAX = 76
"""Of a decimal256."""
_DIVISION_SCALE = 38
"""Spark divides to 38 fraction digits, and rounds that again to the result's scale."""


def arithmetic(request: Request) -> Bound:
    """The kernel of an arithmetic function whose operands are decimals."""
    result = request.result
    if request.name in ("negate", "abs"):
        return _sign(request.name, result)
    if request.name not in _PYTHON:
        return Bound(_divisions(request.name, result), order="right")
    return Bound(_exact(request))


def _sign(name: str, result: pa.DataType) -> Bound:
    """negate and abs; of more than 34 digits Spark keeps 34 when it negates, and so do we."""
    if result.precision <= _NEGATED.prec:
        return Bound(pc.negate if name == "negate" else pc.abs)

    def signed(number: Decimal) -> Decimal:
        return _NEGATED.minus(number) if name == "negate" or number < 0 else number

    def kernel(value: pa.Array) -> pa.Array:
        return to_array([None if v is None else signed(v) for v in value.to_pylist()], result)

    return Bound(kernel, array=0)


def _exact(request: Request) -> Kernel:
    """Add, subtract, multiply: in decimal256 if no digit can be lost there."""
    left, right = request.operands
    kernel: Kernel
    if request.name == "multiply":
        digits, kernel = left.precision + right.precision + 1, pc.multiply
    else:
        scale = max(left.scale, right.scale)
        whole = max(left.precision - left.scale, right.precision - right.scale)
        digits, kernel = scale + whole + 1, pc.add if request.name == "add" else pc.subtract
    if digits <= request.result.precision:
        return kernel
    if digits > DIGITS_MAX:
        return _by_row(_PYTHON[request.name], request.result)

    def exact(a: Datum, b: Datum) -> Datum:
        both = (x.cast(pa.decimal256(x.type.precision, x.type.scale)) for x in (a, b))
        return fitted(kernel(*both), request.result)

    return exact


def wide(value: Datum) -> Datum:
    """The same numbers with room for 76 digits; Arrow rounds wrongly where there is none."""
    scale = 0 if t.is_integer(value.type) else value.type.scale
    return value.cast(pa.decimal256(DIGITS_MAX, scale))


_PYTHON: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "add": CONTEXT.add,
    "subtract": CONTEXT.subtract,
    "multiply": CONTEXT.multiply,
}


def fitted(value: Datum, result: pa.DataType) -> Datum:
    """Any decimals rounded half up to the scale of `result`; one too large raises."""
    if value.type.scale > result.scale:
        value = pc.round(wide(value), ndigits=result.scale, round_mode=AWAY)
    try:
        return value.cast(result)
    except pa.ArrowInvalid as error:
        raise ExpressionError(f"overflow: a value does not fit {result}") from error


def rounding(digits: int, result: pa.DataType, mode: str = AWAY) -> Kernel:
    """Round to `digits` after the point, or before it when negative."""

    def kernel(value: pa.Array, *_: Datum) -> pa.Array:
        if digits >= value.type.scale:
            return value.cast(result)
        if -digits > value.type.precision - value.type.scale:
            return pc.if_else(pc.is_valid(value), pa.scalar(Decimal(0), result), None)
        rounded = pc.round(wide(value), ndigits=digits, round_mode=mode)
        return rounded.cast(result)

    return kernel


def _divisions(name: str, result: pa.DataType) -> Kernel:
    compute = {
        "divide": _quotient,
        "floor_divide": _whole_quotient,
        "modulo": CONTEXT.remainder,
        "pmod": _positive_remainder,
        "floor_quotient": _floor_quotient,
        "floor_remainder": _floor_remainder,
    }
    return _by_row(_checked_divisor(compute[name]), result)


def _checked_divisor(compute: Callable[[Decimal, Decimal], object]) -> Callable[..., object]:
    def checked(a: Decimal, b: Decimal) -> object:
        if not b:
            raise ExpressionError("division by zero")
        return compute(a, b)

    return checked


def _quotient(a: Decimal, b: Decimal) -> Decimal:
    return half_up(CONTEXT.divide(a, b), _DIVISION_SCALE)


def _positive_remainder(a: Decimal, b: Decimal) -> Decimal:
    """Not below 0 unless the divisor is."""
    rest = CONTEXT.remainder(a, b)
    return CONTEXT.remainder(CONTEXT.add(rest, b), b) if rest < 0 else rest


def _whole_quotient(a: Decimal, b: Decimal) -> int:
    """The low 64 bits of the truncated quotient: Spark wraps here, even in ANSI mode."""
    return wrapped(int(CONTEXT.divide(a, b).to_integral_value(ROUND_DOWN)))


def _floor_quotient(a: Decimal, b: Decimal) -> int:
    """Floored, where Python's own ``//`` of decimals truncates."""
    quotient = _whole_quotient(a, b) - _is_off(CONTEXT.remainder(a, b), b)
    if quotient < -(1 << 63):
        raise ExpressionError("overflow: a quotient does not fit int64")
    return quotient


def _floor_remainder(a: Decimal, b: Decimal) -> Decimal:
    """With the sign of the divisor."""
    rest = CONTEXT.remainder(a, b)
    return CONTEXT.add(rest, b) if _is_off(rest, b) else rest


def _is_off(rest: Decimal, b: Decimal) -> bool:
    return rest != 0 and (rest < 0) != (b < 0)


def wrapped(number: int) -> int:
    """The low 64 bits of a number, as Java's ``longValue`` has it.

    >>> wrapped(1 << 63) == -(1 << 63)
    True
    """
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def half_up(value: Decimal, scale: int) -> Decimal:
    """Rounded half away from zero to `scale` fraction digits.

    >>> half_up(Decimal("-1.25"), 1)
    Decimal('-1.3')
    """
    return value.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, CONTEXT)


def _by_row(compute: Callable[[Decimal, Decimal], object], result: pa.DataType) -> Kernel:
    return by_row(compute, result, to_array if t.is_decimal(result) else pa.array)


def to_array(values: list[Decimal | None], result: pa.DataType) -> pa.Array:
    """Decimals rounded half up to the scale of `result`; one too large raises."""
    limit = Decimal(10) ** (result.precision - result.scale)
    rounded = [None if value is None else half_up(value, result.scale) for value in values]
    if any(value is not None and abs(value) >= limit for value in rounded):
        raise ExpressionError(f"overflow: a value does not fit {result}")
    return pa.array(rounded, result)

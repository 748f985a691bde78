"""The Arrow scalar of a constant, or a `ValueError` when its type can't hold the value.

One job: the one door from Python values to Arrow ones. pyarrow crashes the process on a decimal
with a huge negative exponent (seen with 25.0.1: ``Decimal("1E-999999999")``), so decimals are
looked at first.
"""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from fabric.plan.expr import Literal
from fabric.plan.types import plain

_DIGITS_MAX = 100


def scalar_of(literal: Literal) -> pa.Scalar:
    """`literal` as an Arrow scalar of its plain type.

    >>> scalar_of(Literal(1, pa.int8()))
    <pyarrow.Int8Scalar: 1>
    """
    value, dtype = literal.value, plain(literal.dtype)
    if isinstance(value, Decimal):
        check_decimal(value)
    try:
        return pa.scalar(value, dtype)
    except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"{str(value)[:80]!r} is no {literal.dtype}") from error


def check_decimal(value: Decimal) -> Decimal:
    """Return `value` when Arrow can look at it safely, else raise `ValueError`."""
    number = value.as_tuple()
    exponent = number.exponent
    if isinstance(exponent, str) or max(abs(exponent), len(number.digits)) > _DIGITS_MAX:
        raise ValueError(f"{str(value)[:80]!r} is no decimal of up to {_DIGITS_MAX} digits")
    return value

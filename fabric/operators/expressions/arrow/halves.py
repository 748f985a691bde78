"""Round floats by decimal digits, as their shortest decimal text says.

One job: `scaled` and `rounded_text`. ``round(2.675, 2)`` is 2.68 in Spark although the float lies
below 2.675, because its text is what is rounded. Whole arrays are rounded by one product, which is
right unless the product lies within its own error of a half; only those rows need the text.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import numpy as np

from fabric.operators.expressions.arrow.buffers import Values

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

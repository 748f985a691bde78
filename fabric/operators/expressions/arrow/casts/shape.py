"""The shape of a cast that some values fail.

One job: `checked`. The values are tested as a whole; with ``try_`` failing ones become null, else
the first of them is named in the error.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow.bound import Datum, Kernel

Test = Callable[[pa.Array], pa.Array]
Cast = tuple[Kernel, bool]
"""A kernel over an array, and whether it is total."""


def checked(fits: Test, convert: Kernel, target: pa.DataType, *, try_: bool) -> Cast:
    """A cast of the values that `fits` finds good; null is neither good nor bad."""

    def kernel(value: pa.Array) -> Datum:
        good = fits(value)
        if pc.all(good).as_py() is False:
            if not try_:
                bad = value.filter(pc.invert(good))[0].as_py()
                raise ExpressionError(f"overflow: {bad} does not fit {target}")
            value = pc.if_else(good, value, pa.scalar(None, value.type))
        return convert(value)

    return kernel, try_


def between(low: pa.Scalar, high: pa.Scalar) -> Test:
    """Whether ``low <= value <= high``."""
    return lambda value: pc.and_(pc.greater_equal(value, low), pc.less_equal(value, high))

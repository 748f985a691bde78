"""Times and durations as numbers: since 1970 and back, parts of a second, whole units.

millisecond microsecond nanosecond unix_seconds unix_millis unix_micros unix_date
date_from_unix_date timestamp_seconds timestamp_millis timestamp_micros, total_days …
total_microseconds, and `arithmetic` with durations for `arithmetic.py`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import (
    Bound,
    Datum,
    Implementation,
    Request,
    Values,
    numeric,
)
from fabric.plan.durations import UNITS_US
from fabric.plan.functions.epochs import TOTALS

_SECOND = 1_000_000
_STAMP = pa.timestamp("us")


def _part(per_micro: int, micros: int) -> Implementation:
    """A part of the second, of `micros` microseconds each or `per_micro` to the microsecond."""
    return numeric(lambda value: value % _SECOND // micros * per_micro, array=0)


def _floored(micros: int) -> Implementation:
    return numeric(lambda value: value // micros, array=0)


def _viewed(request: Request) -> Bound:
    return Bound(lambda value: value.view(request.result), array=0)


def _scaled(micros: int) -> Implementation:
    """So many times `micros` microseconds; what does not fit is an overflow."""
    size = pa.scalar(micros, pa.int64())

    def implementation(request: Request) -> Bound:
        def kernel(value: Datum) -> pa.Array:
            return pc.multiply_checked(value, size).view(request.result)

        return Bound(kernel, array=0)

    return implementation


def is_of_times(request: Request) -> bool:
    """Whether a function of arithmetic is asked for times or durations."""
    return any(t.is_duration(dtype) or t.is_timestamp(dtype) for dtype in request.operands)


def arithmetic(request: Request) -> Bound:
    """On the numbers below; what does not fit an int64 is an overflow."""
    compute = getattr(pc, f"{request.name}_checked")

    def kernel(*values: Datum) -> Datum:
        answer = compute(*map(_number, values))
        if isinstance(answer, pa.Array):
            if t.is_date(request.result):
                return pc.floor_temporal(answer.view(_STAMP), unit="day").cast(request.result)
            return answer.view(request.result)
        if t.is_date(request.result):
            return kernel(*(pa.array([value.as_py()], value.type) for value in values))[0]
        return pa.scalar(answer.as_py(), request.result)

    return Bound(kernel)


def _number(value: Datum) -> Datum:
    return value.view(pa.int64()) if isinstance(value, pa.Array) else value.cast(pa.int64())


def _total(size: int) -> Implementation:
    """Whole units of `size` microseconds, truncated."""

    def compute(micros: Values) -> Values:
        whole: Values = micros // size
        whole += (micros < 0) & (whole * size != micros)
        return whole

    return numeric(compute, array=0)


IMPLEMENTATIONS: dict[str, Implementation] = {
    "millisecond": _part(1, 1_000),
    "microsecond": _part(1, 1),
    "nanosecond": _part(1_000, 1),
    "unix_seconds": _floored(_SECOND),
    "unix_millis": _floored(1_000),
    "unix_micros": _viewed,
    "unix_date": _viewed,
    "date_from_unix_date": _viewed,
    "timestamp_seconds": _scaled(_SECOND),
    "timestamp_millis": _scaled(1_000),
    "timestamp_micros": _viewed,
    **{f"total_{unit}": _total(UNITS_US[unit.removesuffix("s")]) for unit in TOTALS},
}

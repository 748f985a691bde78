"""Times as numbers since 1970 and back, and the parts of a second.

One job: millisecond microsecond nanosecond unix_seconds unix_millis unix_micros unix_date
date_from_unix_date timestamp_seconds timestamp_millis timestamp_micros.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from fabric.operators.expressions.arrow.bound import Bound, Datum, Implementation, Request
from fabric.operators.expressions.arrow.buffers import Values
from fabric.operators.expressions.arrow.calendar import numeric_kernel

_SECOND = 1_000_000


def _part(per_micro: int, micros: int) -> Implementation:
    """A part of the second, of `micros` microseconds each or `per_micro` to the microsecond."""

    def compute(value: Values) -> Values:
        part: Values = value % _SECOND // micros * per_micro
        return part

    return lambda request: Bound(numeric_kernel(compute, request.result), array=0)


def _floored(micros: int) -> Implementation:
    def compute(value: Values) -> Values:
        whole: Values = value // micros
        return whole

    return lambda request: Bound(numeric_kernel(compute, request.result), array=0)


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
}

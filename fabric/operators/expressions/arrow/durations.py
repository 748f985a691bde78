"""Durations of microseconds: arithmetic with them, and total_days … total_microseconds.

One job: `arithmetic` for `arithmetic.py`, and the whole units of a duration.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import Bound, Datum, Implementation, Kernel, Request
from fabric.operators.expressions.arrow.buffers import Values
from fabric.operators.expressions.arrow.calendar import numeric_kernel

_CHECKED: dict[str, Kernel] = {
    "add": pc.add_checked,
    "subtract": pc.subtract_checked,
    "multiply": pc.multiply_checked,
    "negate": pc.negate_checked,
    "abs": pc.abs_checked,
}
_STAMP = pa.timestamp("us")
_MICROS = {
    "total_days": 86_400_000_000,
    "total_hours": 3_600_000_000,
    "total_minutes": 60_000_000,
    "total_seconds": 1_000_000,
    "total_milliseconds": 1_000,
    "total_microseconds": 1,
}


def is_of_times(request: Request) -> bool:
    """Whether a function of arithmetic is asked for times or durations."""
    return any(t.is_duration(dtype) or t.is_timestamp(dtype) for dtype in request.operands)


def arithmetic(request: Request) -> Bound:
    """On the numbers below; what does not fit an int64 is an overflow."""
    compute = _CHECKED[request.name]

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


def _total(request: Request) -> Bound:
    size = _MICROS[request.name]

    def compute(micros: Values) -> Values:
        whole: Values = micros // size
        whole += (micros < 0) & (whole * size != micros)
        return whole

    return Bound(numeric_kernel(compute, request.result), array=0)


IMPLEMENTATIONS: dict[str, Implementation] = dict.fromkeys(_MICROS, _total)

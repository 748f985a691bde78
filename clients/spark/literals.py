"""Python values of pushed filters as Arrow, exactly or not at all.

One job: `arrow_values`. It builds buffers by hand because pyarrow's own conversion imports pandas,
which would cost every fresh Python worker of Spark a second and 40 MB; and because it would round
or truncate what does not fit.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyarrow import types as t

_CODES = {
    pa.int8(): "b", pa.int16(): "h", pa.int32(): "i", pa.int64(): "q",
    pa.float32(): "f", pa.float64(): "d",
}  # fmt: skip
_EXACT = Context(prec=100)
_DAY_0 = dt.date(1970, 1, 1)
_NOON_0 = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def arrow_values(values: Sequence[Any], dtype: pa.DataType) -> pa.Array | None:
    """`values`, none of them None, as an array of `dtype`; None when one does not fit exactly.

    >>> arrow_values([1, 2], pa.int8()).to_pylist()
    [1, 2]
    >>> arrow_values([300], pa.int8()) is None
    True
    """
    try:
        if t.is_string(dtype) or t.is_binary(dtype):
            return _bytes(values, dtype)
        data = _fixed(values, dtype)
    except (_NoFit, struct.error, OverflowError, UnicodeEncodeError):
        return None
    return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(data)])


class _NoFit(Exception):
    """A value is not one of the type."""


def _fixed(values: Sequence[Any], dtype: pa.DataType) -> bytes:
    if dtype in _CODES:
        return b"".join(_number(value, _CODES[dtype]) for value in values)
    if t.is_boolean(dtype):
        bits: int = sum(_only(bool, value) << i for i, value in enumerate(values))
        return bits.to_bytes(len(values) // 8 + 1, "little")
    if t.is_decimal128(dtype):
        return b"".join(_decimal(value, dtype) for value in values)
    if t.is_date32(dtype):
        return b"".join(struct.pack("<i", (_only(dt.date, v) - _DAY_0).days) for v in values)
    if t.is_timestamp(dtype) and dtype.unit == "us":
        zero = _NOON_0 if dtype.tz is None else _NOON_0.replace(tzinfo=dt.UTC)
        return b"".join(_instant(value, zero) for value in values)
    raise _NoFit


def _only(kind: Callable[..., Any], value: Any) -> Any:
    """`value` if it is of just this class: True is not a number here, a datetime no date."""
    if type(value) is not kind:
        raise _NoFit
    return value


def _number(value: Any, code: str) -> bytes:
    data = struct.pack(f"<{code}", _only(float if code in "fd" else int, value))
    if code == "f" and not math.isnan(value) and struct.unpack("<f", data)[0] != value:
        raise _NoFit
    return data


def _decimal(value: Any, dtype: pa.Decimal128Type) -> bytes:
    exact = _only(Decimal, value)
    if not exact.is_finite() or abs(exact.adjusted()) > dtype.precision + dtype.scale:
        raise _NoFit
    scaled = exact.scaleb(dtype.scale, _EXACT)
    whole = int(scaled)
    if scaled != whole or abs(whole) >= 10**dtype.precision:
        raise _NoFit
    return whole.to_bytes(16, "little", signed=True)


def _instant(value: Any, zero: dt.datetime) -> bytes:
    moment: dt.datetime = _only(dt.datetime, value)
    if (moment.tzinfo is None) is not (zero.tzinfo is None):
        raise _NoFit
    return struct.pack("<q", (moment - zero) // _MICROSECOND)


def _bytes(values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    kind = str if t.is_string(dtype) else bytes
    raw = [_only(kind, value) for value in values]
    encoded = [value.encode() if kind is str else value for value in raw]
    ends = list(accumulate(map(len, encoded), initial=0))
    offsets = pa.py_buffer(struct.pack(f"<{len(ends)}i", *ends))
    buffers = [None, offsets, pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(dtype, len(encoded), buffers)

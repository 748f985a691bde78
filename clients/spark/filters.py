"""Filters that Spark pushes down, applied to Arrow batches exactly as Spark would.

One job: `compile_filter`, from a pushed filter to a function that gives a mask. What Spark drops
from its plan must be applied here to the last row, so whatever is not certain to mean the same is
None, and Spark keeps it: types without one order (lists, structs, maps, intervals), collated text,
values that do not fit the column, filters that are not known here.

Three values as in SQL: a mask is true, false or null, and only true keeps a row. Numbers follow
Spark: NaN equals NaN and is above all else, -0.0 equals 0.0. Text and binary compare by bytes.

`arrow_values` makes Arrow of the Python values of a filter, exactly or not at all. It builds
buffers by hand because pyarrow's own conversion imports pandas, which would cost every fresh Python
worker of Spark a second and 40 MB; and because it would round or truncate what does not fit.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from functools import reduce
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter


Mask = Callable[[pa.RecordBatch], pa.Array]
_Test = Callable[[pa.Array], pa.Array]
_FLOATS_MAX = 100


def compile_filter(pushed: Filter, schema: pa.Schema) -> Mask | None:
    """How to apply `pushed` to batches of `schema`; None when Spark must do it.

    `schema` is that of the batches Spark gets; columns it leaves to Spark are left out of it.
    """
    match type(pushed).__name__:
        case "Not":
            inner = compile_filter(pushed.child, schema)  # type: ignore[attr-defined]
            return None if inner is None else lambda batch: pc.invert(inner(batch))
        case kind:
            path = pushed.attribute  # type: ignore[attr-defined]
            if (dtype := _type_at(path, schema)) is None:
                return None
            if (test := _test(kind, dtype, getattr(pushed, "value", None))) is None:
                return None
            return lambda batch: test(_column(batch, path))


def keep_true(batch: pa.RecordBatch, masks: Sequence[Mask]) -> pa.RecordBatch:
    """The rows of `batch` for which every mask is true."""
    keep = masks[0](batch)
    for mask in masks[1:]:
        keep = pc.and_kleene(keep, mask(batch))
    return batch.filter(keep)  # a null mask drops the row


def _type_at(path: tuple[str, ...], schema: pa.Schema) -> pa.DataType | None:
    """The type of a column, or of a field inside structs; None when it is not there just once."""
    if len(schema.get_all_field_indices(path[0])) != 1:
        return None
    dtype = schema.field(path[0]).type
    for name in path[1:]:
        if not t.is_struct(dtype) or len(dtype.get_all_field_indices(name)) != 1:
            return None
        dtype = dtype.field(name).type
    return dtype


def _column(batch: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    column = batch.column(path[0])
    for name in path[1:]:  # a field of a null struct is null
        column = pc.struct_field(column, name)
    return column


def _test(kind: str, dtype: pa.DataType, value: Any) -> _Test | None:
    if kind in _NULLS:
        return _NULLS[kind]
    if kind in _TEXT:
        return _text(kind, dtype, value)
    if not _has_order(dtype):
        return None
    if kind == "In":
        return _in(dtype, value)
    if kind == "EqualNullSafe":
        return _equal_null_safe(dtype, value)
    return _compare(kind, dtype, value) if kind in _COMPARISONS else None


def _has_order(dtype: pa.DataType) -> bool:
    tests = (
        t.is_integer, t.is_floating, t.is_boolean, t.is_decimal128, t.is_date32, t.is_timestamp,
        t.is_string, t.is_binary,
    )  # fmt: skip
    return any(test(dtype) for test in tests)


_COMPARISONS: Mapping[str, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    "EqualTo": pc.equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
}
_NULLS: Mapping[str, _Test] = {"IsNull": pc.is_null, "IsNotNull": pc.is_valid}
_TEXT: Mapping[str, Callable[..., pa.Array]] = {
    "StringStartsWith": pc.starts_with,
    "StringEndsWith": pc.ends_with,
    "StringContains": pc.match_substring,
}


def _text(kind: str, dtype: pa.DataType, value: Any) -> _Test | None:
    if not t.is_string(dtype) or not isinstance(value, str):
        return None
    matches = _TEXT[kind]
    return lambda column: matches(column, pattern=value)


def _compare(kind: str, dtype: pa.DataType, value: Any) -> _Test | None:
    if value is None:  # nothing is equal to, above or below null
        return _unknown
    if (values := arrow_values([value], dtype)) is None:
        return None
    compare, scalar = _COMPARISONS[kind], values[0]
    if not t.is_floating(dtype):
        return lambda column: compare(column, scalar)
    if math.isnan(value):
        return _NAN[kind]
    if kind.startswith("Greater"):  # NaN is above every number
        return lambda column: pc.or_(compare(column, scalar), pc.is_nan(column))
    return lambda column: compare(column, scalar)


def _is_number(column: pa.Array) -> pa.Array:
    return pc.invert(pc.is_nan(column))


_NAN: Mapping[str, _Test] = {
    "EqualTo": pc.is_nan,
    "GreaterThan": lambda column: pc.and_(pc.is_nan(column), _is_number(column)),  # never
    "GreaterThanOrEqual": pc.is_nan,
    "LessThan": _is_number,
    "LessThanOrEqual": lambda column: pc.or_(pc.is_nan(column), _is_number(column)),  # always
}
"""What comparing with NaN means; null stays null."""


def _in(dtype: pa.DataType, values: Sequence[Any]) -> _Test | None:
    """Equal to one of `values`; with a null among them, everything else is unknown."""
    known, null = [value for value in values if value is not None], None in values
    if not values or (wanted := arrow_values(known, dtype)) is None:
        return None
    if not t.is_floating(dtype):
        return lambda column: _within(column, wanted, null=null)
    if len(known) > _FLOATS_MAX:
        return None
    tests = [test for value in known if (test := _compare("EqualTo", dtype, value))]
    return _any_of([*tests, _unknown] if null else tests)  # each its way with NaN and zeros


def _within(column: pa.Array, wanted: pa.Array, *, null: bool) -> pa.Array:
    found = pc.is_in(column, wanted)
    return pc.if_else(found if null else pc.is_valid(column), found, pa.nulls(1, pa.bool_())[0])


def _any_of(tests: Sequence[_Test]) -> _Test:
    def any_of(column: pa.Array) -> pa.Array:
        return reduce(pc.or_kleene, (test(column) for test in tests))

    return any_of


def _equal_null_safe(dtype: pa.DataType, value: Any) -> _Test | None:
    if value is None:
        return _NULLS["IsNull"]
    if (equal := _compare("EqualTo", dtype, value)) is None:
        return None
    return lambda column: pc.and_kleene(pc.is_valid(column), equal(column))


def _unknown(column: pa.Array) -> pa.Array:
    return pa.nulls(len(column), pa.bool_())


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

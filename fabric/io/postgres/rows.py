"""Rows of Arrow columns as PostgreSQL's binary COPY, a column at a time.

    a row: int16 number of fields, then for each an int32 length (-1: null) and its bytes

One job: `copy_rows`. A column becomes cells: of one width, or of different ones. What lies beside
each other and has one width is put together as one block of bytes; blocks and cells are then joined
row by row in Arrow, which holds no GIL. All numbers are big-endian. Which column of Arrow goes into
which type is `types.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.errors import DataError
from fabric.io.postgres.decimals import (
    SHORT_DIGITS,
    Bits,
    divided,
    limbs_of,
    multiply,
    short_limb,
    valid_of,
)
from fabric.io.postgres.types import ColumnType
from fabric.io.schemas import flat_column
from fabric.io.sinks.json_texts import json_column

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
"""Before the first row: the signature, no flags, no extension."""
TRAILER = b"\xff\xff"
"""Behind the last row."""
EPOCH_US, EPOCH_DAYS = 946_684_800_000_000, 10_957
"""PostgreSQL counts times from 2000-01-01."""
_SLICE_ROWS = 16_384
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class _Even:
    """Cells of one width: shape (rows, width); `valid` is None where there are no nulls."""

    data: Bytes
    valid: Bits | None


@dataclass(frozen=True, slots=True)
class _Ragged:
    """Cells of different widths: a large_binary array, null where the value is."""

    data: pa.Array


_Cells = _Even | _Ragged


def copy_rows(columns: Sequence[pa.Array], types: Sequence[ColumnType]) -> list[pa.Buffer]:
    """The rows of `columns`, as buffers that follow each other; without header and trailer.

    Parameters
    ----------
    columns
        Of one length; each fits its type, see `types.column_type`.

    Raises
    ------
    DataError
        A value can't be held: nanoseconds that are no whole microseconds, a time before or after
        what PostgreSQL counts, a text that is no UUID.

    Examples
    --------
    >>> from fabric.io.postgres.types import made_type
    >>> (rows,) = copy_rows([pa.array([7, None], pa.int16())], [made_type(pa.int16(), "n")])
    >>> rows.to_pybytes().hex(" ", 2)
    '0001 0000 0002 0007 0001 ffff ffff'
    """
    n_rows = len(columns[0])
    found = []
    for begin in range(0, n_rows, _SLICE_ROWS):
        cells = [
            _cells(flat_column(column.slice(begin, _SLICE_ROWS)), dtype)
            for column, dtype in zip(columns, types, strict=True)
        ]
        n = min(_SLICE_ROWS, n_rows - begin)
        count = np.broadcast_to(_words([len(columns)], ">i2"), (n, 2))
        found.append(_data_of(_joined(cells, n, [count])))
    return found


def _joined(columns: Sequence[_Cells], n: int, block: list[Bytes]) -> pa.Array:
    """Each row's cells behind their lengths, behind what is in `block`; large_binary."""
    parts: list[pa.Array] = []
    for cells in columns:
        if isinstance(cells, _Even) and cells.valid is None:
            width = cells.data.shape[1]
            block += [np.broadcast_to(_words([width], ">i4"), (n, 4)), cells.data]
            continue
        ragged = _ragged(cells)
        block.append(_lengths(ragged))
        parts += [_even_array(block, n), pc.fill_null(ragged, b"")]
        block = []
    if block:
        parts.append(_even_array(block, n))
    if len(parts) == 1:
        return parts[0]
    return pc.binary_join_element_wise(*parts, pa.scalar(b"", pa.large_binary()))


def _even_array(block: Sequence[Bytes], n: int) -> pa.Array:
    data = np.concatenate(block, axis=1)
    offsets = np.arange(n + 1, dtype=np.int64) * data.shape[1]
    return _array(offsets, data)


def _array(offsets: npt.NDArray[np.int64], data: Bytes) -> pa.Array:
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


def _ragged(cells: _Cells) -> pa.Array:
    """Cells of one width, some of them null, as those of different widths."""
    if isinstance(cells, _Ragged):
        return cells.data
    valid = cells.valid
    assert valid is not None
    offsets = np.zeros(len(valid) + 1, dtype=np.int64)
    np.cumsum(valid, out=offsets[1:])
    offsets *= cells.data.shape[1]
    made = _array(offsets, cells.data[valid])
    return pc.if_else(pa.array(valid), made, pa.scalar(None, pa.large_binary()))


def _lengths(cells: pa.Array) -> Bytes:
    lengths = pc.fill_null(pc.binary_length(cells), -1)
    return _words(lengths.to_numpy(zero_copy_only=False), ">i4")


def _words(values: npt.ArrayLike, dtype: str) -> Bytes:
    """Numbers as their bytes: shape (values, width)."""
    words = np.asarray(values).astype(dtype)
    return words.view(np.uint8).reshape(len(words), words.dtype.itemsize)


def _data_of(array: pa.Array) -> pa.Buffer:
    """The bytes of all values of a large_binary array without nulls, one behind the other."""
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int64)
    first, last = int(offsets[array.offset]), int(offsets[array.offset + len(array)])
    data = array.buffers()[2]
    return data.slice(first, last - first) if data is not None else pa.py_buffer(b"")


def _cells(column: pa.Array, dtype: ColumnType) -> _Cells:
    """The values of a flat column as `dtype` takes them."""
    if dtype.element is not None:
        return _arrays(column, dtype, dtype.element)
    return _ENCODERS[dtype.kind](column, dtype)


def _even(column: pa.Array, values: npt.NDArray[np.generic], dtype: str) -> _Even:
    return _Even(_words(values, dtype), valid_of(column))


def _numbers(column: pa.Array, dtype: pa.DataType) -> npt.NDArray[np.generic]:
    """As numpy has them; 0 where they are null."""
    if column.type != dtype:
        column = column.cast(dtype)
    if column.null_count:
        column = pc.fill_null(column, pa.scalar(0, dtype))
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _fixed(dtype: pa.DataType, wire: str) -> Callable[[pa.Array, ColumnType], _Cells]:
    def encode(column: pa.Array, _: ColumnType) -> _Cells:
        return _even(column, _numbers(column, dtype), wire)

    return encode


def _boolean(column: pa.Array, _: ColumnType) -> _Cells:
    return _even(column, _numbers(column.cast(pa.uint8()), pa.uint8()), "u1")


def _bytes(column: pa.Array, _: ColumnType) -> _Cells:
    return _Ragged(column.cast(pa.large_binary()))


def _nothing(column: pa.Array, _: ColumnType) -> _Cells:
    return _Ragged(pa.nulls(len(column), pa.large_binary()))


def _json(column: pa.Array, dtype: ColumnType) -> _Cells:
    """A struct, map or nested list; a text is JSON already."""
    texts = column if t.is_string(column.type) or t.is_large_string(column.type) else None
    try:
        data = (json_column(column) if texts is None else texts).cast(pa.large_binary())
    except DataError as error:  # of a value inside, which is not named by its column
        raise DataError(f"column {dtype.name!r}: {error.message}") from error
    if dtype.kind == "json":
        return _Ragged(data)
    version, nothing = (pa.scalar(each, pa.large_binary()) for each in (b"\1", b""))
    return _Ragged(pc.binary_join_element_wise(version, data, nothing))


def _date(column: pa.Array, dtype: ColumnType) -> _Cells:
    days = _numbers(column.cast(pa.int32()), pa.int32()).astype(np.int64) - EPOCH_DAYS
    _check_range(days, -(2**31), 2**31 - 1, column, dtype)
    return _even(column, days, ">i4")


def _microseconds(column: pa.Array, dtype: ColumnType) -> npt.NDArray[np.int64]:
    """Counts of a time, timestamp or duration; refuses what would be lost."""
    width = pa.int32() if t.is_time32(column.type) else pa.int64()
    counts = _numbers(column.view(width), width).astype(np.int64)
    if column.type.unit == "ns":
        if (counts % 1_000).any():
            raise DataError(
                f"column {dtype.name!r} has nanoseconds that are not whole microseconds, which "
                f"PostgreSQL can't keep; cast it to {str(column.type).replace('ns', 'us')} first"
            )
        return counts // 1_000
    factor = _MICROSECONDS[column.type.unit]
    _check_range(counts, -(2**63) // factor, (2**63 - 1) // factor, column, dtype)
    return counts * factor


def _timestamp(column: pa.Array, dtype: ColumnType) -> _Cells:
    counts = _microseconds(column, dtype)
    _check_range(counts, -(2**63) + EPOCH_US, 2**63 - 1, column, dtype)
    return _even(column, counts - EPOCH_US, ">i8")


def _time(column: pa.Array, dtype: ColumnType) -> _Cells:
    return _even(column, _microseconds(column, dtype), ">i8")


def _interval(column: pa.Array, dtype: ColumnType) -> _Cells:
    """Microseconds, days, months."""
    n = len(column)
    if t.is_duration(column.type):
        counts, parts = _microseconds(column, dtype), np.zeros((2, n), np.int64)
    else:
        layout = np.dtype([("months", "<i4"), ("days", "<i4"), ("ns", "<i8")])
        found = np.frombuffer(column.buffers()[1], layout)[column.offset : column.offset + n]
        valid = valid_of(column)
        found = found if valid is None else np.where(valid, found, np.zeros(1, layout))
        counts, parts = found["ns"] // 1_000, np.stack([found["days"], found["months"]])
        if (found["ns"] % 1_000).any():
            raise DataError(
                f"column {dtype.name!r} has nanoseconds, but PostgreSQL stores microseconds"
            )
    words = [_words(counts, ">i8"), *(_words(part, ">i4") for part in parts)]
    return _Even(np.concatenate(words, axis=1), valid_of(column))


def _check_range(
    values: npt.NDArray[np.int64], least: int, most: int, column: pa.Array, dtype: ColumnType
) -> None:
    # Ends are left out: PostgreSQL takes the smallest and largest number for infinity.
    if len(values) and not (least < values.min() and values.max() < most):
        raise DataError(
            f"column {dtype.name!r} holds a {column.type} that is out of PostgreSQL's range; "
            "filter such rows out, or replace the value with null"
        )


def _uuid(column: pa.Array, dtype: ColumnType) -> _Cells:
    """Sixteen bytes, or their text."""
    if t.is_binary(column.type) or t.is_large_binary(column.type):
        if pc.any(pc.not_equal(pc.binary_length(column), 16)).as_py():
            raise DataError(f"column {dtype.name!r} has a UUID that is not 16 bytes long")
        return _bytes(column, dtype)
    bare = pc.drop_null(pc.replace_substring(column, "-", ""))
    digits = "".join(bare.to_pylist())
    try:
        data = bytes.fromhex(digits)
        if pc.any(pc.not_equal(pc.utf8_length(bare), 32)).as_py():
            raise ValueError
    except ValueError:
        raise DataError(f"column {dtype.name!r} has a string that is not a valid UUID") from None
    valid = np.ones(len(column), bool) if valid_of(column) is None else valid_of(column)
    filled = np.zeros((len(column), 16), np.uint8)
    filled[valid] = np.frombuffer(data, np.uint8).reshape(-1, 16)
    return _Even(filled, valid_of(column))


def _arrays(column: pa.Array, dtype: ColumnType, element: ColumnType) -> _Cells:
    """Arrays of one dimension: its number, a flag, the element's type, length, first index."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(column), 0).to_numpy(False), np.int64)
    n, values = len(column), column.flatten()
    inside = _joined([_cells(flat_column(values), element)], len(values), [])
    ends = np.frombuffer(inside.buffers()[1], np.int64)[inside.offset :]
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    data = inside.buffers()[2] or pa.py_buffer(b"")
    bodies = pa.Array.from_buffers(
        pa.large_binary(), n, [None, pa.py_buffer(np.ascontiguousarray(ends[offsets])), data]
    )
    head = [
        _words((lengths > 0).astype(np.int32), ">i4"),
        np.broadcast_to(_words([0], ">i4"), (n, 4)),
        np.broadcast_to(_words([element.oid], ">i4"), (n, 4)),
    ]
    bounds = np.concatenate([_words(lengths, ">i4"), _words(np.ones(n), ">i4")], axis=1)
    sizes = _ragged(_Even(bounds, lengths > 0))
    nothing = pa.scalar(b"", pa.large_binary())
    made = pc.binary_join_element_wise(
        _even_array(head, n), pc.fill_null(sizes, b""), bodies, nothing
    )
    if column.null_count:
        made = pc.if_else(column.is_valid(), made, pa.scalar(None, pa.large_binary()))
    return _Ragged(made)


def _numeric(column: pa.Array, dtype: ColumnType) -> _Cells:
    """All values with as many digits as the type has room for; the server strips zeros."""
    if t.is_integer(column.type):
        column = column.cast(pa.decimal128(20, 0))
    scale, precision = column.type.scale, column.type.precision
    up = max(0, -scale)  # a negative scale counts tens, hundreds …
    n_fraction = math.ceil(max(scale, 0) / 4)
    n_whole = max(1, math.ceil((precision - scale) / 4))
    is_short = precision + up + 4 <= SHORT_DIGITS
    negative, limbs = short_limb(column) if is_short else limbs_of(column, precision + up + 4)
    multiply(limbs, 10 ** (4 * n_fraction - max(scale, 0) + up))
    n_digits = n_whole + n_fraction
    words = np.zeros((len(column), 4 + n_digits), ">i2")
    words[:, 0], words[:, 1], words[:, 3] = n_digits, n_whole - 1, max(scale, 0)
    words[:, 2] = np.where(negative, 0x4000, 0)
    for digit in range(n_digits - 1, -1, -1):
        words[:, 4 + digit] = divided(limbs)
    return _Even(words.view(np.uint8).reshape(len(column), 2 * words.shape[1]), valid_of(column))


_ENCODERS: dict[str, Callable[[pa.Array, ColumnType], _Cells]] = {
    "null": _nothing,
    "bool": _boolean,
    "int2": _fixed(pa.int16(), ">i2"),
    "int4": _fixed(pa.int32(), ">i4"),
    "int8": _fixed(pa.int64(), ">i8"),
    "float4": _fixed(pa.float32(), ">f4"),
    "float8": _fixed(pa.float64(), ">f8"),
    "numeric": _numeric,
    "text": _bytes,
    "bytea": _bytes,
    "json": _json,
    "jsonb": _json,
    "uuid": _uuid,
    "date": _date,
    "time": _time,
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "interval": _interval,
}
"""By the kind of a column."""

"""List columns as segments of flat arrays, for aggregates that collect their values first.

One job: from what DataFusion's array_agg puts out to numpy and back. Offsets begin at 0; a null
list is an empty segment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as t

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

Number = TypeVar("Number", np.int64, np.float64)

_ALL_BUT_SIGN = np.int64(0x7FFF_FFFF_FFFF_FFFF)
_SIGN = np.uint64(1 << 63)


def segments(lists: pa.Array) -> tuple[pa.Array, Ints]:
    """The values of all lists, one after another, and where each list's begin and end.

    >>> values, offsets = segments(pa.array([[1, 2], None, [3]]))
    >>> values.to_pylist(), offsets.tolist()
    ([1, 2, 3], [0, 2, 2, 3])
    """
    if lists.null_count:
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        return unviewed(lists.flatten()), offsets_of(lengths)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    return unviewed(values), offsets - offsets[0]


def unviewed(values: pa.Array) -> pa.Array:
    """String and binary views as plain ones, for which Arrow has all functions."""
    if t.is_string_view(values.type):
        return values.cast(pa.string())
    return values.cast(pa.binary()) if t.is_binary_view(values.type) else values


def offsets_of(lengths: Ints | Bools) -> Ints:
    """Where segments of these lengths begin, and where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def lists_of(values: pa.Array, offsets: Ints, dtype: pa.DataType) -> pa.Array:
    """The list column of type `dtype` with these segments."""
    made = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
    return made.cast(dtype) if not made.type.equals(dtype) else made


def without_nulls(values: pa.Array, offsets: Ints) -> tuple[pa.Array, Ints]:
    """The segments without their nulls."""
    if not values.null_count:
        return values, offsets
    return values.drop_null(), kept_offsets(valid(values), offsets)


def kept_offsets(kept: Bools, offsets: Ints) -> Ints:
    """The offsets after only the values of mask `kept` stay."""
    return offsets_of(kept)[offsets]


def valid(values: pa.Array) -> Bools:
    """Which values are not null."""
    found: Bools = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def floats(values: pa.Array) -> Floats:
    """Float64 values, which hold no null, as numpy."""
    found: Floats = np.ascontiguousarray(values.cast(pa.float64()).to_numpy(zero_copy_only=False))
    return found


def reduced(ufunc: np.ufunc, values: NDArray[Number], offsets: Ints) -> NDArray[Number]:
    """`ufunc` over each segment; 0 for an empty one.

    >>> reduced(np.add, np.array([1, 2, 3]), np.array([0, 2, 2, 3])).tolist()
    [3, 0, 3]
    """
    out = np.zeros(len(offsets) - 1, values.dtype)
    some = offsets[1:] > offsets[:-1]
    if some.any():
        out[some] = ufunc.reduceat(values, offsets[:-1][some])
    return out


def segment_ids(offsets: Ints) -> Ints:
    """For each value the number of its segment."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def taken(values: pa.Array, indices: Ints, some: Bools) -> pa.Array:
    """``values[indices]``, null where not `some`."""
    return values.take(pa.array(indices, pa.int64(), mask=~some))


def order_keys(values: pa.Array) -> tuple[Ints, Callable[[Ints], pa.Array]]:
    """Integers that are in the order of `values` (no nulls), and the way back to values.

    −0.0 equals 0.0, all NaNs are equal and larger than every number.

    >>> keys, back = order_keys(pa.array([2.0, float("nan"), -1.0]))
    >>> keys.argsort().tolist(), back(keys).to_pylist()
    ([2, 0, 1], [2.0, nan, -1.0])
    """
    dtype = values.type
    if t.is_floating(dtype):
        return _of_floats(values)
    if t.is_boolean(dtype):
        keys = values.cast(pa.int8()).to_numpy(zero_copy_only=False).astype(np.int64)
        return keys, lambda found: pa.array(found).cast(dtype)
    if t.is_uint64(dtype):
        unsigned = values.to_numpy(zero_copy_only=False) ^ _SIGN
        return unsigned.view(np.int64), lambda found: pa.array(found.view(np.uint64) ^ _SIGN)
    if t.is_integer(dtype) or t.is_temporal(dtype):
        width = pa.int32() if dtype.bit_width == 32 else pa.int64()
        plain = values if t.is_integer(dtype) else values.view(width)
        keys = plain.cast(pa.int64()).to_numpy(zero_copy_only=False)
        return keys, lambda found: _integers(found, dtype, width)
    return _of_ranks(values)


def _integers(keys: Ints, dtype: pa.DataType, width: pa.DataType) -> pa.Array:
    found = pa.array(keys, pa.int64())
    return found.cast(dtype) if t.is_integer(dtype) else found.cast(width).view(dtype)


def _of_floats(values: pa.Array) -> tuple[Ints, Callable[[Ints], pa.Array]]:
    """IEEE bits, those of negative numbers turned round."""
    numbers = floats(values) + 0.0
    numbers[np.isnan(numbers)] = np.nan
    bits = numbers.view(np.int64)

    def back(keys: Ints) -> pa.Array:
        return pa.array(_turned(keys).view(np.float64)).cast(values.type)

    return _turned(bits), back


def _turned(bits: Ints) -> Ints:
    return bits ^ ((bits >> 63) & _ALL_BUT_SIGN)


def _of_ranks(values: pa.Array) -> tuple[Ints, Callable[[Ints], pa.Array]]:
    ranks = pc.rank(values, sort_keys="ascending", tiebreaker="dense")
    keys = ranks.to_numpy(zero_copy_only=False).astype(np.int64)
    _, first = np.unique(keys, return_index=True)
    return keys, lambda found: values.take(pa.array(first[np.maximum(found - 1, 0)]))

"""Values of any type as int64 codes: equal when the values are, in order as the values are.

`codes` and `groups` of equal values in a row; `order_of` compares two columns row by row. NaN
equals NaN and is the largest, -0.0 equals 0.0; the code of a null is anything. Structs compare
field by field and lists value by value, up to the first difference; a null in them is smallest, as
in Spark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as t

from fabric.operators.expressions.arrow.bound import Datum, to_numpy
from fabric.operators.expressions.arrow.lists.view import Flags, Lists, Numbers, flags

Signs = NDArray[np.int8]


def canonical(values: Datum) -> Datum:
    """Floats with one zero and one positive NaN, so that equal ones have equal bits."""
    if not t.is_floating(values.type):
        return values
    values = pc.add(values, pa.scalar(0.0, values.type))
    return pc.if_else(pc.is_nan(values), pa.scalar(float("nan"), values.type), values)


def codes(values: pa.Array) -> Numbers:
    """One code per value; codes of two calls are not comparable.

    >>> codes(pa.array(["b", "a", "b"])).tolist()
    [1, 0, 1]
    """
    dtype = values.type
    if t.is_null(dtype):
        return np.zeros(len(values), np.int64)
    if t.is_struct(dtype):
        return _ranked(list(zip(*(_with_null(part) for part in values.flatten()), strict=True)),
                       values)  # fmt: skip
    if t.is_list(dtype):
        lists = Lists.of(values)
        items = _with_null(lists.values)
        pairs = zip(lists.starts.tolist(), lists.ends.tolist(), strict=True)
        return _ranked([tuple(items[a:b]) for a, b in pairs], values)
    if t.is_floating(dtype):
        return _of_floats(values)
    if t.is_boolean(dtype):
        values = pc.fill_null(values, False).cast(pa.int64())
        dtype = values.type
    if _is_number(dtype):
        return to_numpy(values).astype(np.int64)
    return _of_dictionary(values)


def _is_number(dtype: pa.DataType) -> bool:
    """Types whose buffer holds integers that are in order."""
    signed = t.is_integer(dtype) and not t.is_uint64(dtype)
    return bool((signed and not t.is_unsigned_integer(dtype)) or t.is_date32(dtype)
                or t.is_timestamp(dtype) or t.is_duration(dtype) or t.is_time64(dtype))  # fmt: skip


def _of_floats(values: pa.Array) -> Numbers:
    """The bits of a double, those of negative numbers turned round."""
    bits = to_numpy(canonical(values).cast(pa.float64())).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64((1 << 63) - 1), bits)


def _of_dictionary(values: pa.Array) -> Numbers:
    """The place of the value among all different values."""
    encoded = values.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    if not len(ranks):
        return np.zeros(len(values), np.int64)
    found: Numbers = ranks[pc.fill_null(encoded.indices, 0).to_numpy()]
    return found


def _with_null(values: pa.Array) -> list[tuple[bool, int]]:
    """Codes as Python values in which null is smallest."""
    valid = flags(pc.is_valid(values))
    return list(zip(valid.tolist(), np.where(valid, codes(values), 0).tolist(), strict=True))


def _ranked(keys: list[Any], values: pa.Array) -> Numbers:
    if values.type.num_fields == 0:
        return np.zeros(len(values), np.int64)
    ranks = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return np.array([ranks[key] for key in keys], np.int64)


def groups(rows: Numbers, values: pa.Array) -> tuple[Numbers, Flags]:
    """A number per value, the same for equal ones (or two nulls) in one row; which are the first.

    >>> numbers, first = groups(np.array([0, 0, 0, 1]), pa.array([7, None, 7, 7]))
    >>> numbers.tolist(), first.tolist()
    ([0, 1, 0, 2], [True, True, False, True])
    """
    null = flags(pc.is_null(values))
    encoded = pa.array(codes(values)).dictionary_encode()
    n_codes = len(encoded.dictionary)
    code = np.where(null, n_codes, encoded.indices.to_numpy())
    key = rows * (n_codes + 1) + code
    order = np.argsort(key, kind="stable")
    new = np.ones(len(key), bool)
    new[1:] = np.diff(key[order]) != 0
    numbers = np.empty(len(key), np.int64)
    numbers[order] = np.cumsum(new) - 1
    first = np.zeros(len(key), bool)
    first[order[new]] = True
    return numbers, first


def order_of(left: pa.Array, right: pa.Array) -> Signs:
    """Below 0 where `left` is smaller, above where it is larger, 0 where they are equal.

    >>> order_of(pa.array([[1], [2], [1]]), pa.array([[1, 0], [1], [1]])).tolist()
    [-1, 1, 0]
    """
    valid = flags(pc.is_valid(left)), flags(pc.is_valid(right))
    both = valid[0] & valid[1]
    by_null = valid[0].astype(np.int8) - valid[1].astype(np.int8)
    return np.where(both, _of_values(left, right), by_null).astype(np.int8)


def _of_values(left: pa.Array, right: pa.Array) -> Signs:
    """As if nothing were null."""
    if t.is_struct(left.type):
        found: Signs = np.zeros(len(left), np.int8)
        for a, b in zip(left.flatten(), right.flatten(), strict=True):
            found = np.where(found == 0, order_of(a, b), found).astype(np.int8)
        return found
    if t.is_list(left.type):
        return _of_lists(Lists.of(left), Lists.of(right))
    code = codes(pa.concat_arrays([left, right]))
    a, b = code[: len(left)], code[len(left) :]
    signs: Signs = (a > b).astype(np.int8) - (a < b).astype(np.int8)
    return signs


def _of_lists(left: Lists, right: Lists) -> Signs:
    """The first pair of values that differ decides, else the shorter list is smaller."""
    found: Signs = np.sign(left.sizes - right.sizes).astype(np.int8)
    shared = Lists(pa.nulls(0), np.minimum(left.sizes, right.sizes))
    rows = shared.rows
    place = np.arange(len(rows)) - shared.starts[rows]
    a, b = (side.values.take(pa.array(side.starts[rows] + place)) for side in (left, right))
    signs = order_of(a, b)
    differ = np.flatnonzero(signs)
    first, index = np.unique(rows[differ], return_index=True)
    found[first] = signs[differ][index]
    return found

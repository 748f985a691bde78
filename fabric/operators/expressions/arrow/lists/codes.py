"""Values of any type as int64 codes: equal when the values are, in order as the values are.

One job: `codes`, and `groups` of equal values in a row. NaN equals NaN and is the largest, -0.0
equals 0.0; the code of a null is anything. Structs compare field by field and lists value by value,
a null in them is smallest, as in Spark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as t

from fabric.operators.expressions.arrow.buffers import to_numpy
from fabric.operators.expressions.arrow.lists.view import Flags, Lists, Numbers, flags
from fabric.operators.expressions.arrow.membership import one_zero


def canonical(values: pa.Array) -> pa.Array:
    """Floats with one zero and one NaN; others unchanged."""
    return one_zero(values) if t.is_floating(values.type) else values


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

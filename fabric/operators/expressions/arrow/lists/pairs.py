"""Two columns of lists or structs compared row by row.

One job: `order_of`. Lists compare value by value and structs field by field, up to the first
difference; inside, null equals null and is the smallest, NaN the largest, -0.0 equals 0.0.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types as t

from fabric.operators.expressions.arrow.lists.codes import codes
from fabric.operators.expressions.arrow.lists.view import Lists, flags

Signs = NDArray[np.int8]


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

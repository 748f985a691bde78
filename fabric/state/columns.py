"""Small things about columns that states need.

One job: `fit` (another layout of the same values), `ends` (offsets of lists), `numbered` (numbers
as bytes in their order) and `distinct_keys` of a table.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fabric.state.backend import Table


def fit(array: pa.Array, dtype: pa.DataType) -> pa.Array:
    """`array` in the layout of `dtype`: dictionaries, run ends and views hold the same values."""
    if array.type == dtype:
        return array
    held = array.type
    if pa.types.is_dictionary(held) or pa.types.is_run_end_encoded(held):
        held = held.value_type
    plain = {
        pa.string_view(): pa.string(), pa.binary_view(): pa.binary(),
        pa.large_string(): pa.string(), pa.large_binary(): pa.binary(),
    }  # fmt: skip
    if plain.get(held, held) != plain.get(dtype, dtype):
        raise TypeError(f"wanted is a column of {dtype}, got {array.type}")
    if pa.types.is_run_end_encoded(array.type):
        array = pa.compute.run_end_decode(array)
    return array.cast(dtype)


def ends(counts: NDArray[np.int64]) -> pa.Int64Array:
    """Offsets of lists that have so many elements."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return pa.array(offsets)


def numbered(first: int, n: int) -> pa.LargeBinaryArray:
    """Numbers from `first` on as bytes that sort like them."""
    data = np.arange(first, first + n, dtype=np.uint64).astype(">u8")
    offsets = np.arange(n + 1, dtype=np.int64) * 8
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), n, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def distinct_keys(table: Table, groups: range) -> Iterator[pa.LargeBinaryArray]:
    """Each key of these groups once."""
    seen: pa.LargeBinaryArray = pa.array([], pa.large_binary())
    for keys, _, _ in table.scan(groups):
        fresh = keys.unique()
        fresh = fresh.filter(pa.compute.invert(pa.compute.is_in(fresh, value_set=seen)))
        seen = pa.concat_arrays([seen, fresh])
        yield fresh

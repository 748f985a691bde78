"""Views of Arrow numbers as numpy arrays, and back, without a copy.

One job: `to_numpy` and `from_numpy`. Unlike `pa.Array.to_numpy` a null does not turn integers into
floats: what lies under a null is anything, validity is handled beside.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Values = NDArray[Any]

_NUMPY = {
    pa.int8(): np.int8, pa.int16(): np.int16, pa.int32(): np.int32, pa.int64(): np.int64,
    pa.float32(): np.float32, pa.float64(): np.float64, pa.date32(): np.int32,
}  # fmt: skip


def to_numpy(values: pa.Array) -> Values:
    """The values of a number, date or timestamp array as a view of its buffer.

    >>> to_numpy(pa.array([1, 2, 3])[1:]).tolist()
    [2, 3]
    """
    dtype = np.dtype(_NUMPY.get(values.type, np.int64))
    buffer = values.buffers()[1]
    if buffer is None or len(values) == 0:
        return np.zeros(len(values), dtype)
    return np.frombuffer(buffer, dtype, len(values), values.offset * dtype.itemsize)


def from_numpy(values: Values, dtype: pa.DataType, valid: pa.Array | None = None) -> pa.Array:
    """An array over `values`, null where `valid` is false.

    >>> from_numpy(np.array([1, 2]), pa.int64(), valid=pa.array([True, False])).to_pylist()
    [1, None]
    """
    values = np.ascontiguousarray(values, _NUMPY.get(dtype, np.int64))
    array = pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(values)])
    if valid is None or pc.all(valid).as_py():
        return array
    return pc.if_else(valid, array, pa.scalar(None, dtype))

"""How many bytes each partition of a reordered batch has.

One job: `add_partition_bytes` over `store/size.hpp`, for what tasks report of their output. Next to
nothing for plain types; views, unions and list views are walked once. Dictionaries are left out:
partitions share them.
"""

from cython.operator cimport dereference
from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr

from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, batch_of, ensure_pyarrow


cdef extern from "store/size.hpp" namespace "fabric" nogil:
    cppclass Size:
        int64_t body

    Size size_of(const CRecordBatch& batch, int64_t row, int64_t n) except +


def add_partition_bytes(batch not None, const int64_t[::1] offsets not None,
                        int64_t[::1] totals not None):
    """Add the decoded bytes of each partition of a batch to `totals`.

    Parameters
    ----------
    batch
        `pyarrow.RecordBatch` in partition order.
    offsets
        int64, shape (n_partitions + 1,), from 0 to the rows of the batch, never falling.
    totals
        int64, shape (n_partitions,); changed in place.
    Raises
    ------
    ValueError
        If shapes or offsets do not fit.
    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> totals = np.zeros(2, np.int64)
    >>> batch = pa.record_batch({"a": pa.array(["x", "yyyy", "z"])})
    >>> add_partition_bytes(batch, np.array([0, 2, 3]), totals)
    >>> totals.tolist()
    [13, 5]
    """
    cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
    cdef Py_ssize_t n = totals.shape[0], p
    if offsets.shape[0] != n + 1:
        raise ValueError(f"{n} partitions have {n + 1} offsets, got {offsets.shape[0]}")
    if offsets[0] != 0 or offsets[n] != batch.num_rows:
        raise ValueError(f"offsets go from 0 to {batch.num_rows}, got {offsets[0]} to {offsets[n]}")
    for p in range(n):
        if offsets[p + 1] < offsets[p]:
            raise ValueError(f"offsets must not fall, got {offsets[p]}, then {offsets[p + 1]}")
    with nogil:
        for p in range(n):
            totals[p] += size_of(dereference(rows), offsets[p], offsets[p + 1] - offsets[p]).body


ensure_pyarrow()

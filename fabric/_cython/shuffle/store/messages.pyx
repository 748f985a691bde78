"""How slices become messages, for Python: sizes, coalescing, memory of their own.

One job: faces over `size.hpp` and `coalesce.hpp`, with sizes to choose; the store uses these
inside, tasks report by them what they put out, and gRPC clients of any language take such messages.
"""

from cython.operator cimport dereference
from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr
from libcpp.utility cimport move
from libcpp.vector cimport vector

from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CResult, CStatus, batch_of, ensure_pyarrow, wrap_batch,
)
from fabric._cython.shuffle.wire.faults cimport raise_fault


cdef extern from "store/coalesce.hpp" namespace "fabric" nogil:
    cppclass MessageSizes:
        MessageSizes()
        int64_t alone, message, most

    cppclass Rows:
        Rows()
        shared_ptr[CRecordBatch] batch
        int64_t begin, n

    CStatus coalesce_all(vector[Rows] slices, MessageSizes sizes,
                         vector[shared_ptr[CRecordBatch]]& out)
    CResult[vector[shared_ptr[CRecordBatch]]] c_small_messages "fabric::small_messages"(
        shared_ptr[CRecordBatch] batch, int64_t bytes_max)

cdef extern from "store/size.hpp" namespace "fabric" nogil:
    cppclass Size:
        int64_t body

    Size size_of(const CRecordBatch& batch, int64_t row, int64_t n) except +
    int64_t bytes_of_batch(const CRecordBatch& batch)
    CResult[shared_ptr[CRecordBatch]] c_owned "fabric::owned"(shared_ptr[CRecordBatch] batch)


def coalesce(slices, *, int64_t alone=256 << 10, int64_t message=1 << 20,
             int64_t most=(4 << 20) - (128 << 10)):
    """Messages of the rows of some slices, in order.

    Parameters
    ----------
    slices
        Record batches of one schema; those without rows vanish.
    alone
        A slice of this many bytes goes as it is, uncopied.
    message
        Smaller ones are gathered until they have this many bytes.
    most
        No message has more, unless it is one row or one shared dictionary.
    Examples
    --------
    >>> import pyarrow as pa
    >>> [m.num_rows for m in coalesce([pa.record_batch({"a": [1]})] * 5, message=16)]
    [2, 2, 1]
    """
    cdef vector[Rows] given
    cdef Rows rows
    for batch in slices:
        rows.batch, rows.begin, rows.n = batch_of(batch), 0, batch.num_rows
        given.push_back(rows)
    cdef MessageSizes sizes
    sizes.alone, sizes.message, sizes.most = alone, message, most
    cdef vector[shared_ptr[CRecordBatch]] found
    cdef CStatus status
    with nogil:
        status = coalesce_all(move(given), sizes, found)
    raise_fault(status)
    return [wrap_batch(batch) for batch in found]


def batch_bytes(batch not None):
    """Decoded bytes of the rows of a batch, dictionaries included: what budgets count.

    >>> import pyarrow as pa
    >>> batch_bytes(pa.record_batch({"a": pa.array([1, 2, 3]), "b": ["x", "", "yz"]}))
    39
    """
    cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
    return bytes_of_batch(dereference(rows))


def small_messages(batch, int64_t bytes_max=(4 << 20) - (64 << 10)):
    """`batch` in order as slices of at most `bytes_max` as IPC messages; a larger row goes alone.

    >>> import pyarrow as pa
    >>> [m.num_rows for m in small_messages(pa.record_batch({"a": range(1000)}), 2048)]
    [125, 125, 125, 125, 125, 125, 125, 125]
    """
    cdef shared_ptr[CRecordBatch] whole = batch_of(batch), piece
    cdef CResult[vector[shared_ptr[CRecordBatch]]] found
    with nogil:
        found = c_small_messages(whole, bytes_max)
    raise_fault(found.status())
    return [wrap_batch(piece) for piece in found.ValueUnsafe()]


def add_partition_bytes(batch not None, const int64_t[::1] offsets not None,
                        int64_t[::1] totals not None):
    """Add the decoded bytes of each partition of a batch to `totals`.

    Next to nothing for plain types; views, unions and list views are walked once. Dictionaries are
    left out: partitions share them.

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


def owned(batch not None):
    """The batch with every buffer copied that a Python object owns; itself when there is none."""
    cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
    cdef CResult[shared_ptr[CRecordBatch]] found
    with nogil:
        found = c_owned(rows)
    raise_fault(found.status())
    return wrap_batch(found.ValueUnsafe()) if found.ValueUnsafe() != rows else batch


ensure_pyarrow()

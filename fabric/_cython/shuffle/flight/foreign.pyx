"""Batches as messages that gRPC clients of any language take."""

from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CResult, batch_of, ensure_pyarrow, wrap_batch,
)
from fabric._cython.shuffle.wire.faults cimport raise_fault


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


ensure_pyarrow()

"""How slices become messages, for Python: sizes, coalescing, memory of their own.

One job: faces over `size.hpp` and `coalesce.hpp`, with sizes to choose; the store uses these
inside.
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

cdef extern from "store/size.hpp" namespace "fabric" nogil:
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


def owned(batch not None):
    """The batch with every buffer copied that a Python object owns; itself when there is none."""
    cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
    cdef CResult[shared_ptr[CRecordBatch]] found
    with nogil:
        found = c_owned(rows)
    raise_fault(found.status())
    return wrap_batch(found.ValueUnsafe()) if found.ValueUnsafe() != rows else batch


ensure_pyarrow()

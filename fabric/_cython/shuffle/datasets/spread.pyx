"""Spreading rows of one writer over the owners of a dataset, for Python.

One job: the face of `spread.hpp`; `fabric.flight.owners` types it.
"""

cimport cython
from cython.operator cimport dereference
from libcpp.utility cimport move

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.datasets.owners cimport owner_of, told
from fabric._cython.shuffle.wire.arrow_cpp cimport batch_of, ensure_pyarrow, wrap_schema
from fabric._cython.shuffle.wire.faults cimport raise_fault

from fabric._cython.shuffle.pool import default_pool


@cython.final
cdef class _Opening:
    """How owners are opened; the spread must not hold its own face."""

    cdef object open_put
    cdef list failures


cdef CStatus _open(PyObject* opening, const string& owner,
                   shared_ptr[OwnerWriter]& out) noexcept with gil:
    try:
        writer = (<_Opening> opening).open_put(owner.decode())
        (&out)[0] = owner_of(writer, (<_Opening> opening).failures)
    except BaseException as error:
        return told(error, (<_Opening> opening).failures)
    return CStatus()


@cython.final
cdef class NativeSpread:
    """One attempt of one writer; end it with `seal` or `abandon`.

    Parameters
    ----------
    location
        The bytes of a `DatasetLocation`: keys, partitions and owners.
    open_put
        Called with an owner's id when there are first rows for it; gives a `PutWriter`.
    held_bytes_max
        How many bytes may wait for others of their partition.
    """

    def __cinit__(self, bytes location not None, open_put, int64_t held_bytes_max):
        cdef CResult[DatasetPtr] decoded = decode_location(location)
        raise_fault(decoded.status())
        cdef _Opening opening = _Opening.__new__(_Opening)
        self.failures = []
        self.pool = default_pool()
        opening.open_put, opening.failures = open_put, self.failures
        cdef CResult[unique_ptr[CSpread]] begun = CSpread.begin(
            decoded.ValueUnsafe(), opened_by(PyRef(<PyObject*> opening), &_open),
            dereference(self.pool.allocator), current_cpu(), held_bytes_max)
        raise_fault(begun.status())
        self.spread = move(begun.ValueUnsafe())

    def __dealloc__(self):
        with nogil:
            self.spread.reset()

    @property
    def schema(self):
        """What every batch must have."""
        return wrap_schema(self.spread.get().schema())

    @property
    def rows(self):
        """How many were written so far."""
        return self.spread.get().rows()

    def write(self, batch not None):
        """Send the rows of `batch` on their way."""
        cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
        cdef CStatus status
        with nogil:
            status = self.spread.get().write(rows)
            rows.reset()
        self.check(status)

    def seal(self):
        """Wait until all rows lie durably with their owners; rows and sum of checksums."""
        cdef CResult[Receipt] receipt
        with nogil:
            receipt = self.spread.get().seal()
        self.check(receipt.status())
        return receipt.ValueUnsafe().rows, receipt.ValueUnsafe().crc32c_sum

    def abandon(self):
        """Give up; nothing stays with any owner. Does nothing after `seal`."""
        with nogil:
            self.spread.get().abandon()

    cdef int check(self, CStatus status) except -1:
        if not status.ok() and self.failures:
            raise self.failures.pop()
        return raise_fault(status)


ensure_pyarrow()

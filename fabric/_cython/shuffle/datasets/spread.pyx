"""Spreading rows of one writer over the owners of a dataset, for Python.

One job: the face of `spread.hpp`, which `fabric.flight.owners` types, and writers to owners as the
data plane sees them: a native writer is used as it is; any other `PutWriter` by way of the GIL,
once a message.
"""

cimport cython
from cython.operator cimport dereference
from libc.stdint cimport uint32_t
from libcpp.utility cimport move

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.datasets.files cimport FileWriter
from fabric._cython.shuffle.pump.pump cimport CPut, Put
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    batch_of, ensure_pyarrow, wrap_batch, wrap_schema,
)
from fabric._cython.shuffle.wire.faults cimport raise_fault, told_status

from fabric._cython.shuffle.pool import default_pool
from fabric.errors import FabricError


cdef extern from "<arrow/status.h>" nogil:
    CStatus unknown_error "arrow::Status::UnknownError"(string)

cdef extern from "datasets/owner.hpp" namespace "fabric" nogil:
    cppclass OwnerCalls:
        OwnerCalls()
        CStatus (*write)(PyObject*, uint32_t, const shared_ptr[CRecordBatch]&) noexcept
        CStatus (*seal)(PyObject*, Receipt&) noexcept
        void (*abandon)(PyObject*) noexcept
    shared_ptr[OwnerWriter] python_owner(PyRef object, const OwnerCalls& calls)
    shared_ptr[OwnerWriter] remote_owner(shared_ptr[CPut] put, string address, PyRef face)


@cython.final
cdef class _Owner:
    """A Python writer; what it raises that is no error of ours goes to `failures` as it is."""

    cdef object writer
    cdef list failures


cdef shared_ptr[OwnerWriter] owner_of(object writer, list failures) except *:
    """The native writer behind a `PutWriter`; with `failures`, surprises are kept there."""
    cdef OwnerCalls calls
    cdef _Owner owner
    native = getattr(writer, "native", None)  # of a `fabric.flight.owners.OwnerPut`
    if isinstance(native, Put):
        return remote_owner(
            (<Put> native).put, writer.address.encode(), PyRef(<PyObject*> writer))
    if isinstance(writer, FileWriter):
        return (<FileWriter> writer).writer
    owner = _Owner.__new__(_Owner)
    owner.writer, owner.failures = writer, failures
    calls.write, calls.seal, calls.abandon = &_write, &_seal, &_abandon
    return python_owner(PyRef(<PyObject*> owner), calls)


cdef CStatus told(object error, list failures) noexcept:
    """The status of an exception; the GIL is held."""
    if failures is not None and not isinstance(error, FabricError):
        failures.append(error)
        return unknown_error(<string> b"raised in Python")
    return told_status(error)


cdef CStatus _write(PyObject* owner, uint32_t partition,
                    const shared_ptr[CRecordBatch]& batch) noexcept with gil:
    try:
        (<_Owner> owner).writer.write(partition, wrap_batch(batch))
    except BaseException as error:
        return told(error, (<_Owner> owner).failures)
    return CStatus()


cdef CStatus _seal(PyObject* owner, Receipt& out) noexcept with gil:
    try:
        receipt = (<_Owner> owner).writer.seal()
        out.rows, out.crc32c_sum = receipt.rows, receipt.crc32c_sum
    except BaseException as error:
        return told(error, (<_Owner> owner).failures)
    return CStatus()


cdef void _abandon(PyObject* owner) noexcept with gil:
    try:
        (<_Owner> owner).writer.abandon()
    except BaseException as error:
        told(error, (<_Owner> owner).failures)


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

"""Writers to owners of dataset partitions as the data plane sees them.

One job: a native writer is used as it is; any other `PutWriter` by way of the GIL, once a message.
"""

cimport cython

from fabric._cython.shuffle.datasets.files cimport FileWriter
from fabric._cython.shuffle.pump.pump cimport CPut, Put
from fabric._cython.shuffle.wire.arrow_cpp cimport ensure_pyarrow, wrap_batch
from fabric._cython.shuffle.wire.faults cimport told_status

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


ensure_pyarrow()

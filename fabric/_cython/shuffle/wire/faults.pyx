"""Errors of the data plane become the classes of `fabric.errors`.

One job: from an Arrow status to a Python exception. A status of ours carries an `ErrorDetail`; any
other is what Arrow or gRPC said, told by `fabric.flight.errors`.
"""

from fabric._cython.shuffle.wire.arrow_cpp cimport CStatus, detail_of, ensure_pyarrow


cdef int raise_fault(CStatus status) except -1:
    """Raise what `status` says; 0 when it is fine."""
    if status.ok():
        return 0
    from fabric.flight.errors import from_status  # late: errors are rare, its import is not free

    raise from_status(status.ToString().decode("utf-8", "replace"), detail_of(status))


ensure_pyarrow()

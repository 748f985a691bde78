"""Errors of the data plane become the classes of `fabric.errors`, and errors of Python statuses.

One job: from an Arrow status to a Python exception and back. A status of ours carries an
`ErrorDetail`; any other is what Arrow or gRPC said. `fabric.flight.errors`, which reads and makes
both, is above this package and hands itself in (`install`).
"""

from libcpp.string cimport string

from fabric._cython.shuffle.wire.arrow_cpp cimport CStatus, ensure_pyarrow

from fabric.errors import ERRORS as _ERRORS, ExternalError as _ExternalError


cdef extern from "wire/fault.hpp" namespace "fabric" nogil:
    string detail_of(const CStatus& status)
    CStatus c_told_status "fabric::told_status"(
        const string& text, const string& kind, const string& detail)


cdef object _from_status = None
cdef object _told = None


def install(*, from_status not None, told not None):
    """Let `from_status(text, detail)` make exceptions, and `told(error)` say what may leave."""
    global _from_status, _told
    _from_status, _told = from_status, told


cdef int raise_fault(CStatus status) except -1:
    """Raise what `status` says; 0 when it is fine."""
    if status.ok():
        return 0
    text = status.ToString().decode("utf-8", "replace")
    raise _by_kind(text) if _from_status is None else _from_status(text, detail_of(status))


cdef CStatus told_status(object error) noexcept:
    """The status of an exception, ready to leave; the GIL is held."""
    try:
        text, kind, detail = _told(error)
        return c_told_status(text.encode(), kind.encode(), detail)
    except BaseException as worse:
        return c_told_status(
            b"InternalError: unexpected " + type(worse).__name__.encode(), b"InternalError", b"")


cdef object _by_kind(str text):
    """An error of the class that `text` begins with: all there is before `install`."""
    kind, _, message = text.removeprefix("IOError: ").partition(": ")
    return _ERRORS[kind](message) if kind in _ERRORS else _ExternalError(text)


ensure_pyarrow()

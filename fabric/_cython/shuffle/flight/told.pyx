"""Python's errors as statuses of the data plane."""

from libcpp.string cimport string


cdef extern from "wire/fault.hpp" namespace "fabric" nogil:
    CStatus c_told_status "fabric::told_status"(
        const string& text, const string& kind, const string& detail)


cdef CStatus told_status(object error) noexcept:
    """The status of an exception, ready to leave; the GIL is held."""
    from fabric.flight.errors import told

    try:
        text, kind, detail = told(error)
        return c_told_status(text.encode(), kind.encode(), detail)
    except BaseException as worse:
        return c_told_status(
            b"InternalError: unexpected " + type(worse).__name__.encode(), b"InternalError", b"")

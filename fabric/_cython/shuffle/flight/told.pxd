"""Python's errors as statuses, see `told` of `fabric/flight/errors.py`."""

from fabric._cython.shuffle.wire.arrow_cpp cimport CStatus


cdef CStatus told_status(object error) noexcept

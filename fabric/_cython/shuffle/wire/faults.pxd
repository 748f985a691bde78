from fabric._cython.shuffle.wire.arrow_cpp cimport CStatus


cdef int raise_fault(CStatus status) except -1
cdef CStatus told_status(object error) noexcept

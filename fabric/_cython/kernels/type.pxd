"""What a format string means to a kernel, see `type.hpp`."""

from fabric._cython.kernels.arrow_c cimport ArrowSchema


cdef extern from "type.hpp" namespace "fabric" nogil:
    cppclass Type:
        Type() except +

    Type parse_type(const ArrowSchema& schema) except +

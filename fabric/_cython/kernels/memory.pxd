"""Where kernels put what they make."""


cdef extern from "allocator.hpp" namespace "fabric" nogil:
    cppclass Allocator:
        pass

    Allocator& system_allocator() noexcept

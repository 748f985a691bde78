"""Where kernels put what they make."""


cdef extern from "memory.hpp" namespace "fabric" nogil:
    cppclass Allocator:
        pass

    Allocator& system_allocator() noexcept

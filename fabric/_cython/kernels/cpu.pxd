from libc.stdint cimport int32_t


cdef int32_t current_cpu() noexcept nogil

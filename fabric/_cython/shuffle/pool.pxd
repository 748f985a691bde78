from libc.stdint cimport int64_t

from fabric._cython.kernels.memory cimport Allocator


cdef extern from "memory.hpp" namespace "fabric" nogil:
    cppclass PoolStatistics:
        int64_t used_bytes
        int64_t kept_bytes
        int64_t n_reused
        int64_t n_allocated

    cppclass Pool(Allocator):
        Pool(int64_t kept_bytes_max) except +
        PoolStatistics statistics() noexcept
        void trim() noexcept
        void drop() noexcept


cdef class BufferPool:
    cdef Pool* pool
    cdef Allocator* allocator  # the pool, as kernels see it
    cdef readonly int64_t kept_bytes_max

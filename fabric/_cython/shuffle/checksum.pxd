from libc.stdint cimport int64_t, uint32_t

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema


cdef extern from "wire/crc32c.hpp" namespace "fabric" nogil:
    cppclass Crc32c:
        Crc32c(int cpu) noexcept
        void add(const void* data, int64_t n_bytes) noexcept
        uint32_t value() noexcept

    uint32_t canonical_crc32c(const ArrowSchema& schema, const ArrowArray& array, int cpu) except +


cdef class RunningCrc32c:
    cdef Crc32c* _crc

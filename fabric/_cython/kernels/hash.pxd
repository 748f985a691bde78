from libc.stdint cimport uint64_t

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema


cdef extern from "hash.hpp" namespace "fabric" nogil:
    uint64_t start_of(uint64_t seed) noexcept
    void step_array(const ArrowSchema& schema, const ArrowArray& array, int cpu,
                    uint64_t* hashes) except +

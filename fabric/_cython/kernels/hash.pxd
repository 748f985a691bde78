from libc.stdint cimport int64_t, uint64_t
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema, Type


cdef extern from "hash_column.hpp" namespace "fabric" nogil:
    const int64_t HASH_BLOCK

    cppclass Column:
        Column(const Type& type, const ArrowArray& array, int cpu) except +
        void words(int64_t row, int64_t n, uint64_t* out) except +

    uint64_t start_of(uint64_t seed) noexcept
    void hash_block(const vector[Column]& keys, int64_t row, int64_t n, uint64_t start, int cpu,
                    uint64_t* hashes) except +
    void step_array(const ArrowSchema& schema, const ArrowArray& array, int cpu,
                    uint64_t* hashes) except +

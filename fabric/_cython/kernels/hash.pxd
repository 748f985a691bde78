from libc.stdint cimport int32_t, int64_t, uint16_t, uint64_t

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema


cdef extern from "hash.hpp" namespace "fabric" nogil:
    uint64_t start_of(uint64_t seed) noexcept
    void step_array(const ArrowSchema& schema, const ArrowArray& array, int cpu,
                    uint64_t* hashes) except +


cdef extern from "partition.hpp" namespace "fabric" nogil:
    const int32_t PARTITIONS_MAX

    void partition_ids(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                       uint16_t* ids) noexcept
    void group_rows(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                    int64_t* offsets, int64_t* row_ids) except +


cdef int32_t checked_partitions(object n_partitions) except -1

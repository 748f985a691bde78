from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t


cdef extern from "partition.hpp" namespace "fabric" nogil:
    const int32_t PARTITIONS_MAX

    void partition_ids(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                       uint16_t* ids) noexcept
    void group_rows(int cpu, const uint64_t* hashes, int64_t n, int32_t n_partitions,
                    int64_t* offsets, int64_t* row_ids) except +


cdef int32_t checked_partitions(object n_partitions) except -1

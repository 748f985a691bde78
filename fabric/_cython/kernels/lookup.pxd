from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.vector cimport vector


cdef int64_t ask_blocks(const uint64_t* hashes, int64_t n, const uint64_t* firsts,
                        const uint64_t* lasts, int64_t n_blocks, const uint8_t* filters,
                        int64_t n_bytes, const int64_t* ends, uint8_t* found) noexcept nogil
cdef int search(const uint64_t* rows, const int64_t* row_times, int64_t n, const uint64_t* hashes,
                const int64_t* times, int64_t n_keys, int64_t since, const uint8_t* gone,
                int64_t begin, vector[int64_t]& found) except -1 nogil

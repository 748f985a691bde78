from libc.stdint cimport int32_t, int64_t, uint64_t


cdef void codes(const uint64_t* hashes, int64_t n, int32_t* out) noexcept nogil
cdef int64_t merge(const int32_t* given, const int64_t* offsets, int64_t n_segments,
                   int32_t* out, int64_t* out_offsets) except -1 nogil

from libc.stdint cimport int64_t


cdef int pick(const int64_t* keys, const int64_t* offsets, const int64_t* ranks,
              int64_t n_segments, int64_t* at, int64_t* after) except -1 nogil

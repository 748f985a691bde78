from libc.stdint cimport int64_t


cdef int check_offsets(const int64_t[::1] offsets, int64_t n_values) except -1

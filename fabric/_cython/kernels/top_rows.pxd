from libc.stdint cimport int64_t, uint32_t
from libcpp.vector cimport vector


cdef void sift_down(int64_t* heap, int64_t n, int64_t key) noexcept nogil
cdef int enter(const uint32_t* codes, const int64_t* keys, int64_t n_rows, int64_t n,
               vector[int64_t]& best) except -1 nogil
cdef void mark(const uint32_t* codes, const int64_t* keys, int64_t n_rows, int64_t n,
               const int64_t* best, unsigned char* found) noexcept nogil


cdef class TopRows:
    cdef int64_t n
    cdef vector[int64_t] best

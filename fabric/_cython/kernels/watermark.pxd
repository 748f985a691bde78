from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

cdef enum:
    GOOD = 0
    MISSING = 1
    FUTURE = 2

cdef int64_t mark_rows(const int64_t* times, const uint8_t* valid, int64_t n_rows,
                       int64_t greatest, int64_t bound, int64_t future, int64_t ceiling,
                       int64_t* watermarks, uint8_t* kinds, int64_t* n_bad) noexcept nogil

cdef class MinTracker:
    cdef vector[int64_t] tree
    cdef vector[int64_t] known
    cdef vector[uint8_t] state
    cdef int64_t capacity
    cdef int64_t n_idle
    cdef int64_t n_ended

    cdef void put(self, int64_t channel, int64_t value) noexcept nogil
    cdef int64_t least(self) noexcept nogil
    cdef int set_channel(self, int64_t channel, int64_t time) except -1 nogil

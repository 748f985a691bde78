from libc.stdint cimport int64_t, uint8_t
from libcpp.vector cimport vector

cdef class BarrierTracker:
    cdef vector[int64_t] checkpoints
    cdef vector[int64_t] n_missing
    cdef vector[vector[uint8_t]] seen
    cdef vector[uint8_t] ended
    cdef int64_t n_ended
    cdef int64_t last

    cdef int64_t place(self, int64_t checkpoint) noexcept nogil
    cdef void forget(self, int64_t upto) noexcept nogil
    cdef int64_t arrived(self, int64_t place, int64_t channel) noexcept nogil

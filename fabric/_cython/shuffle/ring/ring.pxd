"""Items and pipes, for other extensions; what pipes can do is told in `ring.pyx`."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp.memory cimport shared_ptr


cdef extern from *:
    """
    namespace fabric {
    class BatchPipes;  // who only hands it on needs no more
    }
    """
    cppclass BatchPipes "fabric::BatchPipes":
        pass


cdef extern from "ring/room.hpp" namespace "fabric" nogil:
    cppclass CRoundCosts "fabric::RoundCosts":
        void add(double size, double time)
        uint64_t next(uint64_t wanted, uint64_t last)


cdef class Rows:
    cdef readonly uint32_t producer
    cdef readonly object batch


cdef class Mark:
    cdef readonly uint32_t producer
    cdef readonly object event
    cdef readonly int64_t value
    cdef readonly uint64_t total_rows


cdef class Pipes:
    cdef shared_ptr[BatchPipes] pipes
    cdef tuple events


cdef class RoundCosts:
    cdef CRoundCosts costs

from libc.stdint cimport int64_t
from libcpp.vector cimport vector


cdef extern from "timers.hpp" namespace "fabric" nogil:
    cdef cppclass Timer:
        int64_t time
        int64_t key

    cdef cppclass CTimerQueue "fabric::TimerQueue":
        int64_t add(const int64_t* times, const int64_t* keys, int64_t n) except +
        int64_t remove(const int64_t* times, const int64_t* keys, int64_t n) except +
        void due(int64_t time, vector[int64_t]& times, vector[int64_t]& keys) except +
        int64_t next(int64_t none)
        vector[Timer] sorted() except +
        int64_t size()
        int64_t n_bytes()


cdef class TimerQueue:
    cdef CTimerQueue queue

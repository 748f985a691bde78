from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libcpp cimport bool

from fabric._cython.kernels.arrow_c cimport ArrowArray
from fabric._cython.kernels.group_table cimport KeyTypes
from fabric._cython.kernels.type cimport Type


cdef extern from "extremes.hpp" namespace "fabric" nogil:
    cppclass CExtremes "fabric::Extremes":
        CExtremes(const Type& type, bool greatest) except +
        bool is_ranked() noexcept
        void update(const Type& type, const ArrowArray& array, const int32_t* ids, int cpu) except +
        void clear(const int32_t* ids, int64_t n, int cpu) except +
        void read(const int32_t* ids, int64_t n, int cpu, uint64_t* words, uint8_t* seen) except +
        void put_out(const int32_t* ids, int64_t n, int cpu, ArrowArray& out) except +
        int64_t n_bytes() noexcept


cdef class Extremes:
    cdef KeyTypes types
    cdef CExtremes* core
    cdef object words(self, const int32_t[::1] ids)
    cdef object values(self, const int32_t[::1] ids)


cdef class Min(Extremes):
    pass


cdef class Max(Extremes):
    pass

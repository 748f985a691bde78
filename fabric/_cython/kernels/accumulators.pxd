from libc.stdint cimport int32_t, int64_t, uint8_t
from libcpp cimport bool
from libcpp.memory cimport unique_ptr

from fabric._cython.kernels.arrow_c cimport ArrowArray, Type
from fabric._cython.kernels.group_table cimport KeyTypes


cdef extern from "tables.hpp" namespace "fabric" nogil:
    cppclass CAccumulator "fabric::Accumulator":
        void reserve(const int32_t* ids, int64_t n, int cpu) except +
        void clear(const int32_t* ids, int64_t n) noexcept
        void update(const Type& type, const ArrowArray& array, const int32_t* ids) except +
        void merge(const Type& type, const ArrowArray& states, const int32_t* ids) except +
        void read(const int32_t* ids, int64_t n, uint8_t* out, uint8_t* seen) except +
        int64_t n_bytes() noexcept

    cppclass Counts(CAccumulator):
        void rows(const int32_t* ids, int64_t n) noexcept

    cppclass CExtremes "fabric::Extremes"(CAccumulator):
        bool is_ranked() noexcept
        void put_out(const int32_t* ids, int64_t n, ArrowArray& out) except +

    unique_ptr[Counts] make_counts() except +
    unique_ptr[CAccumulator] make_integer_sums() except +
    unique_ptr[CAccumulator] make_float_sums() except +
    unique_ptr[CAccumulator] make_decimal_sums() except +
    unique_ptr[CAccumulator] make_moment_sums() except +
    unique_ptr[CExtremes] make_extremes(const Type& type, bool greatest) except +


cdef class Accumulator:
    cdef CAccumulator* core
    cdef int take_in(self, const int32_t[::1] ids, object column, bint is_states) except -1
    cdef tuple read(self, const int32_t[::1] ids, int width)


cdef class Total(Accumulator):
    cdef str name
    cdef object kind


cdef class CountAll(Total):
    pass


cdef class Count(Total):
    pass


cdef class SumInt64(Total):
    pass


cdef class SumFloat64(Total):
    pass


cdef class SumDecimal(Total):
    cdef readonly object type


cdef class Moments(Accumulator):
    pass


cdef class Extremes(Total):
    cdef KeyTypes types
    cdef object ranked(self, const int32_t[::1] ids)
    cdef object unranked(self, const int32_t[::1] ids)


cdef class Min(Extremes):
    pass


cdef class Max(Extremes):
    pass

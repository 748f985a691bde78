from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libcpp cimport bool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport ArrowArray, Type
from fabric._cython.kernels.group_table cimport KeyTypes


cdef extern from "tables.hpp" namespace "fabric" nogil:
    cppclass CJoinTable "fabric::JoinTable":
        void insert(const vector[Type]& key_types, const vector[ArrowArray*]& keys,
                    const vector[ArrowArray*]& payload, const int64_t* times, int cpu) except +
        int64_t probe(const vector[Type]& types, const vector[ArrowArray*]& arrays, int64_t begin,
                      int64_t most, bool outer, int cpu) except +
        int64_t n_pairs() noexcept
        bool each_has_one() noexcept
        const uint32_t* probed() noexcept
        const int32_t* found() noexcept
        void contains(const vector[Type]& types, const vector[ArrowArray*]& arrays, int cpu,
                      uint8_t* out) except +
        int64_t remove_before(int64_t bound) except +
        void list(int32_t* places) noexcept
        void times(const int32_t* places, int64_t n, int64_t* out) noexcept
        int64_t n_places() noexcept
        void gather(const int32_t* places, int64_t n, const vector[int32_t]& which,
                    ArrowArray& out) except +
        int64_t n_rows() noexcept
        int64_t n_bytes() noexcept

    unique_ptr[CJoinTable] make_join_table(const vector[Type]& keys,
                                           const vector[Type]& payload) except +


cdef class JoinTable:
    cdef KeyTypes keys
    cdef KeyTypes columns
    cdef list key_indices
    cdef CJoinTable* core
    cdef object gathered(self, const int32_t[::1] places, list names)

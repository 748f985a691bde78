from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool
from libcpp.memory cimport unique_ptr
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport ArrowArray, Type


cdef extern from "tables.hpp" namespace "fabric" nogil:
    cppclass CGroupTable "fabric::GroupTable":
        void upsert(const vector[Type]& types, const vector[ArrowArray*]& arrays, int cpu,
                    int32_t* ids) except +
        void find(const vector[Type]& types, const vector[ArrowArray*]& arrays, int cpu,
                  int32_t* ids) except +
        int64_t first_stranger(const int32_t* ids, int64_t n) noexcept
        void remove(const int32_t* ids, int64_t n) except +
        void compact() except +
        void list(int32_t* ids) noexcept
        void keys(const int32_t* ids, int64_t n, ArrowArray& out) except +
        int64_t n_groups() noexcept
        int64_t n_ids() noexcept
        int64_t n_bytes() noexcept

    unique_ptr[CGroupTable] make_group_table(const vector[Type]& types) except +


cdef list c_arrays(list columns, vector[Type]& types, vector[ArrowArray*]& arrays)
cdef object groups_of(list keys)
cdef object lie_in(object batch, object key_groups)


cdef class KeyTypes:
    cdef readonly object schema
    cdef object stored
    cdef str what
    cdef tuple plain
    cdef vector[Type] types(self) except *
    cdef list arrays_of(self, object keys)
    cdef object as_declared(self, object batch)


cdef class GroupTable:
    cdef KeyTypes types
    cdef CGroupTable* core
    cdef object number(self, object keys, bool insert)
    cdef object checked(self, object ids)

from libc.stdint cimport int64_t, uint32_t
from libcpp.memory cimport shared_ptr, unique_ptr

from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CSchema


cdef extern from "groups.hpp" namespace "fabric" nogil:
    cppclass CGroups "fabric::Groups":
        CGroups(shared_ptr[CSchema] keys) except +
        void number(const CRecordBatch& keys, uint32_t* out) except +
        int64_t size()


cdef class Groups:
    cdef unique_ptr[CGroups] core

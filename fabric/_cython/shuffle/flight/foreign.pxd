from libc.stdint cimport int64_t
from libcpp.memory cimport shared_ptr
from libcpp.vector cimport vector

from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CResult


cdef extern from "flight/foreign.hpp" namespace "fabric" nogil:
    CResult[vector[shared_ptr[CRecordBatch]]] c_small_messages "fabric::small_messages"(
        shared_ptr[CRecordBatch] batch, int64_t bytes_max)

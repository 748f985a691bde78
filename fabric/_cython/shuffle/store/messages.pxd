"""What travels on an edge, and a stream of it, see `message.hpp`."""

from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CResult


cdef extern from "store/message.hpp" namespace "fabric" nogil:
    cppclass Message:
        Message()
        string header
        shared_ptr[CRecordBatch] batch

    cppclass MessageStream:
        CResult[cbool] next(Message& out) except +

"""Streams that clients put rows into, see `stream_puts.hpp`."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CSchema


cdef extern from * namespace "fabric" nogil:
    """
    namespace fabric {  // who only hands them on needs no more
    class StreamDoor;
    class StreamPuts;
    class StreamQueue;
    }
    """
    cppclass StreamDoor:
        pass
    cppclass StreamMessage:
        string writer
        uint64_t number
        shared_ptr[CRecordBatch] batch
    cppclass CStreamQueue "fabric::StreamQueue":
        CStreamQueue(string name, shared_ptr[CSchema] schema, uint32_t split, uint32_t n_splits,
                     int64_t bytes_max, cbool at_once)
        cbool take(StreamMessage& out)
        void acknowledge(const string& writer, uint64_t count)
        void seek(const string& writer, uint64_t count)
        void close()
    cppclass CStreamPuts "fabric::StreamPuts":
        void add(const shared_ptr[CStreamQueue]& queue)
        void remove(const shared_ptr[CStreamQueue]& queue)


cdef class StreamPuts:
    cdef shared_ptr[CStreamPuts] puts
    cdef shared_ptr[StreamDoor] door  # the same, as servers see it


cdef class StreamQueue:
    cdef shared_ptr[CStreamQueue] queue
    cdef shared_ptr[CStreamPuts] puts

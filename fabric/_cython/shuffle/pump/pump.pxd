"""Connections, for other native extensions that call agents."""

from libcpp cimport bool as cbool
from libcpp.map cimport map
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.shuffle.wire.arrow_cpp cimport CResult


cdef extern from "pump/connection.hpp" namespace "fabric" nogil:
    cppclass CConnection "fabric::Connection":
        pass

    cppclass CConnections "fabric::Connections":
        CResult[shared_ptr[CConnection]] lend(const string& address)
        void broken(const shared_ptr[CConnection]& connection)
        map[string, string] shorten(const map[string, string]& paths, cbool only)
        size_t n_calls()
        void close()


cdef class Connections:
    cdef shared_ptr[CConnections] pool
    cdef object __weakref__

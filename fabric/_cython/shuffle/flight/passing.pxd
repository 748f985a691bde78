from cpython.object cimport PyObject
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.shuffle.flight.handlers cimport Handlers
from fabric._cython.shuffle.pump.pump cimport CConnections
from fabric._cython.shuffle.wire.arrow_cpp cimport CStatus


cdef extern from "flight/partitions.hpp" namespace "fabric" nogil:
    cppclass PyRef:
        PyRef()
        PyRef(PyObject* object)
    cppclass Passing:
        shared_ptr[CConnections] pool
        string ticket_key
        double idle_s
        int cpu
        PyRef transport
        CStatus (*token)(PyObject*, string&) noexcept
    void set_passing(Handlers& handlers, const Passing& passing)

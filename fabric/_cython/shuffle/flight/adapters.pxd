"""Streams that Python brings, see `adapters.hpp`."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.flight.handlers cimport Handlers
from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CSchema, CStatus


cdef extern from "store/message.hpp" namespace "fabric" nogil:
    cppclass Message:
        string header
        shared_ptr[CRecordBatch] batch

cdef extern from "wire/ticket.hpp" namespace "fabric" nogil:
    cppclass CProducer "fabric::ProducerAttempt":
        uint32_t task, attempt
    cppclass CPart "fabric::DatasetPart":
        string transaction, writer
        uint32_t attempt
    cppclass PartitionTicket:
        string job, node_path
        uint32_t edge, partition
        vector[CProducer] producers
    cppclass DatasetTicket:
        string name
        uint64_t version
        uint32_t partition
        vector[CPart] parts
    cppclass Ticket:
        pass
    const PartitionTicket* partition_of "std::get_if<fabric::PartitionTicket>"(const Ticket*)
    const DatasetTicket* dataset_of "std::get_if<fabric::DatasetTicket>"(const Ticket*)

cdef extern from "flight/adapters.hpp" namespace "fabric" nogil:
    cppclass PyRef:
        PyRef()
        PyRef(PyObject* object)
    cppclass Opened:
        shared_ptr[CSchema] schema
        PyRef items
    cppclass PythonVerbs:
        PyRef face
        CStatus (*step)(PyObject*, Message&, cbool&) noexcept
        CStatus (*get)(PyObject*, const Ticket&, cbool, Opened&) noexcept
        CStatus (*fetch)(PyObject*, const string&, const Ticket&, Opened&) noexcept
    void set_get(Handlers& handlers, const PythonVerbs& python)
    void set_fetch(Handlers& handlers, const PythonVerbs& python)

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.kernels.memory cimport Allocator
from fabric._cython.shuffle.datasets.files cimport CDatasetFolder, OwnerWriter
from fabric._cython.shuffle.flight.directory cimport Directory
from fabric._cython.shuffle.flight.handlers cimport Handlers
from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CSchema, CStatus, PyRef


cdef extern from "flight/paths.hpp" namespace "fabric" nogil:
    cppclass CPutPath "fabric::PutPath":
        string name, transaction, writer
        uint32_t attempt
        cbool to_owner

cdef extern from "datasets/put.hpp" namespace "fabric" nogil:
    cppclass PutCalls:
        PyRef face
        CStatus (*transaction)(PyObject*, const string&, const string&, string&) noexcept
        CStatus (*begin)(PyObject*, const string&, const string&, string&, string&) noexcept
        CStatus (*commit)(PyObject*, const CPutPath&, uint64_t, uint64_t&) noexcept
        void (*undo)(PyObject*, const string&, const string&) noexcept
        CStatus (*open)(PyObject*, const CPutPath&, const string&, const shared_ptr[CSchema]&,
                        shared_ptr[OwnerWriter]&) noexcept
        CStatus (*reach)(const char*) noexcept
    cppclass PutBackend:
        PutBackend()
        PutCalls calls
        shared_ptr[CDatasetFolder] folder
        shared_ptr[Directory] table
        string agent_id
        Allocator* allocator
    void set_datasets(Handlers& handlers, PutBackend backend)

cdef extern from "flight/strangers.hpp" namespace "fabric" nogil:
    CStatus c_check_schema "fabric::check_foreign_schema"(const CSchema& schema)
    CStatus c_check_batch "fabric::check_foreign_batch"(
        const CRecordBatch& batch, const CSchema& schema)

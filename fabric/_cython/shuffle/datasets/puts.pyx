"""Datasets behind the verbs of a Flight server.

One job: set the handlers, and ask Python what only the coordinator knows. Each of the functions
below takes the GIL, once a put; rows never wait for Python.
"""

from cpython.object cimport PyObject
from cython.operator cimport dereference
from libc.stdint cimport uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.kernels.memory cimport Allocator
from fabric._cython.shuffle.datasets.files cimport CDatasetFolder, DatasetFolder, OwnerWriter
from fabric._cython.shuffle.datasets.spread cimport owner_of
from fabric._cython.shuffle.flight.directory cimport Directory, LocationDirectory
from fabric._cython.shuffle.flight.handlers cimport HandlerSet, Handlers
from fabric._cython.shuffle.pool cimport BufferPool
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CSchema, CStatus, PyRef, batch_of, ensure_pyarrow, schema_of, wrap_schema,
)
from fabric._cython.shuffle.wire.faults cimport raise_fault, told_status

from fabric import failpoints
from fabric._cython.shuffle.pool import default_pool


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


def serve_datasets(HandlerSet handlers not None, face, DatasetFolder folder not None,
                   LocationDirectory table not None, str agent_id not None):
    """Serve `folder` by `handlers`: reads of its partitions, and all puts.

    `face` is asked for transactions and owners (`flight.directory.Puts`). Tickets of edges go to
    the handler that was there before.
    """
    cdef PutBackend backend
    cdef BufferPool pool = default_pool()
    backend.calls.face = PyRef(<PyObject*> face)
    backend.calls.transaction, backend.calls.begin = &_transaction, &_begin
    backend.calls.commit, backend.calls.undo = &_commit, &_undo
    backend.calls.open = &_open
    if failpoints.armed():
        backend.calls.reach = &_reach
    backend.folder, backend.table = folder.folder, table.directory
    backend.agent_id, backend.allocator = agent_id.encode(), pool.allocator
    set_datasets(dereference(handlers.handlers), backend)


def check_foreign_schema(schema not None):
    """Raise `DataError` when a schema from outside is not one to work with."""
    raise_fault(c_check_schema(schema_of(schema).get()[0]))


def check_foreign_batch(batch not None, schema not None):
    """Raise `DataError` unless every value of a batch from outside can be read safely."""
    raise_fault(c_check_batch(batch_of(batch).get()[0], schema_of(schema).get()[0]))


cdef CStatus _transaction(PyObject* face, const string& name, const string& transaction,
                          string& location) noexcept with gil:
    try:
        location.assign(<string> (<object> face).transaction(name.decode(), transaction.decode()))
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _begin(PyObject* face, const string& name, const string& schema,
                    string& transaction, string& location) noexcept with gil:
    try:
        begun, where = (<object> face).begin(name.decode(), schema.data()[:schema.size()])
        transaction.assign(<string> (<str> begun).encode())
        location.assign(<string> where)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _commit(PyObject* face, const CPutPath& put, uint64_t rows,
                     uint64_t& version) noexcept with gil:
    try:
        (&version)[0] = (<object> face).commit(
            put.transaction.decode(), put.writer.decode(), rows)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef void _undo(PyObject* face, const string& transaction,
                const string& location) noexcept with gil:
    try:
        (<object> face).undo(transaction.decode(), location.data()[:location.size()])
    except BaseException as error:
        told_status(error)


cdef CStatus _open(PyObject* face, const CPutPath& put, const string& address,
                   const shared_ptr[CSchema]& schema,
                   shared_ptr[OwnerWriter]& out) noexcept with gil:
    try:
        path = [put.name.decode(), put.transaction.decode(), put.writer.decode(), put.attempt]
        writer = (<object> face).open(tuple(path), address.decode(), wrap_schema(schema))
        (&out)[0] = owner_of(writer, None)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _reach(const char* name) noexcept with gil:
    try:
        failpoints.reach(name.decode())
    except BaseException as error:
        return told_status(error)
    return CStatus()


ensure_pyarrow()

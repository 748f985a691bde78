"""What is behind the verbs of a Flight server, as an object to hand around, and what fills it.

One job: handlers over a native store, over other agents, and over a `Backend` of Python objects,
for which tickets become Python's classes and Python's iterators messages. Each function below that
is called from C++ takes the GIL, once a message or once in a while.
"""

cimport cython
from cpython.object cimport PyObject
from cython.operator cimport dereference
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.string cimport string

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.pump.pump cimport CConnections, Connections
from fabric._cython.shuffle.store.messages cimport Message
from fabric._cython.shuffle.store.store cimport CStore, Store
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CSchema, CStatus, PyRef, batch_of, ensure_pyarrow, schema_of,
)
from fabric._cython.shuffle.wire.faults cimport told_status
from fabric._cython.shuffle.wire.headers cimport (
    DatasetPart, DatasetTicket, PartitionTicket, ProducerAttempt, Ticket,
)


cdef extern from "wire/ticket.hpp" nogil:
    const PartitionTicket* partition_of "std::get_if<fabric::PartitionTicket>"(const Ticket*)
    const DatasetTicket* dataset_of "std::get_if<fabric::DatasetTicket>"(const Ticket*)

cdef extern from "flight/handlers.hpp" namespace "fabric" nogil:
    void set_store(Handlers& handlers, shared_ptr[const CStore] store)

    cppclass Passing:
        shared_ptr[CConnections] pool
        string ticket_key
        double idle_s
        int cpu
        PyRef transport
        CStatus (*token)(PyObject*, string&) noexcept
    void set_passing(Handlers& handlers, const Passing& passing)

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


@cython.final
cdef class HandlerSet:
    """The functions of one server; owners of a verb set theirs in C++."""

    def __cinit__(self):
        self.handlers = make_shared[Handlers]()


def serve_store(HandlerSet handlers not None, Store store not None):
    """Read tickets of edges from `store`; others go to the handler that was there before."""
    set_store(dereference(handlers.handlers), <shared_ptr[const CStore]> store.core)


def serve_passing(HandlerSet handlers not None, Connections connections not None, agent_token, *,
                  bytes ticket_key, double idle_s):
    """Fetch from other agents over `connections`; `agent_token()` is asked now and then."""
    cdef Passing passing
    passing.pool, passing.ticket_key = connections.pool, ticket_key
    passing.idle_s, passing.cpu = idle_s, current_cpu()
    passing.transport, passing.token = PyRef(<PyObject*> agent_token), &_token
    set_passing(dereference(handlers.handlers), passing)


cdef CStatus _token(PyObject* agent_token, string& out) noexcept with gil:
    try:
        out.assign(<string> (<str> (<object> agent_token)()).encode())
    except BaseException as error:
        return told_status(error)
    return CStatus()


@cython.final
cdef class _Face:
    """What Python offers, and the classes in which requests are handed to it."""

    cdef object streams, partition_request, dataset_request, part


def adapt(HandlerSet handlers not None, streams not None, *, partition_request not None,
          dataset_request not None, part not None, cbool get=True, cbool fetch=True):
    """Set the handlers that are named to call `streams`; see `fabric.flight.handlers.adapt`.

    `partition_request`, `dataset_request` and `part` are classes of `fabric.flight.ticket`.
    """
    cdef PythonVerbs python
    cdef _Face face = _Face.__new__(_Face)
    face.streams, face.partition_request = streams, partition_request
    face.dataset_request, face.part = dataset_request, part
    python.face = PyRef(<PyObject*> face)
    python.step, python.get, python.fetch = &_step, &_get, &_fetch
    if get:
        set_get(dereference(handlers.handlers), python)
    if fetch:
        set_fetch(dereference(handlers.handlers), python)


cdef CStatus _step(PyObject* items, Message& out, cbool& more) noexcept with gil:
    try:
        item = next(<object> items, None)
        (&more)[0] = item is not None
        if item is not None:
            header, batch = item
            if header is not None:
                out.header = header
            if batch is not None:
                out.batch = batch_of(batch)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _get(PyObject* face, const Ticket& ticket, cbool agent, Opened& out) noexcept with gil:
    try:
        _opened((<_Face> face).streams.get(_request(<_Face> face, &ticket), agent), out)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _fetch(PyObject* face, const string& address, const Ticket& ticket,
                    Opened& out) noexcept with gil:
    try:
        request = _request(<_Face> face, &ticket)
        _opened((<_Face> face).streams.fetch(address.decode(), request), out)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef int _opened(object opened, Opened& out) except -1:
    schema, items = opened
    if schema is not None:
        out.schema = schema_of(schema)
    out.items = PyRef(<PyObject*> items)
    return 0


cdef object _request(_Face face, const Ticket* ticket):
    cdef const PartitionTicket* partition = partition_of(ticket)
    cdef ProducerAttempt producer
    if partition == NULL:
        return _dataset(face, dataset_of(ticket))
    return face.partition_request(
        job=partition.job.decode(), edge=partition.edge, node_path=partition.node_path.decode(),
        partition=partition.partition,
        producers=tuple((producer.task, producer.attempt) for producer in partition.producers),
    )


cdef object _dataset(_Face face, const DatasetTicket* ticket):
    cdef DatasetPart part
    return face.dataset_request(
        name=ticket.name.decode(), version=ticket.version, partition=ticket.partition,
        parts=tuple(
            face.part(part.transaction.decode(), part.writer.decode(), part.attempt)
            for part in ticket.parts
        ),
    )


ensure_pyarrow()

"""Handlers of a server over Python: what a `Backend` of Python objects offers.

One job: tickets to Python's classes, Python's iterators to messages. Each function takes
the GIL once a message.
"""

cimport cython
from cpython.object cimport PyObject
from cython.operator cimport dereference
from libcpp cimport bool as cbool
from libcpp.string cimport string

from fabric._cython.shuffle.flight.handlers cimport HandlerSet
from fabric._cython.shuffle.wire.arrow_cpp cimport CStatus, batch_of, ensure_pyarrow, schema_of
from fabric._cython.shuffle.wire.faults cimport told_status


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
    cdef CProducer producer
    if partition == NULL:
        return _dataset(face, dataset_of(ticket))
    return face.partition_request(
        job=partition.job.decode(), edge=partition.edge, node_path=partition.node_path.decode(),
        partition=partition.partition,
        producers=tuple((producer.task, producer.attempt) for producer in partition.producers),
    )


cdef object _dataset(_Face face, const DatasetTicket* ticket):
    cdef CPart part
    return face.dataset_request(
        name=ticket.name.decode(), version=ticket.version, partition=ticket.partition,
        parts=tuple(
            face.part(part.transaction.decode(), part.writer.decode(), part.attempt)
            for part in ticket.parts
        ),
    )


ensure_pyarrow()

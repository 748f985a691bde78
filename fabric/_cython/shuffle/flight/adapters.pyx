"""Handlers of a server over Python: what a `Backend` of Python objects offers.

One job: tickets and paths to Python's classes, Python's iterators to messages. Each function takes
the GIL once a message.
"""

cimport cython
from cpython.object cimport PyObject
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.shuffle.flight.handlers cimport HandlerSet
from fabric._cython.shuffle.flight.told cimport told_status
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CResult, CSchema, CStatus, batch_of, ensure_pyarrow, schema_of, wrap_batch, wrap_schema,
)

from fabric.errors import DataError


def adapt(HandlerSet handlers not None, face, *, cbool get=True, cbool fetch=True, cbool put=True):
    """Set the handlers that are named to call `face` (`fabric.flight.adapted.Adapted`)."""
    cdef PythonVerbs python
    python.face = PyRef(<PyObject*> face)
    python.step, python.get, python.has = &_step, &_get, &_has
    python.fetch, python.put = &_fetch, &_put
    if get:
        set_get(handlers.handlers.get()[0], python)
    if fetch:
        set_fetch(handlers.handlers.get()[0], python)
    if put:
        set_put(handlers.handlers.get()[0], python)


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
        _opened((<object> face).get(_request(&ticket), agent), out)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _has(PyObject* face, const DatasetTicket& ticket, cbool& found) noexcept with gil:
    try:
        (&found)[0] = <cbool> (<object> face).has(_dataset(&ticket))
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _fetch(PyObject* face, const string& address, const Ticket& ticket,
                    Opened& out) noexcept with gil:
    try:
        _opened((<object> face).fetch(address.decode(), _request(&ticket)), out)
    except BaseException as error:
        return told_status(error)
    return CStatus()


cdef CStatus _put(PyObject* face, const CPutPath& path, cbool agent, Loan* loan,
                  string& answer) noexcept with gil:
    cdef PutReader reader = PutReader.__new__(PutReader)
    reader.loan = loan
    try:
        answer.assign(<string> (<object> face).put(_put_path(path), agent, reader))
    except BaseException as error:
        return told_status(error)
    finally:
        reader.loan = NULL
    return CStatus()


cdef object _put_path(const CPutPath& path):
    from fabric.flight.descriptor import PutPath

    return PutPath(
        path.name.decode(), path.transaction.decode(), path.writer.decode(), path.attempt,
        path.to_owner,
    )


cdef int _opened(object opened, Opened& out) except -1:
    schema, items = opened
    if schema is not None:
        out.schema = schema_of(schema)
    out.items = PyRef(<PyObject*> items)
    return 0


cdef object _request(const Ticket* ticket):
    from fabric.flight.ticket import PartitionRequest

    cdef const PartitionTicket* partition = partition_of(ticket)
    cdef CProducer producer
    if partition == NULL:
        return _dataset(dataset_of(ticket))
    return PartitionRequest(
        job=partition.job.decode(), edge=partition.edge, node_path=partition.node_path.decode(),
        partition=partition.partition,
        producers=tuple((producer.task, producer.attempt) for producer in partition.producers),
    )


cdef object _dataset(const DatasetTicket* ticket):
    from fabric.flight.ticket import DatasetRequest, Part

    cdef CPart part
    return DatasetRequest(
        name=ticket.name.decode(), version=ticket.version, partition=ticket.partition,
        parts=tuple(
            Part(part.transaction.decode(), part.writer.decode(), part.attempt)
            for part in ticket.parts
        ),
    )


@cython.final
cdef class PutReader:
    """The stream of one put, for as long as the call lasts."""

    cdef Reader* reader(self) except NULL:
        if self.loan == NULL:
            raise DataError("the put is over")
        return self.loan.reader

    @property
    def schema(self):
        """The schema of the stream."""
        cdef Reader* reader = self.reader()
        cdef CResult[shared_ptr[CSchema]] found
        with nogil:
            found = reader.GetSchema()
        if not found.ok():
            raise _unreadable(found.status())
        return wrap_schema(found.ValueUnsafe())

    def read(self):
        """(batch or None, metadata or None) of the next message; None at the end."""
        cdef Reader* reader = self.reader()
        cdef CResult[Chunk] found
        with nogil:
            found = reader.Next()
        if not found.ok():
            raise _unreadable(found.status())
        cdef Chunk chunk = found.ValueUnsafe()
        if chunk.data.get() == NULL and chunk.app_metadata.get() == NULL:
            return None
        return (
            None if chunk.data.get() == NULL else wrap_batch(chunk.data),
            None if chunk.app_metadata.get() == NULL else _bytes(chunk.app_metadata.get()),
        )

    def is_cancelled(self):
        """Whether the client went away, or the server stops."""
        return self.loan == NULL or self.loan.cancelled[0]()


cdef bytes _bytes(CBuffer* buffer):
    return <bytes> buffer.ToString()


cdef object _unreadable(CStatus status):
    text = status.ToString().decode("utf-8", "replace").splitlines()[0][:200]
    return DataError(f"the stream can't be read: {text}")


ensure_pyarrow()

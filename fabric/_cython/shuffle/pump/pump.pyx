"""Streams from and to other Flight servers, pumped by native threads.

One job: the Python face of `fetch.hpp`, `put.hpp` and `connection.hpp`. Waits leave the GIL alone;
what is here already is taken without giving it up, because to get it back beside a busy Python
thread takes up to 5 ms.
"""

import atexit
from weakref import WeakSet

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cython.operator cimport dereference
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.utility cimport pair
from libcpp.vector cimport vector

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CResult, CSchema, batch_of, ensure_pyarrow, schema_of, wrap_batch,
)
from fabric._cython.shuffle.store.budget cimport Budget, CBudget
from fabric._cython.shuffle.store.messages cimport Message
from fabric._cython.shuffle.wire.faults cimport raise_fault
from fabric._cython.shuffle.wire.headers cimport (
    EdgeHeader, Event, OptionalPartition, StreamCheck, Where, attempts_of, decode_header,
)

from fabric.errors import PeerLostError


cdef extern from "wire/check.hpp" namespace "fabric" nogil:
    cppclass OptionalCheck "std::optional<fabric::StreamCheck>":
        OptionalCheck()
        OptionalCheck(StreamCheck)

cdef extern from "pump/connection.hpp" namespace "fabric" nogil:
    const size_t C_PER_ADDRESS_MAX "fabric::PER_ADDRESS_MAX"

    cppclass PeerBounds:
        int64_t bytes, requests

    cppclass ConnectOptions:
        ConnectOptions()
        string roots, certificate, key
        double connect_s
        shared_ptr[CBudget] budget
        PeerBounds peer

    shared_ptr[CConnections] make_pool "std::make_shared<fabric::Connections>"(
        ConnectOptions) except +

cdef extern from "pump/call.hpp" namespace "fabric" nogil:
    ctypedef vector[pair[string, string]] Headers

    CResult[vector[string]] c_act "fabric::act"(
        CConnections& pool, const string& address, const string& name, const string& body,
        const Headers& headers, double timeout_s)

cdef extern from "pump/fetch.hpp" namespace "fabric" nogil:
    cppclass FetchOrder:
        FetchOrder()
        string address, ticket, subject
        Headers headers
        double idle_s
        cbool events, gathers
        Where where

    cppclass CFetch "fabric::Fetch":
        void start() except +
        cbool take_now(size_t max, vector[Message]& out)
        CResult[cbool] wait(Patience& patience)
        void close()
        void stop()
        int tries()

    shared_ptr[CFetch] make_fetch "std::make_shared<fabric::Fetch>"(
        shared_ptr[CConnections], FetchOrder, OptionalCheck) except +

cdef extern from "pump/put.hpp" namespace "fabric" nogil:
    cppclass PutOrder:
        PutOrder()
        string address
        vector[string] path
        shared_ptr[CSchema] schema
        Headers headers
        double idle_s
        cbool edge
        string job
        uint32_t attempt
        int cpu

    shared_ptr[CPut] make_put "std::make_shared<fabric::PutCall>"(
        shared_ptr[CConnections], PutOrder) except +

PER_ADDRESS_MAX = C_PER_ADDRESS_MAX
"""Connections to one server at most."""

_open_pools = WeakSet()


@atexit.register
def _close_all():
    """Native threads must not outlive the libraries they call."""
    for connections in list(_open_pools):
        connections.close()


cdef Headers _headers(token) except *:
    cdef Headers found
    if token:
        found.push_back(pair[string, string](b"authorization", b"Bearer " + token.encode()))
    return found


cdef class Connections:
    """Connections by address, kept and shared; thread-safe.

    Parameters
    ----------
    tls_roots
        PEM of the CA, for ``grpc+tls`` addresses.
    tls_identity
        PEM of our own (certificate, key) when the server asks for one.
    connect_s
        How long one attempt to connect may take.
    budget
        Of the bytes that have come and nobody has taken yet.
    peer_bytes, peer_requests
        The same bytes, and the streams that gather, of each address.
    """

    def __cinit__(self, tls_roots=None, tls_identity=None, *, double connect_s=20.0,
                  Budget budget=None, peer_bytes=None, peer_requests=None):
        cdef ConnectOptions options
        options.roots = tls_roots or b""
        if tls_identity:
            options.certificate, options.key = tls_identity
        options.connect_s = connect_s
        if budget is not None:
            options.budget = budget.core
        if peer_bytes is not None:
            options.peer.bytes = peer_bytes
        if peer_requests is not None:
            options.peer.requests = peer_requests
        self.pool = make_pool(options)
        _open_pools.add(self)

    @property
    def n_calls(self):
        """Streams whose thread still runs."""
        return self.pool.get().n_calls()

    def in_flight(self, str address not None):
        """(bytes, gathering requests) on their way from there, or here and not taken yet."""
        cdef shared_ptr[Governor] governor = self.pool.get().governor(address.encode())
        return governor.get().bytes(), governor.get().requests()

    def shorten(self, paths not None, *, bint only=False):
        """New connections to these addresses ({address: path}) go by Unix sockets.

        With `only` no other sockets are used any more. A socket that can't be opened, or lies in a
        folder that is not this user's alone, is not used: why is returned, by address.
        """
        cdef map[string, string] sockets, refused
        for address, path in paths.items():
            sockets[address.encode()] = path.encode()
        refused = self.pool.get().shorten(sockets, only)
        return {one.first.decode(): one.second.decode() for one in refused}

    def lend(self, str address not None):
        """A connection to `address` as a context manager; after a `PeerLostError` it is broken."""
        cdef CResult[shared_ptr[CConnection]] found = self.pool.get().lend(address.encode())
        raise_fault(found.status())
        cdef Lease lease = Lease.__new__(Lease)
        lease.pool, lease.connection = self.pool, found.ValueUnsafe()
        return lease

    def fetch(self, str address not None, bytes ticket not None, *, str token="",
              double idle_s=30.0, bint events=False, bint gathers=False, str job, uint32_t edge,
              producers, partition=None, str node="", str tasks="", str subject=""):
        """The stream of an agent: checked, and tried again when the connection breaks.

        `producers` are the (task, attempt) that must come to their end; `subject` begins errors.
        One that `gathers` may wait until other requests to its peer are served: only for readers
        who wait for nobody else.
        """
        cdef FetchOrder order = _order(address, ticket, token, idle_s)
        order.events, order.gathers = events, gathers
        order.subject = subject.encode()
        order.where.job, order.where.node = job.encode(), node.encode()
        order.where.agent, order.where.task = address.encode(), tasks.encode()
        cdef OptionalPartition only
        if partition is not None:
            only = OptionalPartition(<uint32_t> partition)
        cdef OptionalCheck check = OptionalCheck(StreamCheck(
            job.encode(), edge, attempts_of(producers), only, order.where, True,
            current_cpu()))
        return _started(make_fetch(self.pool, order, check))

    def read(self, str address not None, bytes ticket not None, *, str token="",
             double idle_s=30.0):
        """The stream of a stranger: every batch is fully validated."""
        cdef FetchOrder order = _order(address, ticket, token, idle_s)
        return _started(make_fetch(self.pool, order, OptionalCheck()))

    def put(self, str address not None, path, schema, *, str token="", double idle_s=30.0,
            job=None, uint32_t attempt=0):
        """Begin a put under `path`; with a `job` its messages carry headers of that job."""
        cdef PutOrder order
        order.address = address.encode()
        for element in path:
            order.path.push_back(element.encode())
        order.schema = schema_of(schema)
        order.headers, order.idle_s = _headers(token), idle_s
        order.edge = job is not None
        order.job = (job or "").encode()
        order.attempt, order.cpu = attempt, current_cpu()
        cdef Put put = Put.__new__(Put)
        put.put = make_put(self.pool, order)
        put.put.get().start()
        return put

    def act(self, str address not None, str name not None, bytes body=b"", *, str token="",
            double timeout_s=30.0):
        """Call an action; the bodies of its results."""
        cdef string where = address.encode(), action = name.encode(), given = body
        cdef Headers headers = _headers(token)
        cdef shared_ptr[CConnections] pool = self.pool
        cdef CResult[vector[string]] found
        with nogil:
            found = c_act(dereference(pool), where, action, given, headers, timeout_s)
        raise_fault(found.status())
        return list(found.ValueUnsafe())

    def close(self):
        """Lend no more; streams still open fail."""
        cdef shared_ptr[CConnections] pool = self.pool
        _open_pools.discard(self)
        with nogil:
            pool.get().close()


@cython.final
cdef class Lease:
    """A connection while somebody uses it."""

    cdef shared_ptr[CConnections] pool
    cdef shared_ptr[CConnection] connection

    def __enter__(self):
        return <uint64_t> self.connection.get()

    def __exit__(self, kind, error, trace):
        if isinstance(error, PeerLostError):
            self.pool.get().broken(self.connection)
        self.connection.reset()


cdef FetchOrder _order(str address, bytes ticket, str token, double idle_s) except *:
    cdef FetchOrder order
    order.address, order.ticket = address.encode(), ticket
    order.headers, order.idle_s = _headers(token), idle_s
    return order


cdef Fetch _started(shared_ptr[CFetch] fetch):
    cdef Fetch face = Fetch.__new__(Fetch)
    face.fetch = fetch
    fetch.get().start()
    return face


@cython.final
cdef class Fetch:
    """A stream being read ahead; one thread takes from it, any may close it."""

    cdef shared_ptr[CFetch] fetch

    def __dealloc__(self):
        if self.fetch:
            self.close()

    @property
    def tries(self):
        """How often the stream was begun."""
        return self.fetch.get().tries()

    def take(self, size_t max=256):
        """Up to `max` batches of rows; waits for the first, and gives [] at the end.

        Raises
        ------
        FabricError
            What the server said; `PeerLostError` when it was silent for `idle_s` or is gone;
            `PartitionLostError` when the messages are not those that were asked for.
        """
        cdef vector[Message] found
        self._take(max, found)
        return [wrap_batch(message.batch) for message in found]

    def take_messages(self, size_t max=256):
        """The same with headers, events too (`events=True`): (header, batch or None)."""
        cdef vector[Message] found
        self._take(max, found)
        return [_message(message) for message in found]

    cpdef void close(self) noexcept:
        """Cancel what is left of the stream; its thread has ended afterwards."""
        cdef shared_ptr[CFetch] fetch = self.fetch
        with nogil:
            fetch.get().close()

    cdef int _take(self, size_t max, vector[Message]& found) except -1:
        cdef shared_ptr[CFetch] fetch = self.fetch
        cdef CResult[cbool] done
        cdef Patience patience
        if fetch.get().take_now(max, found):
            return 0
        while True:
            with nogil:
                done = fetch.get().wait(patience)
            raise_fault(done.status())
            if done.ValueUnsafe():
                fetch.get().take_now(max, found)
                return 0
            PyErr_CheckSignals()


cdef object _message(const Message& message):
    cdef CResult[EdgeHeader] header = decode_header(message.header)
    cdef bytes data = message.header
    if header.ok() and header.ValueUnsafe().event != Event.ROWS:
        return data, None
    return data, wrap_batch(message.batch)


@cython.final
cdef class Put:
    """A put in progress; one thread writes."""

    def __dealloc__(self):
        if self.put:
            self.abandon()

    @property
    def rows(self):
        """Rows that were sent."""
        return self.put.get().rows()

    def write(self, batch, uint32_t partition=0):
        """Send rows (of a partition); raises what went wrong with these or earlier ones."""
        cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
        cdef shared_ptr[CPut] put = self.put
        cdef Batches spent  # destroyed here, with the GIL
        cdef CResult[cbool] done
        cdef Patience patience
        while True:
            with nogil:
                done = put.get().write(rows, partition, patience, spent)
            raise_fault(done.status())
            if done.ValueUnsafe():
                return
            spent.clear()
            PyErr_CheckSignals()

    def seal(self):
        """End the stream; the server's last acknowledgement."""
        cdef shared_ptr[CPut] put = self.put
        cdef Batches spent
        cdef CResult[cbool] done
        cdef Patience patience
        cdef string answer
        cdef bytes data
        while True:
            with nogil:
                done = put.get().seal(patience, spent, answer)
            raise_fault(done.status())
            if done.ValueUnsafe():
                data = answer
                return data
            spent.clear()
            PyErr_CheckSignals()

    cpdef void abandon(self) noexcept:
        """Break the stream off: the server won't take it for a whole one. Fine after `seal`."""
        cdef shared_ptr[CPut] put = self.put
        cdef Batches spent
        with nogil:
            put.get().close()
            put.get().drain(spent)


ensure_pyarrow()

"""Pipelined edges between agents: what `jobs.hpp` and `open.hpp` do, for Python.

One job: hand the pipes of jobs to the server, and open one exchange for each (edge, producers'
agent). No Python runs between a producer's put and a consumer's take.
"""

cimport cython
from cython.operator cimport dereference as deref
from libc.stdint cimport uint32_t, uint64_t
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.flight.directory cimport Directory, LocationDirectory
from fabric._cython.shuffle.flight.handlers cimport HandlerSet, Handlers
from fabric._cython.shuffle.pump.pump cimport CConnections, Connections
from fabric._cython.shuffle.ring.ring cimport BatchPipes, Pipes
from fabric._cython.shuffle.wire.arrow_cpp cimport CSchema, CStatus, ensure_pyarrow, schema_of
from fabric._cython.shuffle.wire.faults cimport raise_fault
from fabric._cython.shuffle.wire.headers cimport Where


cdef extern from "exchange/jobs.hpp" namespace "fabric" nogil:
    cppclass CJobPipes "fabric::JobPipes":
        CJobPipes()
        void add(const string& job, shared_ptr[BatchPipes] pipes)
        void begin(const string& job, uint32_t edge, uint32_t producer, uint32_t attempt)
        void remove(const string& job)

    void bind_taps(Handlers& handlers, shared_ptr[CJobPipes] jobs,
                   shared_ptr[const Directory] table, double idle_s)
    void bind_exchange(Handlers& handlers, shared_ptr[CJobPipes] jobs, double idle_s, int cpu)

cdef extern from "exchange/open.hpp" namespace "fabric" nogil:
    const uint64_t WINDOW_BYTES

    cppclass WantedPartition:
        WantedPartition()
        uint32_t partition, n_producers

    cppclass ExchangeRequest:
        string job, node_path
        uint32_t edge, n_partitions
        string compression
        vector[WantedPartition] wanted

    cppclass ExpectedProducer:
        ExpectedProducer()
        uint32_t task, attempt, partition

    cppclass ExchangeOrder:
        ExchangeOrder()
        string address
        ExchangeRequest request
        vector[ExpectedProducer] expected
        shared_ptr[CSchema] schema
        vector[pair[string, string]] headers
        double idle_s
        Where where
        uint64_t window_bytes
        int cpu

    cppclass COpenExchange "fabric::OpenExchange":
        void close()
        CStatus failure()
        uint64_t rows()

    shared_ptr[COpenExchange] open_exchange(
        shared_ptr[CConnections] pool, shared_ptr[BatchPipes] pipes, ExchangeOrder order) except +
    shared_ptr[COpenExchange] open_local_exchange(
        shared_ptr[CJobPipes] source, shared_ptr[BatchPipes] to, ExchangeRequest request,
        double idle_s) except +


@cython.final
cdef class JobPipes:
    """The pipelined edges of every job on this agent, for the agents of their consumers."""

    cdef shared_ptr[CJobPipes] jobs

    def __cinit__(self):
        self.jobs = make_shared[CJobPipes]()

    def add(self, str job not None, Pipes pipes not None):
        """From now on streams may ask for `job`."""
        self.jobs.get().add(job.encode(), pipes.pipes)

    def begin(self, str job not None, uint32_t edge, uint32_t producer, uint32_t attempt):
        """A task attempt begins to write to `edge`: its attempt rides in every header."""
        self.jobs.get().begin(job.encode(), edge, producer, attempt)

    def remove(self, str job not None):
        """Nobody finds `job` any more; streams that are open go on."""
        self.jobs.get().remove(job.encode())

    def serve(self, HandlerSet handlers not None, double idle_s=30.0):
        """Answer DoExchange; a job that is not known within `idle_s` is refused."""
        bind_exchange(deref(handlers.handlers), self.jobs, idle_s, current_cpu())

    def serve_taps(self, HandlerSet handlers not None, LocationDirectory table not None,
                   double idle_s=30.0):
        """Answer DoGet of pipelined edges; a lossless tap is cut when it holds a job up so long."""
        bind_taps(deref(handlers.handlers), self.jobs,
                  <shared_ptr[const Directory]> table.directory, idle_s)


cdef ExchangeRequest request_of(str job, str node, uint32_t edge, uint32_t n_partitions,
                                object producers):
    """What an exchange asks for: partitions, and how many producers each has there."""
    cdef ExchangeRequest request
    cdef WantedPartition wanted
    request.job, request.node_path = job.encode(), node.encode()
    request.edge, request.n_partitions = edge, n_partitions
    counts = {}
    for _, _, partition in producers:
        counts[partition] = counts.get(partition, 0) + 1
    for partition, n_producers in sorted(counts.items()):
        wanted.partition, wanted.n_producers = partition, n_producers
        request.wanted.push_back(wanted)
    return request


cdef class OpenExchange:
    """An exchange as whoever opened it sees it."""

    cdef shared_ptr[COpenExchange] exchange

    @property
    def rows(self):
        """Rows that came so far."""
        return self.exchange.get().rows()

    def check(self):
        """Raise what it failed with; nothing while it runs, ended well or was closed."""
        raise_fault(self.exchange.get().failure())

    def close(self):
        """Cut it, wherever it is; fine when it is over."""
        with nogil:
            self.exchange.get().close()


@cython.final
cdef class Exchange(OpenExchange):
    """What the producers of one edge on one other agent send to the partitions of this one.

    Parameters
    ----------
    producers
        (task, attempt, partition) of every producer there that has rows for a partition here.
    window_bytes
        How much of one partition may be on its way and unread, in decoded bytes.
    compression
        Of rows on their way: "", "lz4" or "zstd".
    """

    def __cinit__(self, Connections connections not None, Pipes pipes not None, *, str address,
                  str token, str job, str node, uint32_t edge, uint32_t n_partitions, producers,
                  schema, double idle_s=30.0, uint64_t window_bytes=WINDOW_BYTES,
                  str agent="", str compression=""):
        cdef ExchangeOrder order
        cdef ExpectedProducer producer
        order.address, order.idle_s, order.cpu = address.encode(), idle_s, current_cpu()
        order.request = request_of(job, node, edge, n_partitions, producers)
        order.request.compression = compression.encode()
        order.where.job, order.where.node = job.encode(), node.encode()
        order.where.agent = (agent or address).encode()
        for task, attempt, partition in producers:
            producer.task, producer.attempt, producer.partition = task, attempt, partition
            order.expected.push_back(producer)
        order.schema = schema_of(schema)
        order.headers.push_back(
            pair[string, string](b"authorization", f"Bearer {token}".encode()))
        order.window_bytes = window_bytes
        self.exchange = open_exchange(connections.pool, pipes.pipes, move(order))


@cython.final
cdef class InProcessExchange(OpenExchange):
    """The same between two agents of this process: from ring to ring."""

    def __cinit__(self, JobPipes jobs not None, Pipes pipes not None, *, str job, str node,
                  uint32_t edge, uint32_t n_partitions, producers, double idle_s=30.0):
        self.exchange = open_local_exchange(
            jobs.jobs, pipes.pipes, request_of(job, node, edge, n_partitions, producers), idle_s)


ensure_pyarrow()

"""The materialised partitions of an agent, and streams of their messages, for Python.

One job: thin faces over `store.hpp`. Every call that may wait or copy runs without the GIL; a
reader takes lists of messages, because each call costs a turn of the GIL beside busy threads.
"""

from os import fsencode

cimport cython
from cython.operator cimport dereference
from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared, shared_ptr, unique_ptr
from libcpp.set cimport set as cset
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.store.budget cimport Budget
from fabric._cython.shuffle.store.messages cimport Message, MessageStream
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CResult, CSchema, CStatus, batch_of, ensure_pyarrow, schema_of, wrap_batch,
    wrap_schema,
)
from fabric._cython.shuffle.wire.faults cimport raise_fault
from fabric._cython.shuffle.wire.headers cimport ProducerAttempt, PartitionTicket, attempts_of


cdef extern from "store/store.hpp":
    pass

cdef extern from "store/payload.hpp" namespace "fabric" nogil:
    CStatus read_messages(MessageStream& source, size_t n_messages, vector[Message]& out)


cdef ProducerAttempt attempt_of(uint32_t task, uint32_t attempt):
    cdef ProducerAttempt found
    found.task, found.attempt = task, attempt
    return found


cdef PartitionTicket ticket_of(
        str job, uint32_t edge, uint32_t partition, producers) except *:
    cdef PartitionTicket ticket
    ticket.job, ticket.edge, ticket.partition = job.encode(), edge, partition
    ticket.producers = attempts_of(producers)
    return ticket


@cython.final
cdef class Store:
    """What the tasks of one agent wrote.

    Parameters
    ----------
    agent_id
        Named in errors.
    budget
        Bytes of rows in memory; without bounds when not given.
    folders
        Where rows go that the budget has no room for, in turn; without any all stay in memory.
    keep_free_bytes
        What is to stay free on the disks of `folders`.
    """

    def __cinit__(self, str agent_id="", Budget budget=None, folders=(),
                  int64_t keep_free_bytes=64 << 20):
        if budget is None:
            budget = Budget((1 << 63) - 1)
        cdef vector[string] paths
        for folder in folders:
            paths.push_back(<string> fsencode(folder))
        self.core = make_shared[CStore](
            <string> agent_id.encode(), budget.core, paths, keep_free_bytes, current_cpu()
        )

    def begin(self, str job, uint32_t edge, schema, int32_t n_partitions, uint32_t producer,
              uint32_t attempt, str compression=""):
        """Open the output of one task attempt; what the same attempt wrote before is dropped."""
        cdef string of = job.encode(), codec = compression.encode()
        cdef shared_ptr[CSchema] rows = schema_of(schema)
        cdef ProducerAttempt who = attempt_of(producer, attempt)
        cdef CStatus status
        with nogil:
            status = self.core.get().begin(of, edge, rows, n_partitions, who, codec)
        raise_fault(status)

    def append(self, str job, uint32_t edge, uint32_t producer, uint32_t attempt, batch,
               const int64_t[::1] offsets=None):
        """Add rows: partition p owns ``batch[offsets[p]:offsets[p + 1]]``; None: all own all."""
        cdef string of = job.encode()
        cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
        cdef ProducerAttempt who = attempt_of(producer, attempt)
        cdef vector[int64_t] bounds
        cdef Py_ssize_t n = 0 if offsets is None else offsets.shape[0]
        if n > 0:
            bounds.assign(&offsets[0], &offsets[0] + n)
        cdef CStatus status
        with nogil:
            status = self.core.get().append(of, edge, who, move(rows), move(bounds))
        raise_fault(status)

    def seal(self, str job, uint32_t edge, uint32_t producer, uint32_t attempt):
        """End the output, which never changes from now on; returns its rows and bytes."""
        cdef string of = job.encode()
        cdef ProducerAttempt who = attempt_of(producer, attempt)
        cdef CResult[CTotals] found
        with nogil:
            found = self.core.get().seal(of, edge, who)
        raise_fault(found.status())
        return found.ValueUnsafe().rows, found.ValueUnsafe().bytes

    def discard(self, str job, uint32_t edge, uint32_t producer, uint32_t attempt):
        """Drop the output of a task attempt that did not succeed; unknown is fine."""
        cdef string of = job.encode()
        cdef ProducerAttempt who = attempt_of(producer, attempt)
        with nogil:
            self.core.get().discard(of, edge, who)

    def release(self, str job):
        """Drop all partitions of `job`; returns the bytes given back."""
        cdef string of = job.encode()
        cdef int64_t n_bytes
        with nogil:
            n_bytes = self.core.get().release(of)
        return n_bytes

    @property
    def stored_bytes(self):
        """Bytes of all rows in memory, sealed or not, and of IPC bytes kept beside them."""
        cdef int64_t n_bytes
        with nogil:
            n_bytes = self.core.get().stored_bytes()
        return n_bytes

    @property
    def spilled_bytes(self):
        """Decoded bytes of all rows that lie on the disk now."""
        cdef int64_t n_bytes
        with nogil:
            n_bytes = self.core.get().spilled_bytes()
        return n_bytes

    def fail_disk(self, int error):
        """Let every write to the spill folders fail with this errno, for tests; 0: none."""
        self.core.get().fail_disk(error)

    def jobs(self):
        """Jobs that hold anything here."""
        cdef cset[string] found
        with nogil:
            found = self.core.get().jobs()
        return {job.decode() for job in found}

    def edge_schema(self, str job, uint32_t edge):
        """The schema of rows on an edge; `NotFoundError` when nothing of it is here."""
        cdef string of = job.encode()
        cdef CResult[shared_ptr[CSchema]] found
        with nogil:
            found = self.core.get().edge_schema(of, edge)
        raise_fault(found.status())
        return wrap_schema(found.ValueUnsafe())

    def open(self, str job, uint32_t edge, uint32_t partition, producers, bint checksums=True):
        """Messages of one partition with headers, producer by producer, each closed by END."""
        cdef PartitionTicket ticket = ticket_of(job, edge, partition, producers)
        cdef CResult[unique_ptr[MessageStream]] found
        with nogil:
            found = self.core.get().open(ticket, checksums)
        return stream_of(found)

    def batches(self, str job, uint32_t edge, uint32_t partition, producers):
        """The same rows without headers and events: the way inside one agent."""
        cdef PartitionTicket ticket = ticket_of(job, edge, partition, producers)
        cdef CResult[unique_ptr[MessageStream]] found
        with nogil:
            found = self.core.get().batches(ticket)
        return stream_of(found)

    def local(self, str job, uint32_t edge, uint32_t partition, producers):
        """The same rows as a `LocalRows` for each producer."""
        cdef PartitionTicket ticket = ticket_of(job, edge, partition, producers)
        cdef CResult[vector[shared_ptr[CLocalRows]]] found
        with nogil:
            found = self.core.get().local(ticket)
        raise_fault(found.status())
        return [local_rows(one) for one in found.ValueUnsafe()]

    def put_here(self, str job, uint32_t edge, uint32_t producer, uint32_t attempt, schema):
        """A `LocalRows` to append to: for rows that a task fetches from another agent."""
        cdef string of = job.encode()
        cdef ProducerAttempt who = attempt_of(producer, attempt)
        cdef shared_ptr[CSchema] rows = schema_of(schema)
        return local_rows(self.core.get().put_here(of, edge, who, rows))


cdef LocalRows local_rows(shared_ptr[CLocalRows] core):
    cdef LocalRows made = LocalRows.__new__(LocalRows)
    made.core = core
    return made


@cython.final
cdef class LocalRows:
    """Rows that lie on this agent, in memory or on its disk, for one of its tasks.

    They stay readable when their job is released.
    """

    def __dealloc__(self):
        with nogil:
            self.core.reset()

    @property
    def n_rows(self):
        """How many there are."""
        return self.core.get().totals().rows

    @property
    def n_bytes(self):
        """About how many decoded bytes they have."""
        return self.core.get().totals().bytes

    @property
    def spilled(self):
        """Whether some of them are on the disk."""
        return <bint> self.core.get().spilled()

    def append(self, batch):
        """Add rows fetched from elsewhere; `StorageError` when neither memory nor disk has room."""
        cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
        cdef CStatus status
        with nogil:
            status = self.core.get().append(move(rows))
        raise_fault(status)

    def seal(self):
        """That was all."""
        cdef CStatus status
        with nogil:
            status = self.core.get().seal()
        raise_fault(status)

    def batches(self):
        """All of them in order, from the first on each time this is called."""
        cdef Stream stream = Stream.__new__(Stream)
        stream.core = self.core.get().batches()
        return stream

    def keep(self):
        """Let them stay in memory until `let_go`; False when they can't, or too much is kept."""
        cdef cbool kept
        with nogil:
            kept = self.core.get().keep()
        return <bint> kept

    def let_go(self):
        """They may move to the disk again."""
        with nogil:
            self.core.get().let_go()


cdef Stream stream_of(CResult[unique_ptr[MessageStream]]& found):
    raise_fault(found.status())
    cdef Stream stream = Stream.__new__(Stream)
    stream.core = move(found.ValueUnsafe())
    return stream


@cython.final
cdef class Stream:
    """Messages on their way out; one thread reads."""

    def take(self, size_t n_messages=16):
        """The next messages as (header, batch), at most `n_messages`; none when all are out."""
        cdef vector[Message] found
        cdef CStatus status
        with nogil:
            status = read_messages(dereference(self.core), n_messages, found)
        raise_fault(status)
        return [(<bytes> message.header, wrap_batch(message.batch)) for message in found]

    def take_batches(self, size_t n_messages=16):
        """The next batches alone, at most `n_messages`; none when all are out."""
        cdef vector[Message] found
        cdef CStatus status
        with nogil:
            status = read_messages(dereference(self.core), n_messages, found)
        raise_fault(status)
        return [wrap_batch(message.batch) for message in found]


ensure_pyarrow()

"""Pipelined edges inside one agent: what `pipes.hpp` does, for Python.

One job: items and ports to and from C++. A call first tries with the GIL held, which takes well
under a microsecond and needs no hand-over; only when it must wait is the GIL released. What a
close or a cancel drops is destroyed here, with no lock held.
"""

cimport cython
from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from fabric._cython.shuffle.ring.deadline cimport NEVER, Deadline, deadline_in
from fabric._cython.shuffle.wire.arrow_cpp cimport batch_of, ensure_pyarrow, wrap_batch
from fabric._cython.shuffle.wire.faults cimport raise_fault


@cython.final
@cython.freelist(64)
cdef class Rows:
    """A batch of one producer task."""

    __match_args__ = ("producer", "batch")

    def __cinit__(self, uint32_t producer, batch not None):
        self.producer = producer
        self.batch = batch

    def __eq__(self, other):
        if not isinstance(other, Rows):
            return NotImplemented
        return self.producer == other.producer and self.batch == other.batch

    def __repr__(self):
        return f"Rows(producer={self.producer}, batch={self.batch!r})"


@cython.final
@cython.freelist(64)
cdef class Mark:
    """An event of one producer task; `value` is the watermark in microseconds or the barrier id."""

    __match_args__ = ("producer", "event", "value", "total_rows")

    def __cinit__(self, uint32_t producer, event not None, int64_t value=0, uint64_t total_rows=0):
        self.producer, self.event = producer, event
        self.value, self.total_rows = value, total_rows

    def __eq__(self, other):
        if not isinstance(other, Mark):
            return NotImplemented
        return (
            self.producer == other.producer and self.event == other.event
            and self.value == other.value and self.total_rows == other.total_rows
        )

    def __hash__(self):
        return hash((self.producer, self.event, self.value, self.total_rows))

    def __repr__(self):
        return (f"Mark(producer={self.producer}, event={self.event!r}, value={self.value}, "
                f"total_rows={self.total_rows})")


cdef class Pipes:
    """Every pipelined edge of one job on this agent; `events` are the members of `Event`."""

    def __cinit__(self, str job, events=()):
        self.pipes = make_shared[BatchPipes](<string> job.encode())
        self.events = tuple(events)

    def declare(self, uint32_t edge, uint32_t n_partitions, uint64_t batches_max=0,
                uint64_t bytes_max=0, uint64_t wait_ns=0):
        """Make an edge known, from either end and in any order; a bound of 0 leaves it as it is.

        With `wait_ns` no more bytes wait for a partition than its consumer takes in that time.
        """
        self.check(self.pipes.get().declare(edge, n_partitions, batches_max, bytes_max, wait_ns))

    def put(self, sends):
        """Put every item into its ring; waits until all are in, whichever has room first.

        Items of one port keep their order. `CancelledError` when the job is cancelled meanwhile.
        Returns the nanoseconds that it waited for room.
        """
        cdef Putting putting
        cdef Send send
        cdef Mark mark
        for port, item in sends:
            send.port = self.port(port)
            if type(item) is Rows:
                raise_fault(self.pipes.get().add(
                    send.port, (<Rows> item).producer, batch_of((<Rows> item).batch), putting))
            else:
                mark = item
                send.item = event_item(mark.producer, <Kind> <uint32_t> int(mark.event),
                                       mark.value, mark.total_rows)
                putting.sends.push_back(move(send))
        return self.put_all(putting)

    def put_parts(self, uint32_t producer, batches):
        """Put batches that are in partition order: (edge, batch, offsets) of each edge.

        Partition p gets rows ``offsets[p]`` to ``offsets[p + 1]``, nothing when there are none;
        with None for offsets every partition gets all. Waits and returns as `put` does.
        """
        cdef Putting putting
        cdef const int64_t[::1] view
        cdef Offsets ends
        for edge, batch, offsets in batches:
            ends = Offsets()
            if offsets is not None:
                view = offsets
                ends = Offsets(&view[0], view.shape[0])
            raise_fault(self.pipes.get().add_parts(edge, producer, batch_of(batch), ends, putting))
        return self.put_all(putting)

    def take(self, ports):
        """The next item of any of `ports`, earlier ports first; waits for one.

        To be fair among ports, pass them in another order each time.
        """
        return self.take_many(ports, 1)[0]

    def take_many(self, ports, size_t n, uint64_t bytes_max=UINT64_MAX, timeout_s=None):
        """Up to `n` items of `ports`, each port its share and in its order; waits for the first.

        With rows of `bytes_max` bytes the list is closed. The list is empty only when nothing came
        within `timeout_s` seconds (None: for ever).
        """
        cdef vector[BatchPort*] places
        for port in ports:
            places.push_back(self.port(port))
        cdef Taking taking
        cdef Deadline deadline = NEVER if timeout_s is None else deadline_in(timeout_s)
        taking.bytes_max = bytes_max
        cdef BatchPipes* pipes = self.pipes.get()
        cdef Refusal refused = pipes.take_now(places, n, taking)
        self.check(refused)
        if taking.items.empty():
            with nogil:
                refused = pipes.take(places, n, taking, deadline)
            self.check(refused)
            if 0 < taking.items.size() < n:  # more came while this thread waited for the GIL
                self.check(pipes.take_now(places, n - taking.items.size(), taking))
        cdef list items = []
        cdef size_t i
        for i in range(taking.items.size()):
            items.append(self.taken(taking.items[i]))
        return items

    def set_native(self, port):
        """The consumer of `port` is a native thread, which must never meet the GIL.

        Batches put from here on hold no buffers of Python objects: those are copied.
        """
        self.port(port).set_native()

    def close(self, port):
        """The consumer of `port` wants no more: what waits and what comes is dropped."""
        self.pipes.get().close(self.port(port)[0])

    def wanted(self, uint32_t edge):
        """Whether any partition of `edge` still has, or may get, a consumer."""
        cdef cbool answer = False
        self.check(self.pipes.get().wanted(edge, answer))
        return <bint> answer

    def waiting_bytes(self):
        """Bytes of all batches that wait now."""
        return self.pipes.get().waiting_bytes()

    def cancel(self, str reason):
        """Wake everyone: each waiting and each later call raises `CancelledError`."""
        self.pipes.get().cancel(<string> reason.encode())

    cdef int check(self, const Refusal& refused) except -1:
        raise_fault(self.pipes.get().status(refused))
        return 0

    cdef BatchPort* port(self, object port) except NULL:
        cdef BatchPort* found = NULL
        edge, partition = port
        self.check(self.pipes.get().find(edge, partition, found))
        return found

    cdef uint64_t put_all(self, Putting& putting) except? 0:
        cdef BatchPipes* pipes = self.pipes.get()
        cdef Refusal refused = pipes.put_now(putting)
        self.check(refused)
        if not putting.sends.empty():
            with nogil:
                refused = pipes.put(putting)
            self.check(refused)
        return putting.waited_ns

    cdef object taken(self, Send& send):
        if send.item.is_rows():
            item = Rows(send.item.producer, wrap_batch(send.item.payload))
        else:
            item = Mark(send.item.producer, self.events[<uint32_t> send.item.kind],
                        send.item.value, send.item.rows)
        return (send.port.edge, send.port.partition), item


ensure_pyarrow()

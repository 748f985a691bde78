"""Pipelined edges inside one agent: what `batches.hpp` does, for Python.

One job: items and ports to and from C++. A call first tries with the GIL held, which takes well
under a microsecond and needs no hand-over; only when it must wait is the GIL released. What a
close or a cancel drops is destroyed here, with no lock held.
"""

cimport cython
from cython.operator cimport dereference as deref
from libc.stdint cimport UINT64_MAX, int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport make_shared, shared_ptr
from libcpp.string cimport string
from libcpp.utility cimport move
from libcpp.vector cimport vector

from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CStatus, batch_of, ensure_pyarrow, wrap_batch,
)
from fabric._cython.shuffle.wire.faults cimport raise_fault


cdef extern from "<span>" namespace "std" nogil:
    cppclass Offsets "std::span<const int64_t>":
        Offsets()
        Offsets(const int64_t* first, size_t n)

cdef extern from "ring/batches.hpp" namespace "fabric" nogil:
    cppclass Deadline:
        pass

    const Deadline NEVER
    Deadline deadline_in(double seconds)

    enum class Kind(uint32_t):
        ROWS
        WATERMARK
        BARRIER
        END

    cppclass BatchItem:
        shared_ptr[CRecordBatch] payload
        uint64_t rows
        int64_t value
        uint32_t producer
        Kind kind
        cbool is_rows()

    cppclass BatchPort:
        uint32_t edge, partition
        void set_native()

    BatchItem event_item(uint32_t producer, Kind kind, int64_t value, uint64_t total_rows)

    cppclass Refusal:
        pass

    cppclass Send "fabric::BatchPipes::Send":
        BatchPort* port
        BatchItem item

    cppclass Putting "fabric::BatchPipes::Putting":
        Putting()
        vector[Send] sends
        uint64_t waited_ns

    cppclass Taking "fabric::BatchPipes::Taking":
        Taking()
        vector[Send] items
        uint64_t bytes_max

    # What `Pipes.pipes` holds; its methods say what they do in pipes.hpp.
    cppclass CBatchPipes "fabric::BatchPipes":
        CStatus status(const Refusal& refused)
        Refusal declare(uint32_t edge, uint32_t n_partitions, uint64_t batches_max,
                        uint64_t bytes_max, uint64_t wait_ns)
        Refusal find(uint32_t edge, uint32_t partition, BatchPort*& port)
        CStatus add(BatchPort* port, uint32_t producer, shared_ptr[CRecordBatch] batch,
                    Putting& put)
        CStatus add_parts(uint32_t edge, uint32_t producer, const shared_ptr[CRecordBatch]& batch,
                          Offsets offsets, Putting& put)
        Refusal put_now(Putting& put)
        Refusal put(Putting& put)
        Refusal take_now(const vector[BatchPort*]& ports, size_t n, Taking& taking)
        Refusal take(const vector[BatchPort*]& ports, size_t n, Taking& taking, Deadline deadline)
        Refusal gather(const vector[BatchPort*]& ports, Deadline deadline, cbool& pressed)
        Refusal rest(const vector[BatchPort*]& ports, int64_t until, cbool& due, Deadline deadline)
        Refusal wanted(uint32_t edge, cbool& answer)
        uint64_t waiting_bytes()
        void close(BatchPort& port)
        void cancel(string reason)


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
        check(self, native(self).declare(edge, n_partitions, batches_max, bytes_max, wait_ns))

    def put(self, sends):
        """Put every item into its ring; waits until all are in, whichever has room first.

        Items of one port keep their order. `CancelledError` when the job is cancelled meanwhile.
        Returns the nanoseconds that it waited for room.
        """
        cdef Putting putting
        cdef Send send
        cdef Mark mark
        for port, item in sends:
            send.port = find(self, port)
            if type(item) is Rows:
                raise_fault(native(self).add(
                    send.port, (<Rows> item).producer, batch_of((<Rows> item).batch), putting))
            else:
                mark = item
                send.item = event_item(mark.producer, <Kind> <uint32_t> int(mark.event),
                                       mark.value, mark.total_rows)
                putting.sends.push_back(move(send))
        return put_all(self, putting)

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
            raise_fault(native(self).add_parts(edge, producer, batch_of(batch), ends, putting))
        return put_all(self, putting)

    def take(self, ports):
        """The next item of any of `ports`, earlier ports first; waits for one.

        To be fair among ports, pass them in another order each time.
        """
        return self.take_many(ports, 1)[0]

    def take_many(self, ports, size_t n, uint64_t bytes_max=UINT64_MAX, timeout_s=None,
                  double gather_s=0.0):
        """Up to `n` items of `ports`, each port its share and in its order; waits for the first.

        With rows of `bytes_max` bytes the list is closed. Items come together for `gather_s`
        seconds before any is taken, unless one of them presses: a barrier or an end, half of what
        may wait for a port, or a producer without room. The list is empty only when nothing came
        within `timeout_s` seconds (None: for ever), or is still to gather then.
        """
        cdef vector[BatchPort*] places
        for port in ports:
            places.push_back(find(self, port))
        cdef Taking taking
        cdef Deadline deadline = NEVER if timeout_s is None else deadline_in(timeout_s)
        taking.bytes_max = bytes_max
        cdef CBatchPipes* pipes = native(self)
        cdef Refusal refused
        cdef double wait_s
        cdef cbool pressed = False
        if gather_s > 0:
            wait_s = gather_s if timeout_s is None else min(gather_s, timeout_s)
            with nogil:
                refused = pipes.gather(places, deadline_in(wait_s), pressed)
            check(self, refused)
            if wait_s < gather_s and not pressed:
                return []
        refused = pipes.take_now(places, n, taking)
        check(self, refused)
        if taking.items.empty():
            with nogil:
                refused = pipes.take(places, n, taking, deadline)
            check(self, refused)
            if 0 < taking.items.size() < n:  # more came while this thread waited for the GIL
                check(self, pipes.take_now(places, n - taking.items.size(), taking))
        cdef list items = []
        cdef size_t i
        for i in range(taking.items.size()):
            items.append(taken(self, taking.items[i]))
        return items

    def rest(self, ports, int64_t until, double timeout_s):
        """Leave what lies in `ports`, and what comes, until a watermark of `until` is put there.

        True once one was, or something there must not wait, as `take_many` says, or a tap looks at
        what is taken; False after `timeout_s` seconds.
        """
        cdef vector[BatchPort*] places
        for port in ports:
            places.push_back(find(self, port))
        cdef cbool due = False
        cdef Refusal refused
        cdef CBatchPipes* pipes = native(self)
        with nogil:
            refused = pipes.rest(places, until, due, deadline_in(timeout_s))
        check(self, refused)
        return <bint> due

    def set_native(self, port):
        """The consumer of `port` is a native thread, which must never meet the GIL.

        Batches put from here on hold no buffers of Python objects: those are copied.
        """
        find(self, port).set_native()

    def close(self, port):
        """The consumer of `port` wants no more: what waits and what comes is dropped."""
        native(self).close(deref(find(self, port)))

    def wanted(self, uint32_t edge):
        """Whether any partition of `edge` still has, or may get, a consumer."""
        cdef cbool answer = False
        check(self, native(self).wanted(edge, answer))
        return <bint> answer

    def waiting_bytes(self):
        """Bytes of all batches that wait now."""
        return native(self).waiting_bytes()

    def cancel(self, str reason):
        """Wake everyone: each waiting and each later call raises `CancelledError`."""
        native(self).cancel(<string> reason.encode())


cdef inline CBatchPipes* native(Pipes pipes) noexcept:
    return <CBatchPipes*> pipes.pipes.get()


cdef int check(Pipes pipes, const Refusal& refused) except -1:
    raise_fault(native(pipes).status(refused))
    return 0


cdef BatchPort* find(Pipes pipes, object port) except NULL:
    cdef BatchPort* found = NULL
    edge, partition = port
    check(pipes, native(pipes).find(edge, partition, found))
    return found


cdef uint64_t put_all(Pipes pipes, Putting& putting) except? 0:
    cdef CBatchPipes* into = native(pipes)
    cdef Refusal refused = into.put_now(putting)
    check(pipes, refused)
    if not putting.sends.empty():
        with nogil:
            refused = into.put(putting)
        check(pipes, refused)
    return putting.waited_ns


cdef object taken(Pipes pipes, Send& send):
    if send.item.is_rows():
        item = Rows(send.item.producer, wrap_batch(send.item.payload))
    else:
        item = Mark(send.item.producer, pipes.events[<uint32_t> send.item.kind],
                    send.item.value, send.item.rows)
    return (send.port.edge, send.port.partition), item


ensure_pyarrow()


@cython.final
cdef class RoundCosts:
    """What rounds of work cost, by their size; the last ones count most."""

    def add(self, double size, double seconds):
        """A round of this size, more than 0, took so long."""
        self.costs.add(size, seconds)

    def next(self, uint64_t wanted, uint64_t last):
        """The size of the next rounds: `wanted`, if smaller rounds than the `last` cost less.

        Else the last size, or twice as much where hardly any of the cost follows the size. Rounds
        that were all alike tell nothing: then it is `wanted`, or twice the last size if that is no
        less.
        """
        return self.costs.next(wanted, last)

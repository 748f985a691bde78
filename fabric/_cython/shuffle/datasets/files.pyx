"""Dataset files of one agent, read and written without the GIL.

One job: the Python face of `folder.hpp`. Flight calls use that; this is for tasks of the same
process.
"""

cimport cython
from libcpp.utility cimport move

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.store.messages cimport Message, MessageStream
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    PyRef, batch_of, ensure_pyarrow, schema_of, wrap_batch,
)
from fabric._cython.shuffle.wire.faults cimport raise_fault, told_status
from fabric._cython.shuffle.wire.headers cimport DatasetPart, DatasetTicket


cdef extern from "datasets/folder.hpp" namespace "fabric" nogil:
    pass

cdef extern from "datasets/owner.hpp":
    pass


cdef DatasetTicket ticket_of(object request) except *:
    """A `fabric.flight.ticket.DatasetRequest` as the data plane has it."""
    cdef DatasetTicket ticket
    cdef DatasetPart part
    ticket.name, ticket.version = request.name.encode(), request.version
    ticket.partition = request.partition
    for given in request.parts:
        part.transaction, part.writer = given.transaction.encode(), given.writer.encode()
        part.attempt = given.attempt
        ticket.parts.push_back(part)
    return ticket


@cython.final
cdef class Rows:
    """The batches of one partition, in order; all of it was checked before the first."""

    cdef unique_ptr[MessageStream] stream

    def __iter__(self):
        return self

    def __next__(self):
        cdef Message message
        cdef CResult[cbool] more
        if self.stream.get() == NULL:
            raise StopIteration
        with nogil:
            more = self.stream.get().next(message)
        raise_fault(more.status())
        if not more.ValueUnsafe():
            self.close()
            raise StopIteration
        return wrap_batch(message.batch)

    def close(self):
        """Read no further; the files are closed."""
        with nogil:
            self.stream.reset()


@cython.final
cdef class FileWriter:
    """One attempt of one writer on its way to this agent's disk; `PutWriter` of an owner."""

    def write(self, uint32_t partition, batch not None):
        """Append rows to a partition's file; no rows only say that the partition belongs here."""
        cdef shared_ptr[CRecordBatch] rows = batch_of(batch)
        cdef CStatus status
        with nogil:
            status = self.writer.get().write(partition, rows)
        raise_fault(status)

    def seal(self):
        """Make the attempt durable and visible to readers of its transaction; its receipt."""
        cdef CResult[Receipt] receipt
        with nogil:
            receipt = self.writer.get().seal()
        raise_fault(receipt.status())
        return self.receipt(receipt.ValueUnsafe().rows, receipt.ValueUnsafe().crc32c_sum)

    def abandon(self):
        """Remove what was written; nothing after `seal`."""
        with nogil:
            self.writer.get().abandon()

    def __dealloc__(self):
        with nogil:
            self.writer.reset()


cdef FileWriter writer_of(CResult[shared_ptr[OwnerWriter]]& opened, object receipt):
    raise_fault(opened.status())
    cdef FileWriter made = FileWriter.__new__(FileWriter)
    made.writer, made.receipt = opened.ValueUnsafe(), receipt
    return made


@cython.final
cdef class _Wanting:
    """Who is asked for partitions of views."""

    cdef object ask


cdef CStatus _wanted(PyObject* face, const string& name, const string& transaction,
                     uint32_t partition) noexcept with gil:
    try:
        (<_Wanting> face).ask(name.decode(), transaction.decode(), partition)
    except BaseException as error:
        return told_status(error)
    return CStatus()


@cython.final
cdef class DatasetFolder:
    """What lies below one folder; `fabric.io.dataset.access.DatasetFiles` is its typed face.

    `receipt(rows, crc32c_sum)` makes what `FileWriter.seal` returns.
    """

    def __cinit__(self, str path not None, str agent_id not None, receipt not None):
        cdef string place = path.encode("utf-8", "surrogateescape")
        cdef string agent = agent_id.encode()
        cdef int cpu = current_cpu()
        cdef CResult[shared_ptr[CDatasetFolder]] opened
        with nogil:
            opened = CDatasetFolder.open(place, agent, cpu)
        raise_fault(opened.status())
        self.folder, self.receipt = opened.ValueUnsafe(), receipt

    def ask(self, wanted not None):
        """Have ``wanted(name, transaction, partition)`` called before a view's partition is read.

        Once, before anything is read; what it raises ends the reading.
        """
        cdef _Wanting face = _Wanting.__new__(_Wanting)
        face.ask = wanted
        self.folder.get().set_wanted(wanted_by(PyRef(<PyObject*> face), &_wanted))

    @property
    def root(self):
        """The folder's path, resolved."""
        return self.folder.get().root().decode("utf-8", "surrogateescape")

    def open_write(self, str name not None, str transaction not None, str writer not None,
                   uint32_t attempt, schema not None):
        """Begin one attempt; an earlier try of the same one stays until this one is sealed."""
        cdef string a = name.encode(), b = transaction.encode(), c = writer.encode()
        cdef shared_ptr[CSchema] columns = schema_of(schema)
        cdef CResult[shared_ptr[OwnerWriter]] opened
        with nogil:
            opened = self.folder.get().open_write(a, b, c, attempt, columns)
        return writer_of(opened, self.receipt)

    def open_copy(self, request not None, schema not None):
        """Begin to copy one partition of one part from another owner; a `FileWriter`."""
        cdef DatasetTicket ticket = ticket_of(request)
        cdef shared_ptr[CSchema] columns = schema_of(schema)
        cdef CResult[shared_ptr[OwnerWriter]] opened
        with nogil:
            opened = self.folder.get().open_copy(ticket, columns)
        return writer_of(opened, self.receipt)

    def has(self, request not None):
        """Whether the partition was sealed here by every part of the request."""
        cdef DatasetTicket ticket = ticket_of(request)
        cdef CResult[cbool] found
        with nogil:
            found = self.folder.get().has(ticket)
        raise_fault(found.status())
        return <bint> found.ValueUnsafe()

    def read(self, request not None):
        """The rows of one partition, part by part, as an iterator of batches."""
        cdef DatasetTicket ticket = ticket_of(request)
        cdef CResult[unique_ptr[MessageStream]] opened
        cdef shared_ptr[CSchema] none
        with nogil:
            opened = self.folder.get().read(ticket, none, False)
        raise_fault(opened.status())
        cdef Rows rows = Rows.__new__(Rows)
        rows.stream = move(opened.ValueUnsafe())
        return rows

    def discard(self, str name not None, str transaction not None):
        """Remove what a transaction left here; it takes no more. Streams that read it go on."""
        cdef string a = name.encode(), b = transaction.encode()
        cdef CStatus status
        with nogil:
            status = self.folder.get().discard(a, b)
        raise_fault(status)

    def keep(self, request not None, partitions):
        """Remove what the parts of `request` hold here of other partitions than `partitions`."""
        cdef DatasetTicket ticket = ticket_of(request)
        cdef CPartitions kept
        cdef CStatus status
        for partition in partitions:
            kept.insert(partition)
        with nogil:
            status = self.folder.get().keep(ticket.name, kept, ticket.parts)
        raise_fault(status)

    def sweep(self, live, double now_s, double age_s):
        """Remove transactions not in `live` (pairs of name and transaction) unused for `age_s`."""
        cdef CTransactions known
        cdef vector[string] gone
        for name, transaction in live:
            known.insert(TransactionKey(name.encode(), transaction.encode()))
        with nogil:
            gone = self.folder.get().sweep(known, now_s, age_s)
        return [entry.decode() for entry in gone]

    def fail_at(self, str step not None, int error):
        """For tests: from now on the disk refuses `step` with this errno; 0 ends that."""
        steps = {"mkdir": 0, "write": 1, "sync": 2, "rename": 3}
        self.folder.get().fail_at(<size_t> steps[step], error)


ensure_pyarrow()

"""Headers, checks and digests of the wire for Python: thin faces over the C++ of this folder.

One job: let Python make and read what the data plane does, and tests compare both with protobuf.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.kernels.cpu cimport current_cpu
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CResult, CStatus, batch_of, ensure_pyarrow,
)
from fabric._cython.shuffle.wire.faults cimport raise_fault


cdef extern from "wire/sha256.hpp" namespace "fabric" nogil:
    cppclass Digest "std::array<uint8_t, 32>":
        Digest()
        const uint8_t* data()
        size_t size()

    Digest c_sha256 "fabric::sha256"(string bytes)
    Digest c_hmac_sha256 "fabric::hmac_sha256"(string key, string bytes)

cdef extern from "wire/unpacked.hpp" namespace "fabric" nogil:
    cppclass PackedMessage:
        PackedMessage(string metadata, string body)
        CResult[int64_t] unpacked_bytes()

    CStatus c_check_schema "fabric::check_schema_message"(string bytes)


def encode(*, str job, uint32_t edge, uint32_t producer, uint32_t attempt=0, uint64_t epoch=0,
           uint64_t sequence=0, partitions=(), uint32_t crc32c=0, uint32_t event=0,
           int64_t event_value=0, uint64_t total_rows=0, uint64_t total_bytes=0):
    """The bytes of a header; the names are those of `fabric.flight.header.EdgeHeader`."""
    cdef EdgeHeader header
    cdef PartitionRows entry
    header.job = job.encode()
    header.edge, header.producer, header.attempt = edge, producer, attempt
    header.epoch, header.sequence, header.crc32c = epoch, sequence, crc32c
    for partition, rows in partitions:
        entry.partition, entry.rows = partition, rows
        header.partitions.push_back(entry)
    header.event = <Event> event
    header.event_value = event_value
    header.total_rows, header.total_bytes = total_rows, total_bytes
    return <bytes> encode_header(header)


def decode(bytes data not None):
    """The fields of a header by name; `DataError` when it is damaged or of another version."""
    cdef CResult[EdgeHeader] found = decode_header(data)
    raise_fault(found.status())
    cdef EdgeHeader header = found.ValueUnsafe()
    return {
        "job": header.job.decode("utf-8", "replace"), "edge": header.edge,
        "producer": header.producer, "attempt": header.attempt, "epoch": header.epoch,
        "sequence": header.sequence,
        "partitions": tuple((entry.partition, entry.rows) for entry in header.partitions),
        "crc32c": header.crc32c, "event": <uint32_t> header.event,
        "event_value": header.event_value, "total_rows": header.total_rows,
        "total_bytes": header.total_bytes,
    }


def sha256(bytes data not None):
    """The SHA-256 of bytes.

    Examples
    --------
    >>> import hashlib
    >>> sha256(b"abc") == hashlib.sha256(b"abc").digest()
    True
    """
    cdef Digest digest = c_sha256(data)
    return (<const char*> digest.data())[:digest.size()]


def hmac_sha256(bytes key not None, bytes data not None):
    """The HMAC-SHA-256 of bytes, as tickets are signed.

    Examples
    --------
    >>> import hmac
    >>> hmac_sha256(b"key", b"abc") == hmac.digest(b"key", b"abc", "sha256")
    True
    """
    cdef Digest digest = c_hmac_sha256(key, data)
    return (<const char*> digest.data())[:digest.size()]


def unpacked_bytes(bytes metadata not None, bytes body not None):
    """What the buffers of an IPC message come to once decompressed; `DataError` if it is none."""
    cdef string first = metadata, second = body
    cdef CResult[int64_t] found = PackedMessage(first, second).unpacked_bytes()
    raise_fault(found.status())
    return found.ValueUnsafe()


def check_schema(bytes message not None):
    """Raise `DataError` when a schema of a stranger would become more than anybody needs."""
    cdef string data = message
    raise_fault(c_check_schema(data))


@cython.final
cdef class WireCheck:
    """`StreamCheck` of `check.hpp`: whether the messages of one stream follow each other rightly.

    Parameters
    ----------
    producers
        (task, attempt) of every producer that must come to its end.
    partition
        The only one that messages may name; any when None.
    checksums
        False for streams that never left the process.
    """

    cdef StreamCheck* check

    def __cinit__(self, *, str job, uint32_t edge, producers, partition=None, str node="",
                  str agent="", bint checksums=True):
        cdef Where where
        cdef OptionalPartition only
        if partition is not None:
            only = OptionalPartition(<uint32_t> partition)
        where.node, where.agent = node.encode(), agent.encode()
        self.check = new StreamCheck(
            job.encode(), edge, attempts_of(producers), only, where, checksums, current_cpu())

    def __dealloc__(self):
        del self.check

    @property
    def duplicates(self):
        """Messages that were dropped because they had been seen before."""
        return self.check.duplicates()

    def accept(self, bytes header not None, batch):
        """Check one message; False means: seen before, drop it. `PartitionLostError` else."""
        cdef shared_ptr[CRecordBatch] rows
        if batch is not None:
            rows = batch_of(batch)
        cdef CResult[EdgeHeader] parsed = self.check.decode(header)
        raise_fault(parsed.status())
        cdef CResult[cbool] fresh
        with nogil:
            fresh = self.check.accept(parsed.ValueUnsafe(), rows.get())
        raise_fault(fresh.status())
        return <bint> fresh.ValueUnsafe()

    def finish(self):
        """The stream is over: every producer must have ended."""
        raise_fault(self.check.finish())


ensure_pyarrow()

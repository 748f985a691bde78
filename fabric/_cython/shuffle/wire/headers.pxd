"""What travels, as C++ has it: headers, tickets, and the check of a stream."""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CResult, CStatus


cdef extern from "wire/fault.hpp" namespace "fabric" nogil:
    cppclass Where:
        Where()
        string job, node, task, agent

cdef extern from "wire/header.hpp" namespace "fabric" nogil:
    enum class Event(uint32_t):
        ROWS

    cppclass ProducerAttempt:
        ProducerAttempt()
        uint32_t task, attempt

    cppclass PartitionRows:
        PartitionRows()
        uint32_t partition
        uint64_t rows

    cppclass EdgeHeader:
        EdgeHeader()
        string job
        uint32_t edge, producer, attempt
        uint64_t epoch, sequence
        vector[PartitionRows] partitions
        uint32_t crc32c
        Event event
        int64_t event_value
        uint64_t total_rows, total_bytes

    string encode_header(const EdgeHeader& header)
    CResult[EdgeHeader] decode_header(string bytes)

cdef extern from "wire/ticket.hpp" namespace "fabric" nogil:
    cppclass PartitionTicket:
        PartitionTicket()
        string job, node_path
        uint32_t edge, partition
        vector[ProducerAttempt] producers

    cppclass DatasetPart:
        DatasetPart()
        string transaction, writer
        uint32_t attempt

    cppclass DatasetTicket:
        DatasetTicket()
        string name
        uint64_t version
        uint32_t partition
        vector[DatasetPart] parts

    cppclass Ticket:
        pass

cdef extern from "wire/check.hpp" namespace "fabric" nogil:
    cppclass OptionalPartition "std::optional<uint32_t>":
        OptionalPartition()
        OptionalPartition(uint32_t)

    cppclass StreamCheck:
        StreamCheck(string job, uint32_t edge, const vector[ProducerAttempt]& producers,
                    OptionalPartition partition, Where where, cbool checksums, int cpu)
        CResult[EdgeHeader] decode(string bytes)
        CResult[cbool] accept(const EdgeHeader& header, const CRecordBatch* batch)
        CStatus finish()
        uint64_t duplicates()


cdef inline vector[ProducerAttempt] attempts_of(object producers) except *:
    """Producers from pairs of a task and its attempt."""
    cdef vector[ProducerAttempt] found
    cdef ProducerAttempt producer
    for task, attempt in producers:
        producer.task, producer.attempt = task, attempt
        found.push_back(producer)
    return found

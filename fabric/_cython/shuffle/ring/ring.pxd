from libc.stdint cimport int64_t, uint32_t, uint64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.ring.deadline cimport Deadline
from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CStatus


cdef extern from "<span>" namespace "std" nogil:
    cppclass Offsets "std::span<const int64_t>":
        Offsets()
        Offsets(const int64_t* first, size_t n)

cdef extern from "ring/batches.hpp" namespace "fabric" nogil:
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
        const uint32_t edge
        const uint32_t partition
        void set_native()
        cbool native()

    BatchItem rows_item(uint32_t producer, shared_ptr[CRecordBatch] batch)
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

    # What other native code shares (`Pipes.pipes`); its methods say what they do in pipes.hpp.
    cppclass BatchPipes:
        BatchPipes(string job)
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
        Refusal wanted(uint32_t edge, cbool& answer)
        uint64_t waiting_bytes()
        void close(BatchPort& port)
        void cancel(string reason)


cdef class Rows:
    cdef readonly uint32_t producer
    cdef readonly object batch


cdef class Mark:
    cdef readonly uint32_t producer
    cdef readonly object event
    cdef readonly int64_t value
    cdef readonly uint64_t total_rows


cdef class Pipes:
    cdef shared_ptr[BatchPipes] pipes
    cdef tuple events

    cdef int check(self, const Refusal& refused) except -1
    cdef BatchPort* port(self, object port) except NULL
    cdef uint64_t put_all(self, Putting& putting) except? 0
    cdef object taken(self, Send& send)

from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr, unique_ptr
from libcpp.set cimport set as cset
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.store.budget cimport CBudget
from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CResult, CSchema, CStatus


cdef extern from "<arrow/ipc/writer.h>" namespace "arrow::ipc" nogil:
    cppclass IpcPayload "const arrow::ipc::IpcPayload":
        pass

cdef extern from "store/message.hpp" namespace "fabric" nogil:
    cppclass Message:
        Message()
        string header
        shared_ptr[CRecordBatch] batch
        shared_ptr[IpcPayload] payload

    cppclass MessageStream:
        shared_ptr[CSchema] schema()
        CResult[cbool] next(Message& out)
        void cancel()

cdef extern from "store/disk.hpp" namespace "fabric" nogil:
    enum class DiskStep(size_t):
        MKDIR, WRITE, SYNC, RENAME

    cppclass Disk:
        void fail(DiskStep step, int error)

    cppclass FilePath:
        FilePath()
        FilePath(string path)

cdef extern from "store/spill/places.hpp" namespace "fabric" nogil:
    cppclass SpillPlaces:
        SpillPlaces(vector[FilePath] folders, int64_t keep_free_bytes)
        Disk& disk()

cdef extern from "store/local_rows.hpp" namespace "fabric" nogil:
    cppclass CTotals "fabric::Totals":
        CTotals()
        int64_t rows, bytes

    cppclass CLocalRows "fabric::LocalRows":
        CTotals totals()
        cbool spilled()
        CStatus append(shared_ptr[CRecordBatch] batch)
        CStatus seal()
        unique_ptr[MessageStream] batches()
        cbool keep()
        void let_go()

cdef extern from "store/store.hpp" namespace "fabric" nogil:
    cppclass ProducerAttempt:
        ProducerAttempt()
        uint32_t task, attempt

    cppclass PartitionTicket:
        PartitionTicket()
        string job
        uint32_t edge, partition
        vector[ProducerAttempt] producers

    cppclass CStore "fabric::Store":
        CStore(string agent_id, shared_ptr[CBudget] budget, shared_ptr[SpillPlaces] places,
               int cpu)
        shared_ptr[SpillPlaces] places()
        int64_t spilled_bytes()
        CStatus begin(const string& job, uint32_t edge, const shared_ptr[CSchema]& schema,
                      int32_t n_partitions, ProducerAttempt producer, const string& compression)
        CStatus append(const string& job, uint32_t edge, ProducerAttempt producer,
                       shared_ptr[CRecordBatch] batch, vector[int64_t] offsets)
        CResult[CTotals] seal(const string& job, uint32_t edge, ProducerAttempt producer)
        void discard(const string& job, uint32_t edge, ProducerAttempt producer)
        int64_t release(const string& job)
        int64_t stored_bytes()
        cset[string] jobs()
        CResult[shared_ptr[CSchema]] edge_schema(const string& job, uint32_t edge)
        CResult[unique_ptr[MessageStream]] open(const PartitionTicket& ticket, cbool checksums)
        CResult[unique_ptr[MessageStream]] batches(const PartitionTicket& ticket)
        CResult[vector[shared_ptr[CLocalRows]]] local(const PartitionTicket& ticket)
        shared_ptr[CLocalRows] put_here(const string& job, uint32_t edge,
                                        ProducerAttempt producer,
                                        const shared_ptr[CSchema]& schema)

    CResult[shared_ptr[CRecordBatch]] batch_of_payload(const IpcPayload& payload,
                                                       const shared_ptr[CSchema]& schema)


cdef class Store:
    # What other extensions take: `store.core` is the C++ object, to be shared with any thread.
    cdef shared_ptr[CStore] core


cdef class LocalRows:
    cdef shared_ptr[CLocalRows] core


cdef class Stream:
    cdef unique_ptr[MessageStream] core
    cdef CStatus fill(self, vector[Message]& out, size_t n_messages) noexcept nogil

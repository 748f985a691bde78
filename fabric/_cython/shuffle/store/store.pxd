from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr, unique_ptr
from libcpp.set cimport set as cset
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.shuffle.store.budget cimport CBudget
from fabric._cython.shuffle.store.messages cimport MessageStream
from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CResult, CSchema, CStatus
from fabric._cython.shuffle.wire.headers cimport PartitionTicket, ProducerAttempt


cdef extern from * namespace "fabric" nogil:
    """
    namespace fabric {  // who only hands them on needs no more
    class LocalRows;
    class Store;
    }
    """
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

    cppclass CStore "fabric::Store":
        CStore(string agent_id, shared_ptr[CBudget] budget, vector[string] folders,
               int64_t keep_free_bytes, int cpu)
        int64_t spilled_bytes()
        CStatus begin(const string& job, uint32_t edge, const shared_ptr[CSchema]& schema,
                      int32_t n_partitions, ProducerAttempt producer, const string& compression)
        CStatus append(const string& job, uint32_t edge, ProducerAttempt producer,
                       shared_ptr[CRecordBatch] batch, vector[int64_t] offsets)
        CResult[CTotals] seal(const string& job, uint32_t edge, ProducerAttempt producer)
        void discard(const string& job, uint32_t edge, ProducerAttempt producer)
        int64_t release(const string& job)
        int64_t stored_bytes()
        void fail_disk(int error)
        cset[string] jobs()
        CResult[shared_ptr[CSchema]] edge_schema(const string& job, uint32_t edge)
        CResult[unique_ptr[MessageStream]] open(const PartitionTicket& ticket, cbool checksums)
        CResult[unique_ptr[MessageStream]] batches(const PartitionTicket& ticket)
        CResult[vector[shared_ptr[CLocalRows]]] local(const PartitionTicket& ticket)
        shared_ptr[CLocalRows] put_here(const string& job, uint32_t edge,
                                        ProducerAttempt producer,
                                        const shared_ptr[CSchema]& schema)


cdef class Store:
    # What other extensions take: `store.core` is the C++ object, to be shared with any thread.
    cdef shared_ptr[CStore] core


cdef class LocalRows:
    cdef shared_ptr[CLocalRows] core


cdef class Stream:
    cdef unique_ptr[MessageStream] core

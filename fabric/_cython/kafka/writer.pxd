from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.memory cimport unique_ptr
from libcpp.pair cimport pair
from libcpp.string cimport string

from fabric._cython.kafka.handle cimport Handle, PartitionKey, Settings, raise_fault
from fabric._cython.kernels.arrow_c cimport ArrowArray


cdef extern from "kafka/writer.hpp" namespace "fabric::kafka" nogil:
    struct BytesColumn:
        const ArrowArray* array
        cbool is_large

    struct Rows:
        BytesColumn keys
        BytesColumn values
        const ArrowArray* partitions
        const ArrowArray* timestamps
        const ArrowArray* headers

    int32_t partition_of(const void* key, size_t size, int32_t n_partitions)

    cppclass CWriter "fabric::kafka::Writer":
        CWriter(const Settings& settings) except +raise_fault
        int32_t open(const string& topic, int timeout_ms) except +raise_fault
        int64_t message_bytes_max(const string& topic, int timeout_ms) except +raise_fault
        void write(const string& topic, const Rows& rows, int timeout_ms) except +raise_fault
        void init_transactions(int timeout_ms) except +raise_fault
        void begin() except +raise_fault
        void send_offsets(const cmap[PartitionKey, int64_t]& offsets, const string& group,
                          int timeout_ms) except +raise_fault
        void commit(int timeout_ms) except +raise_fault
        void abort(int timeout_ms) except +raise_fault
        void flush(int timeout_ms) except +raise_fault
        void purge() except +raise_fault
        void poll() except +raise_fault
        int64_t n_queued() except +raise_fault
        pair[int64_t, int64_t] producer_id(int timeout_ms) except +raise_fault
        Handle& handle()
        void close()


cdef class Writer:
    cdef unique_ptr[CWriter] core
    cdef dict settings
    cdef dict bytes_max
    cdef bint is_transactional
    cdef bint is_initialised
    cdef bint is_open
    cdef bint is_sized
    cdef bint is_spoilt
    cdef int make(self) except -1
    cdef int renew(self, double timeout_s) except -1
    cdef int fit(self, list topics, double timeout_s) except -1
    cdef int know(self, object topic, double timeout_s) except -1

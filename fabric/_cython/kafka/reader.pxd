from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.map cimport map as cmap
from libcpp.memory cimport unique_ptr
from libcpp.pair cimport pair
from libcpp.vector cimport vector

from fabric._cython.codecs.codec cimport CDecoder, Span
from fabric._cython.kafka.handle cimport Handle, PartitionKey, Settings, raise_fault
from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema


cdef extern from "kafka/reader.hpp" namespace "fabric::kafka" nogil:
    struct Start:
        int64_t offset
        int32_t leader_epoch

    struct Taken:
        int64_t n_records
        int64_t n_bytes
        int64_t first_offset

    struct Record:
        int64_t offset
        Span value

    cppclass CReader "fabric::kafka::Reader":
        CReader(const Settings& settings) except +raise_fault
        void assign(const cmap[PartitionKey, Start]& starts) except +raise_fault
        void unassign(const vector[PartitionKey]& partitions) except +raise_fault
        Taken take(const PartitionKey& partition, int64_t rows_max, int64_t bytes_max,
                   unsigned wants, const ArrowSchema& schema, CDecoder* decoder,
                   ArrowArray& columns) except +raise_fault
        Record record(const PartitionKey& partition, int64_t row) except +raise_fault
        void settle(const PartitionKey& partition) except +raise_fault
        int64_t position(const PartitionKey& partition) except +raise_fault
        int32_t leader_epoch(const PartitionKey& partition) except +raise_fault
        cbool at_end(const PartitionKey& partition) except +raise_fault
        int64_t high_watermark(const PartitionKey& partition) except +raise_fault
        pair[int64_t, int64_t] watermark_offsets(
            const PartitionKey& partition, int timeout_ms) except +raise_fault
        cmap[PartitionKey, int64_t] offsets_for_times(
            const cmap[PartitionKey, int64_t]& times, int timeout_ms) except +raise_fault
        cmap[PartitionKey, int64_t] committed(
            const vector[PartitionKey]& partitions, int timeout_ms) except +raise_fault
        void commit(const cmap[PartitionKey, int64_t]& offsets) except +raise_fault
        void poll() except +raise_fault
        int wake_fd()
        Handle& handle()
        void close()


cdef class Reader:
    cdef unique_ptr[CReader] core
    cdef dict columns
    cdef object wake
    cdef tuple described(self, object wants)
    cdef object bad_of(self, const PartitionKey& key, object bad)

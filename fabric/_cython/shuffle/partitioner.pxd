from libc.stdint cimport int32_t, int64_t, uint64_t
from libcpp cimport bool
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema
from fabric._cython.kernels.memory cimport Allocator
from fabric._cython.shuffle.pool cimport BufferPool


cdef extern from "partition_batch.hpp" namespace "fabric" nogil:
    cppclass BatchPartitioner:
        BatchPartitioner(const ArrowSchema& schema, const vector[int32_t]& keys,
                         int32_t n_partitions, uint64_t seed, bool numbered) except +
        bool run(ArrowArray& batch, int cpu, Allocator& allocator, int64_t* offsets,
                 ArrowArray& out) except +


cdef class Partitioner:
    cdef BatchPartitioner* core
    cdef readonly BufferPool pool
    cdef readonly object schema
    cdef readonly tuple keys
    cdef readonly int32_t n_partitions
    cdef bool numbered

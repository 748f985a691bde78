"""Rows spread over the owners of a dataset, and writers to those as the data plane sees them."""

from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint64_t
from libcpp.memory cimport shared_ptr, unique_ptr
from libcpp.string cimport string

from fabric._cython.kernels.memory cimport Allocator
from fabric._cython.shuffle.datasets.files cimport OwnerWriter, Receipt
from fabric._cython.shuffle.pool cimport BufferPool
from fabric._cython.shuffle.wire.arrow_cpp cimport (
    CRecordBatch, CResult, CSchema, CStatus, PyRef,
)


cdef extern from "datasets/owner.hpp" namespace "fabric" nogil:
    ctypedef CStatus (*OpenCall)(PyObject*, const string&, shared_ptr[OwnerWriter]&) noexcept
    cppclass CSpreadOpen "fabric::OpenOwner":
        pass
    CSpreadOpen opened_by(PyRef object, OpenCall call)

cdef extern from "datasets/spread.hpp" namespace "fabric" nogil:
    cppclass CDatasetLocation "fabric::DatasetLocation":
        pass
    ctypedef shared_ptr[const CDatasetLocation] DatasetPtr "fabric::DatasetPtr"
    CResult[DatasetPtr] decode_location(const string& data)

    cppclass CSpread "fabric::Spread":
        @staticmethod
        CResult[unique_ptr[CSpread]] begin(
            DatasetPtr location, CSpreadOpen open, Allocator& allocator, int cpu,
            int64_t held_bytes_max) except +
        shared_ptr[CSchema] schema()
        uint64_t rows()
        CStatus write(const shared_ptr[CRecordBatch]& batch) except +
        CResult[Receipt] seal() except +
        void abandon() except +


cdef shared_ptr[OwnerWriter] owner_of(object writer, list failures) except *


cdef class NativeSpread:
    cdef unique_ptr[CSpread] spread
    cdef BufferPool pool
    cdef list failures

    cdef int check(self, CStatus status) except -1

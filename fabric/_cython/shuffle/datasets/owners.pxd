"""Writers to owners, native or Python's, as the data plane sees them."""

from cpython.object cimport PyObject
from libc.stdint cimport uint32_t
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string

from fabric._cython.shuffle.datasets.files cimport OwnerWriter, PyRef, Receipt
from fabric._cython.shuffle.wire.arrow_cpp cimport CRecordBatch, CStatus


cdef shared_ptr[OwnerWriter] owner_of(object writer, list failures) except *
cdef CStatus told(object error, list failures) noexcept

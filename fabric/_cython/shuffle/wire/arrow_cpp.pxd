"""The few names of Arrow's C++ that Cython needs, and the doors between them and Python objects.

Never `cimport pyarrow.lib`: it needs numpy's headers and breaks on a patch release.
"""

from cpython.object cimport PyObject
from libcpp cimport bool as cbool
from libcpp.memory cimport shared_ptr
from libcpp.string cimport string


cdef extern from "<arrow/status.h>" namespace "arrow" nogil:
    cppclass CStatus "arrow::Status":
        CStatus()
        cbool ok()
        string ToString()

cdef extern from "<arrow/type_fwd.h>" namespace "arrow" nogil:  # declared, never looked into
    cppclass CSchema "arrow::Schema":
        pass
    cppclass CRecordBatch "arrow::RecordBatch":
        pass

cdef extern from "<arrow/result.h>" namespace "arrow" nogil:
    cppclass CResult "arrow::Result"[T]:
        CResult()
        cbool ok()
        CStatus status()
        T& ValueUnsafe()

cdef extern from "wire/python.hpp" namespace "fabric":
    cppclass PyRef nogil:
        PyRef()
        PyRef(PyObject* object)

    void ensure_pyarrow() except +
    object wrap_batch(const shared_ptr[CRecordBatch]& batch)
    object wrap_schema(const shared_ptr[CSchema]& schema)
    shared_ptr[CRecordBatch] batch_of(object batch) except +
    shared_ptr[CSchema] schema_of(object schema) except +

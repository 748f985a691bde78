from libc.stdint cimport int64_t, uint8_t


cdef extern from "arrays.hpp" nogil:
    ctypedef struct ArrowSchema:
        const char* format
        int64_t n_children
        ArrowSchema** children

    ctypedef struct ArrowArray:
        int64_t length
        int64_t null_count
        int64_t offset
        int64_t n_children
        const void** buffers
        ArrowArray** children
        void (*release)(ArrowArray*) noexcept


cdef extern from "arrays.hpp" namespace "fabric" nogil:
    cppclass Type:
        Type() except +

    Type parse_type(const ArrowSchema& schema) except +


cdef const ArrowSchema* schema_of(object capsule) except NULL
cdef ArrowArray* array_of(object capsule) except NULL
cdef class ExportedArray:
    cdef object schema_capsule
    cdef object array_capsule
cdef ExportedArray export_array(object schema_capsule, ArrowArray* array)
cdef object bytes_array(ArrowArray* array)
cdef class Rows:
    cdef object schema_capsule
    cdef object array_capsule
    cdef const int64_t* offsets
    cdef const uint8_t* data
    cdef const uint8_t* validity
    cdef int64_t first
    cdef int64_t n

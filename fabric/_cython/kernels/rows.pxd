from libc.stdint cimport int64_t, uint8_t, uint64_t
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.kernels.arrow_c cimport ArrowArray, ArrowSchema, Rows


cdef extern from "rows.hpp" namespace "fabric" nogil:
    cppclass RowTypes:
        RowTypes() except +
        RowTypes(const ArrowSchema& schema) except +
        bint are_flat() noexcept
        int64_t front(const uint8_t* data, int64_t n) except +
        uint64_t hash(const uint8_t* data, int64_t n) except +
        void hashes(const uint8_t* data, const int64_t* offsets, int64_t n,
                    uint64_t* out) except +

    cppclass RowReader:
        RowReader() noexcept
        RowReader(const uint8_t* data, int64_t n) noexcept
        bint done() noexcept
        const uint8_t* take(int64_t n) except +
        bint valid() except +
        T number[T]() except +
        int64_t length() except +

    cppclass BytesMaker:
        BytesMaker(int64_t n) except +
        void add(int64_t row, int64_t size) noexcept
        void add_null(int64_t row) noexcept
        uint8_t* make_room() except +
        uint8_t* at(int64_t row) noexcept
        void finish(ArrowArray& out) except +

    void rows_of(const RowTypes& types, const ArrowArray& columns, bint canonical,
                 const uint8_t* prefix, int64_t n_prefix, ArrowArray& out) except +
    void columns_of(const RowTypes& types, const ArrowArray& rows, int64_t skip,
                    ArrowArray& out) except +


cdef class Node:
    cdef char code
    cdef int width
    cdef bint is_signed
    cdef list children
    cdef list names
    cdef object fields
    cdef object shown


cdef class RowCodec:
    cdef RowTypes types
    cdef readonly object schema
    cdef readonly bint canonical
    cdef list nodes
    cdef bint quick
    cdef Py_ssize_t n_columns
    cdef int put_all(self, object value, string& out) except -1
    cdef object take_all(self, const uint8_t* data, int64_t n)
    cdef bytes placed(self, bytes prefix, const uint8_t* row, int64_t n_row, const uint8_t* sub,
                      int64_t n_sub)

from libc.stdint cimport int32_t, int64_t
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.codecs.codec cimport CDecoder, CEncoder, Decoder, Encoder, raise_fault
from fabric._cython.codecs.framed cimport Lookup
from fabric._cython.kernels.arrow_c cimport ArrowSchema


cdef extern from "codecs/avro.hpp" namespace "fabric::codecs" nogil:
    cdef enum AvroOp "fabric::codecs::AvroOp":
        pass

    cppclass AvroNode:
        AvroNode()
        AvroOp op
        int32_t column_id
        int64_t a
        int64_t b
        vector[int32_t] children

    cppclass AvroProgram:
        vector[AvroNode] nodes
        vector[string] texts
        int32_t root

    cppclass CAvroDecoder "fabric::codecs::AvroDecoder"(CDecoder):
        CAvroDecoder(const ArrowSchema& schema, Lookup lookup) except +raise_fault
        void put(string header, AvroProgram program) except +raise_fault

    cppclass CAvroEncoder "fabric::codecs::AvroEncoder"(CEncoder):
        CAvroEncoder(const ArrowSchema& schema, AvroProgram program,
                     string header) except +raise_fault


cdef class AvroDecoder(Decoder):
    cdef object lookup
    cdef int put(self, const string& header, object program) except -1


cdef class AvroEncoder(Encoder):
    pass

from libc.stdint cimport int64_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string

from fabric._cython.codecs.codec cimport CDecoder, CEncoder, Decoder, Encoder, raise_fault
from fabric._cython.kernels.arrow_c cimport ArrowSchema


cdef extern from "codecs/json.hpp" namespace "fabric::codecs" nogil:
    unique_ptr[CDecoder] make_json_decoder(
        const ArrowSchema& schema, cbool framed) except +raise_fault
    unique_ptr[CEncoder] make_json_encoder(
        const ArrowSchema& schema, string prefix) except +raise_fault


cdef class JsonDecoder(Decoder):
    pass


cdef class JsonEncoder(Encoder):
    pass

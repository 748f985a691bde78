from libc.stdint cimport int32_t
from libcpp cimport bool as cbool
from libcpp.memory cimport unique_ptr
from libcpp.string cimport string
from libcpp.vector cimport vector

from fabric._cython.codecs.codec cimport CDecoder, CEncoder, Decoder, Encoder, raise_fault
from fabric._cython.kernels.arrow_c cimport ArrowSchema


cdef extern from "codecs/text.hpp" namespace "fabric::codecs" nogil:
    unique_ptr[CDecoder] make_json_decoder(
        const ArrowSchema& schema, cbool framed) except +raise_fault
    unique_ptr[CEncoder] make_json_encoder(
        const ArrowSchema& schema, string prefix) except +raise_fault

    cppclass CsvRules:
        char delimiter
        char quote
        cbool fills
        vector[string] nulls
        vector[int32_t] columns

    cdef enum class Quoting(int32_t):
        texts
        all
        none

    unique_ptr[CDecoder] make_csv_decoder(
        const ArrowSchema& schema, CsvRules rules) except +raise_fault
    unique_ptr[CEncoder] make_csv_encoder(
        const ArrowSchema& schema, char delimiter, Quoting quoting) except +raise_fault
    unique_ptr[CDecoder] make_text_decoder(const ArrowSchema& schema) except +raise_fault
    unique_ptr[CEncoder] make_text_encoder(const ArrowSchema& schema) except +raise_fault


cdef class JsonDecoder(Decoder):
    pass


cdef class JsonEncoder(Encoder):
    pass


cdef class CsvDecoder(Decoder):
    pass


cdef class CsvEncoder(Encoder):
    pass


cdef class TextDecoder(Decoder):
    pass


cdef class TextEncoder(Encoder):
    pass

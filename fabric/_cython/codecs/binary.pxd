from libc.stdint cimport int32_t, int64_t, uint32_t
from libcpp cimport bool as cbool
from libcpp.string cimport string
from libcpp.unordered_map cimport unordered_map
from libcpp.vector cimport vector

from fabric._cython.codecs.codec cimport CDecoder, CEncoder, Decoder, Encoder, raise_fault
from fabric._cython.kernels.arrow_c cimport ArrowSchema


cdef extern from *:
    """
    #include "codecs/framed.hpp"

    typedef int (*fabric_ask)(void* decoder, const std::string& header, std::string* reason);

    // A lookup that asks a Python object: `ask` takes the GIL, and returns -1 with an error set.
    static fabric::codecs::Lookup fabric_lookup_of(void* decoder, fabric_ask ask) {
      return [=](std::string_view header, std::string& reason) {
        const int found = ask(decoder, std::string(header), &reason);
        if (found < 0) throw fabric::codecs::PythonError();
        return found > 0;
      };
    }
    """
    cppclass Lookup "fabric::codecs::Lookup":
        Lookup() nogil
    ctypedef int (*Ask "fabric_ask")(
        void* decoder, const string& header, string* reason) except -1 nogil
    Lookup lookup_of "fabric_lookup_of"(void* decoder, Ask ask)


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


cdef extern from "codecs/protobuf.hpp" namespace "fabric::codecs" nogil:
    cdef enum PbType "fabric::codecs::PbType":
        pass

    cdef enum PbShape "fabric::codecs::PbShape":
        pass

    cppclass PbEnum:
        PbEnum()
        cbool is_closed
        unordered_map[int32_t, string] names
        unordered_map[string, int32_t] numbers

    cppclass PbField:
        PbField()
        uint32_t number
        PbType type
        PbShape shape
        cbool is_repeated
        cbool has_presence
        cbool is_required
        cbool is_packed
        int32_t column_id
        int32_t message_id
        int32_t enum_id
        int32_t oneof_id

    cppclass PbMessage:
        PbMessage()
        vector[PbField] fields
        vector[int32_t] absent

    cppclass PbProgram:
        PbProgram()
        vector[PbMessage] messages
        vector[PbEnum] enums

    cppclass CProtobufDecoder "fabric::codecs::ProtobufDecoder"(CDecoder):
        CProtobufDecoder(const ArrowSchema& schema, Lookup lookup) except +raise_fault
        void put(string header, PbProgram program) except +raise_fault

    cppclass CProtobufEncoder "fabric::codecs::ProtobufEncoder"(CEncoder):
        CProtobufEncoder(const ArrowSchema& schema, PbProgram program,
                         string header) except +raise_fault


cdef class AvroDecoder(Decoder):
    cdef object lookup
    cdef int put(self, const string& header, object program) except -1


cdef class AvroEncoder(Encoder):
    pass


cdef class ProtobufDecoder(Decoder):
    cdef object lookup
    cdef int put(self, const string& header, object program) except -1


cdef class ProtobufEncoder(Encoder):
    pass

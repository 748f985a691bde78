from libc.stdint cimport int32_t, int64_t
from libcpp cimport bool as cbool
from libcpp.pair cimport pair
from libcpp.string cimport string
from libcpp.vector cimport vector


cdef extern from "kafka/python_faults.hpp" nogil:
    void raise_fault "fabric_raise_kafka_fault"()


cdef extern from "kafka/abi.hpp" namespace "fabric::kafka" nogil:
    string c_load "fabric::kafka::load"(const char* path) except +
    string c_version "fabric::kafka::version"() except +
    string c_features "fabric::kafka::features"() except +


cdef extern from "kafka/handle.hpp" namespace "fabric::kafka" nogil:
    ctypedef pair[string, int32_t] PartitionKey
    ctypedef vector[pair[string, string]] Settings

    struct CFault "fabric::kafka::Fault":
        int code
        string name
        string text
        cbool fatal
        string topic
        int32_t partition

    struct LogLine:
        int level
        string text

    struct TopicFacts:
        string name
        vector[int32_t] partitions
        string error

    cppclass Handle:
        vector[CFault] take_faults() except +
        vector[LogLine] take_logs() except +
        string statistics() except +
        int64_t n_failures()

    vector[TopicFacts] ask_metadata(const Handle& handle, const vector[string]& topics,
                                    int timeout_ms) except +raise_fault


cdef Settings settings_of(object settings, dict defaults) except *
cdef PartitionKey key_of(object topic, object partition) except *
cdef int milliseconds(object seconds) except? -1
cdef list faults_of(Handle* handle)
cdef list logs_of(Handle* handle)
cdef dict statistics_of(Handle* handle)
cdef dict metadata_of(Handle* handle, object topics, int timeout_ms)

"""Which gRPC there is, see `version.hpp`."""

from libcpp.string cimport string


cdef extern from "grpc/version.hpp" namespace "fabric" nogil:
    const char* GRPC_KNOWN
    string c_installed_grpc "fabric::installed_grpc"()

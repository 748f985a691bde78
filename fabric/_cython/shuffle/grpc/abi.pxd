"""Which gRPC there is, see `abi.hpp`."""

from libcpp.string cimport string


cdef extern from "grpc/abi.hpp" namespace "fabric" nogil:
    const char* GRPC_KNOWN
    string c_installed_grpc "fabric::installed_grpc"()

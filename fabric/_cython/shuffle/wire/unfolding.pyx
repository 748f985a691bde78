"""What messages of strangers come to once Arrow reads them, known before it does.

One job: let Python ask what the servers' streams are asked.
"""

from libc.stdint cimport int64_t
from libcpp.string cimport string

from fabric._cython.shuffle.wire.arrow_cpp cimport CResult, CStatus
from fabric._cython.shuffle.wire.faults cimport raise_fault


cdef extern from "wire/unpacked.hpp" namespace "fabric" nogil:
    cppclass PackedMessage:
        PackedMessage(string metadata, string body)
        CResult[int64_t] unpacked_bytes()

    CStatus c_check_schema "fabric::check_schema_message"(string bytes)


def unpacked_bytes(bytes metadata not None, bytes body not None):
    """What the buffers of an IPC message come to once decompressed; `DataError` if it is none."""
    cdef string first = metadata, second = body
    cdef CResult[int64_t] found = PackedMessage(first, second).unpacked_bytes()
    raise_fault(found.status())
    return found.ValueUnsafe()


def check_schema(bytes message not None):
    """Raise `DataError` when a schema of a stranger would become more than anybody needs."""
    cdef string data = message
    raise_fault(c_check_schema(data))

"""Which gRPC the wheel of pyarrow brings, and whether it is the one whose shapes are declared here.

One job: refuse another one before a server is made of it. Versions are those of gRPC's core, the
only ones that a wheel tells: 51 belongs to gRPC 1.76.
"""

from libcpp.string cimport string

from fabric._cython.abi import BUILT_FOR as _BUILT_FOR


cdef extern from "grpc/abi.hpp" namespace "fabric" nogil:
    const char* GRPC_KNOWN
    string c_installed_grpc "fabric::installed_grpc"()


def known_grpc():
    """The version whose shapes `abi.cpp` declares."""
    return GRPC_KNOWN.decode()


def installed_grpc():
    """The version inside the libarrow_flight that is loaded; empty when it tells none."""
    return c_installed_grpc().decode()


def check_grpc(str version not None):
    """Let the known `version` pass, and no other one.

    >>> check_grpc(known_grpc())

    Raises
    ------
    ImportError
        It names both versions, and says what to install.
    """
    known = known_grpc()
    if version == known:
        return
    other = f"gRPC core {version}" if version else "a gRPC that tells no version"
    raise ImportError(
        f"the pyarrow that is installed brings {other}; Fabric was built for gRPC core {known}: "
        f"pip install 'pyarrow=={_BUILT_FOR}.*'"
    )

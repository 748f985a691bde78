"""The data plane: pool, partitioner, checksums, and the rooms around them, in C++.

One job of this module: load the libraries of the pyarrow wheel before a face that is linked with
them, and say clearly when another pyarrow is installed than the one they were built for.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import pyarrow as pa

from fabric._cython.abi import refusal

__all__ = ["installed_version"]


def installed_version() -> str:
    """The version of the pyarrow that is installed, for example ``25.0.1``."""
    return str(pa.__version__)


def _load() -> None:
    if reason := refusal(installed_version()):
        raise ImportError(reason)
    for folder in pa.get_library_dirs():
        library = Path(folder) / f"libarrow_flight.so.{pa.cpp_build_info.so_version}"
        if library.is_file():
            ctypes.CDLL(str(library))


_load()

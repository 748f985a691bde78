"""Which instruction set the kernels use: `scalar`, `avx2` or `avx512`.

One job: find the best set this machine has, let `FABRIC_CPU` or `set_cpu_path` force another, and
tell the other kernels. Every path gives the same bytes; forcing one is for tests and comparisons.
"""

import os

from libc.stdint cimport int32_t


cdef extern from "cpu.hpp" namespace "fabric" nogil:
    int best_cpu() noexcept


_PATHS = ("scalar", "avx2", "avx512")
cdef int32_t chosen = best_cpu()


cdef int32_t current_cpu() noexcept nogil:
    """The level the kernels pass to `by_cpu`."""
    return chosen


def cpu_paths():
    """Names of the paths this machine can run, slowest first.

    Examples
    --------
    >>> cpu_paths()[0]
    'scalar'
    """
    return _PATHS[: best_cpu() + 1]


def cpu_path():
    """Name of the path in use."""
    return _PATHS[chosen]


def set_cpu_path(name):
    """Make every kernel of this process use one path from the next call on.

    Parameters
    ----------
    name
        One of `cpu_paths()`.
    Raises
    ------
    ValueError
        If the machine has no such path.
    """
    global chosen
    known = cpu_paths()
    if name not in known:
        raise ValueError(f"this machine has no CPU path {name!r}; it has {', '.join(known)}")
    chosen = known.index(name)


if os.environ.get("FABRIC_CPU"):
    set_cpu_path(os.environ["FABRIC_CPU"])

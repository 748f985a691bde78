"""Memory that goes back to the system when an agent is idle.

One job: allocator settings of an agent process, made before the first allocation that matters.
Measured: mimalloc, Arrow's default, keeps what it once had; jemalloc with a short decay and the
system's malloc trimmed when idle give it back. DataFusion brings a mimalloc of its own; told to
commit late and to purge after 10 ms it holds a few MB after a small job. Purging at once would hold
50 MB less after a large one and double its CPU time: every batch then faults its pages in anew.
pandas, which pyarrow loads when it finds it, would cost 40 MB and a second.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from typing import Any

DECAY_MS = 1000
"""How long jemalloc keeps pages nobody uses."""
ARENAS_MAX = 2
"""Arenas of the system's malloc: one for each thread keeps memory in each."""
ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
    "OPENBLAS_NUM_THREADS": "1",
    "MIMALLOC_PURGE_DELAY": "10",
    "MIMALLOC_EAGER_COMMIT": "0",
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
}
"""Read by Arrow, numpy and DataFusion's allocator when they are first imported."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def prepare_process() -> None:
    """Choose Arrow's pool, tune malloc, keep pandas out; best before pyarrow is imported."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    import pyarrow as pa

    if pa.default_memory_pool().backend_name == "jemalloc":
        pa.jemalloc_set_decay_ms(DECAY_MS)
    hide_pandas()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_ARENA_MAX, ARENAS_MAX)
        libc.mallopt(_M_TRIM_THRESHOLD, 4 << 20)
        libc.mallopt(_M_MMAP_THRESHOLD, 1 << 20)


def give_back() -> None:
    """Return free memory of every allocator we know to the system; costs some milliseconds."""
    import pyarrow as pa

    from fabric._cython.shuffle.pool import default_pool

    gc.collect()
    default_pool().trim()
    pa.default_memory_pool().release_unused()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def hide_pandas() -> None:
    """Let pyarrow look for pandas now and not find it; it looks only once."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    blind: Any = _Blind()
    sys.meta_path.insert(0, blind)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(blind)


class _Blind:
    """An import finder that says there is no pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is not loaded into agents", name=name)

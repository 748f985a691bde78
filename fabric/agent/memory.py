"""Memory that goes back to the system when an agent is idle.

One job: allocator settings of an agent process, made before the first allocation that matters.
Pages given back are faulted in anew by the next batch or job, which costs more than filling them:
two agents that exchange 10 M rows again and again took 1.6 CPU-s a time when every allocator gave
back early, and take 1.0 when they keep what they have. So they do, for as long as a pause between
two queries may last: jemalloc by a thread of its own, the system's malloc until `give_back_heap`
empties it, some seconds after the last job (what messages took, half of it) and now and again
while a stream runs: it would keep what its busiest second took, 70 MB of 160 once. Both have two
arenas, so that a thread takes what another has freed. Arrow's default, mimalloc, can't be emptied,
and its jemalloc only in name: `release_unused` asks it for an arena that is called
"MALLCTL_ARENAS_ALL". DataFusion brings a mimalloc of its own,
which gives back after a second, whenever it is next called. Its threads take new segments rather
than room that other threads freed until they have as many as they may: with no such bound, a scan
of 2 GB of Parquet that kept nothing filled 2.2 GB of fresh pages, with 2 it takes 0.4 GB and half
the time.
pandas, which pyarrow loads when it finds it, would cost 40 MB and a second.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from typing import Any

from fabric.heap import ARENAS_MAX, bound_arenas

KEPT_S, TIGHT_KEPT_S = 180.0, 0.5
"""How long jemalloc keeps pages nobody uses; where memory is bounded."""
MALLOC_KEPT_BYTES, MALLOC_MAPPED_BYTES = 256 << 20, 32 << 20
"""What the system's malloc keeps at its end, and what it maps and unmaps by itself."""
ENVIRONMENT = {
    "ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
    "OPENBLAS_NUM_THREADS": "1",
    "MIMALLOC_TARGET_SEGMENTS_PER_THREAD": "2",
    "MIMALLOC_PURGE_DELAY": "1000",
    "MIMALLOC_EAGER_COMMIT": "0",
    "MIMALLOC_ARENA_EAGER_COMMIT": "0",
}
TIGHT_ENVIRONMENT = {"MIMALLOC_PURGE_DELAY": "10", "MIMALLOC_ARENA_PURGE_MULT": "1"}
"""Read by Arrow, numpy and DataFusion's allocator when they are first imported; where memory is
bounded the latter come first."""
_JEMALLOC = "JE_ARROW_MALLOC_CONF"  # likewise
TIGHT_LARGE_BYTES = 8 << 20
"""Buffers from here on go back when they are freed, where memory is bounded (Arrow sets no such
size): a row of 64 MB left 200 MB behind for half a second."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def prepare_process(memory: int | None = None, kept_s: float = KEPT_S) -> None:
    """Choose Arrow's pool, tune malloc, keep pandas out; best before pyarrow is imported.

    What it does not use a process keeps for `kept_s`, with a bound for its `memory` hardly at all.
    """
    tight = TIGHT_ENVIRONMENT if memory is not None else {}
    for name, value in (ENVIRONMENT | tight).items():
        os.environ.setdefault(name, value)
    os.environ.setdefault(_JEMALLOC, _jemalloc_options(memory, kept_s))
    hide_pandas()
    bound_arenas()
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        kept = MALLOC_KEPT_BYTES if memory is None else min(MALLOC_KEPT_BYTES, memory // 32)
        libc.mallopt(_M_TRIM_THRESHOLD, kept)
        libc.mallopt(_M_MMAP_THRESHOLD, MALLOC_MAPPED_BYTES)


def _jemalloc_options(memory: int | None, kept_s: float) -> str:
    decay_ms = int(1000 * (kept_s if memory is None else TIGHT_KEPT_S))
    large = "" if memory is None else f",oversize_threshold:{TIGHT_LARGE_BYTES}"
    return f"narenas:{ARENAS_MAX},dirty_decay_ms:{decay_ms},muzzy_decay_ms:0{large}"


def give_back() -> None:
    """Return all memory that nobody needs to the system; stops the interpreter for long."""
    gc.collect()
    give_back_free()


def give_back_free() -> None:
    """Return free memory of every allocator we know to the system; costs some milliseconds."""
    import pyarrow as pa

    from fabric._cython.shuffle.pool import default_pool

    default_pool().trim()
    pa.default_memory_pool().release_unused()
    give_back_heap()


def give_back_heap() -> None:
    """Return what the system's malloc keeps to the system: after messages came, half of it."""
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

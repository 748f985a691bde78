"""The memory of an agent: how it is split, kept by allocators, and given back to the system.

`prepare_process` makes allocator settings, before the first allocation that matters. Pages given
back are faulted in anew by the next batch or job, which costs more than filling them:
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

`GiveBackTimes` says when: after a short pause the heap, which refills in milliseconds, after a long
one all that can be; each once. An agent that is never idle, as with a stream, would keep its peak
for ever, so it gives back what is free from time to time.

`MemorySplit` goes from ``fabric agent --memory`` to the parts of it. Of M bytes

    fixed        160 MiB + M / 10, at most 2 M / 5: Python, Arrow, DataFusion and gRPC themselves
                 (190 MB when idle), batches between steps, what allocators keep
    edges        half of the rest: rows of materialised partitions, of streams from other agents,
                 and those a task has gathered; more is spilled. Beside them an eighth of this for
                 the rings of each pipelined edge, whose producers wait
    fragments    the other half, dealt out evenly to the slots: DataFusion's pool of each; its
                 sorts and aggregates spill, joins that do not fit are merged

A task with Python functions has its pool in a process of its own (`fabric.agent.slot`), which is
stopped once it has taken 128 MiB beside it; of the rows that it is given and gives only a few
megabytes are in memory twice. What starts these processes has 40 MB for all of them.

Without ``--memory`` edges have three fifths of the machine's memory (of the container's, where that
is less) and fragments are not bounded.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fabric.process import ARENAS_MAX, bound_arenas

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
PAUSE_S = 5.0
"""Idle for a moment: one job follows another sooner."""
Due = Literal["all", "free", "heap", ""]
_FIXED_BYTES = 160 << 20
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


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


class GiveBackTimes:
    """Ask it again and again.

    >>> times = GiveBackTimes(every_s=10.0, now=0.0)
    >>> times.due(busy=True, n_events=1, now=9.0), times.due(busy=True, n_events=2, now=11.0)
    ('', 'free')
    >>> [times.due(busy=False, n_events=2, now=now) for now in (15.0, 17.0, 20.0, 22.0, 40.0)]
    ['', 'heap', '', 'all', '']
    """

    def __init__(self, every_s: float, now: float) -> None:
        self._every_s, self._given = every_s, now
        self._n_events = 0
        self._quiet_since: float | None = None
        self._heap_is_full = True

    def due(self, *, busy: bool, n_events: int, now: float) -> Due:
        """What to give back now; `n_events` counts what happened since the beginning."""
        if busy or n_events != self._n_events:
            self._quiet_since, self._n_events, self._heap_is_full = now, n_events, True
            return self._give("free", now) if now - self._given > self._every_s else ""
        if self._quiet_since is None:
            return ""
        if now - self._quiet_since > self._every_s:
            self._quiet_since = None
            return self._give("all", now)
        if self._heap_is_full and now - self._quiet_since > PAUSE_S:
            self._heap_is_full = False
            return "heap"
        return ""

    def _give(self, due: Due, now: float) -> Due:
        self._given = now
        return due


@dataclass(frozen=True, slots=True)
class MemorySplit:
    """`edges` for all edges together, `fragment` for each that runs (None: as much as it wants).

    >>> MemorySplit.of(1_000_000_000, 2)
    MemorySplit(edges=366113920, fragment=183056960)
    """

    edges: int
    fragment: int | None

    @property
    def ring(self) -> int:
        """For the rings of one pipelined edge."""
        return self.edges // 8

    @classmethod
    def of(cls, memory: int | None, slots: int) -> MemorySplit:
        """The parts of `memory`."""
        if memory is None:
            return cls(machine_bytes() * 3 // 5, None)
        rest = memory - min(_FIXED_BYTES + memory // 10, memory * 2 // 5)
        return cls(rest // 2, rest // 2 // max(1, slots))


def machine_bytes() -> int:
    """The memory that this process may have at most."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _LIMITS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            found.append(int(text))
    return min(found)

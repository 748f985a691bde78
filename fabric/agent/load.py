"""Whether an agent asks for no further tasks.

One job: `is_overloaded`. An agent that does nothing never is, or nobody would give it work again.
"""

from __future__ import annotations

from pathlib import Path

OVER_BOUND = 1.1
"""Times the memory it was given: what spills keeps below, so something else grows."""
FREE_SHARE = 0.04
"""Of the machine's memory: with less, the next task may end the process."""


def meminfo() -> str:
    """What Linux says of the machine's memory; empty elsewhere."""
    try:
        return Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return ""


def is_overloaded(running: int, rss_bytes: int, memory_bytes: int, meminfo: str) -> bool:
    """From its tasks, its memory and its bound, and the text of ``/proc/meminfo`` ("": unknown).

    >>> is_overloaded(1, 700, 512, ""), is_overloaded(0, 700, 512, "")
    (True, False)
    >>> is_overloaded(1, 1, 0, "MemTotal: 1000 kB\\nMemAvailable: 30 kB\\n")
    True
    """
    if running == 0:
        return False
    if memory_bytes and rss_bytes > memory_bytes * OVER_BOUND:
        return True
    found = dict(line.split(":", 1) for line in meminfo.splitlines() if ":" in line)
    total, free = (found.get(name, "").split() for name in ("MemTotal", "MemAvailable"))
    return bool(total and free) and int(free[0]) < int(total[0]) * FREE_SHARE

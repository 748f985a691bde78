"""How the memory of an agent is split.

One job: from ``fabric agent --memory`` to the parts of it. Of M bytes

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

import os
from dataclasses import dataclass
from pathlib import Path

_FIXED_BYTES = 160 << 20
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


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

"""The tasks of a stage, made anew.

One job: `Tasks`: what each of them reads, why, and where the stage is cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fabric.coordinator.planner.adaptive.dealing import Cut
from fabric.coordinator.planner.stages import Edge, Read

TaskReads = dict[int, Read]
"""Of one task: what it reads of each measured edge, by edge."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """What every task reads; `why` for people; `cut` as in `Dealing`."""

    reads: tuple[TaskReads, ...]
    why: tuple[str, ...]
    cut: Cut | None = None


def whole(edges: Iterable[Edge], begin: int, end: int) -> TaskReads:
    """Partitions [begin, end) of each of `edges`."""
    return {edge.edge: Read((begin, end)) for edge in edges}


def even(weights: Sequence[int], n: int) -> list[tuple[int, int]]:
    """All of `weights` in at most `n` ranges of about equal weight; none is without weight.

    >>> even([3, 1, 2, 0, 6], 2), even([0, 5, 0], 3)
    ([(0, 4), (4, 5)], [(0, 3)])
    """
    total, before = sum(weights), 0
    ranges: list[tuple[int, int]] = []
    last = -1
    for index, weight in enumerate(weights):
        part = (2 * before + weight) * n // (2 * total) if total else 0
        if ranges and (part == last or not weight or not sum(weights[slice(*ranges[-1])])):
            ranges[-1] = (ranges[-1][0], index + 1)
        else:
            ranges.append((index, index + 1))
        last = part if weight else last
        before += weight
    return ranges


def mib(n_bytes: int) -> str:
    """Bytes for people.

    >>> mib(3), mib(5 << 20)
    ('3 bytes', '5.0 MiB')
    """
    if n_bytes < 1 << 10:
        return f"{n_bytes} bytes"
    unit, name = (20, "MiB") if n_bytes >= 1 << 20 else (10, "KiB")
    return f"{n_bytes / (1 << unit):,.1f} {name}"

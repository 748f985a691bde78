"""Pipelined edges inside one agent: bounded rings between task threads.

One job: the Python face of `fabric/_cython/shuffle/ring`, which carries batches and events of one
job's pipelined edges from producers to consumers. Each (edge, partition) is one lock-free ring with
one consumer at a time, bounded in batches and bytes; events cost no room but wait behind the rows
before them, so they never overtake rows. A producer waits for room on any of its edges and a
consumer for an item on any of its inputs: a diamond with one-batch buffers can't block. Who waits
sleeps without the GIL. Cancelling wakes everyone.
"""

from __future__ import annotations

from fabric._cython.shuffle.ring import ring
from fabric._cython.shuffle.ring.ring import Mark, Rows
from fabric.flight.header import Event

__all__ = ["Item", "Mark", "Pipes", "Port", "Rows"]

Port = tuple[int, int]
"""(edge, partition)."""
Item = Rows | Mark
"""Whatever waits in a ring."""


class Pipes(ring.Pipes):
    """Every pipelined edge of one job on this agent."""

    def __new__(cls, job: str) -> Pipes:
        """The pipes of `job`, with no edge yet."""
        return super().__new__(cls, job, Event)

"""Pipelined edges inside one agent: bounded queues between task threads.

One job: carry batches and events of one job's pipelined edges from producers to consumers. Each
(edge, partition) is one queue, bounded in batches and bytes; events cost nothing but wait behind
the rows before them, so they never overtake rows. All queues of a job share one lock, so that a
producer can wait for room on any of its edges and a consumer for an item on any of its inputs: a
diamond with one-batch buffers can't block. Cancelling wakes everyone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Condition

import pyarrow as pa

from fabric.errors import CancelledError, InternalError
from fabric.flight.header import Event

BATCHES_MAX = 8
"""Batches that may wait for one partition, unless the edge says otherwise."""
BYTES_MAX = 8 << 20
"""Bytes that may wait for one partition; a larger batch is let in when nothing else waits."""

Port = tuple[int, int]
"""(edge, partition)."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch of one producer task."""

    producer: int
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Mark:
    """An event of one producer task; `value` is the watermark in microseconds or the barrier id."""

    producer: int
    event: Event
    value: int = 0
    total_rows: int = 0


Item = Rows | Mark
"""Whatever waits in a queue."""


@dataclass(slots=True)
class _Queue:
    items: deque[Item] = field(default_factory=deque)
    n_batches: int = 0
    n_bytes: int = 0
    closed: bool = False
    sent: dict[int, int] = field(default_factory=dict)
    """Rows put by each producer: what END must agree with."""


@dataclass(slots=True)
class _Edge:
    queues: list[_Queue]
    batches_max: int = BATCHES_MAX
    bytes_max: int = BYTES_MAX


class Pipes:
    """Every pipelined edge of one job on this agent."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._changed = Condition()
        self._edges: dict[int, _Edge] = {}
        self._cancelled: str | None = None

    def declare(
        self, edge: int, n_partitions: int, batches_max: int = 0, bytes_max: int = 0
    ) -> None:
        """Make an edge known, from either end and in any order; a bound of 0 leaves it as it is."""
        with self._changed:
            known = self._edges.setdefault(edge, _Edge([_Queue() for _ in range(n_partitions)]))
            if len(known.queues) != n_partitions:
                raise InternalError(
                    f"edge {edge} has {len(known.queues)} partitions at one end and "
                    f"{n_partitions} at the other",
                    job=self._job,
                )
            known.batches_max = batches_max or known.batches_max
            known.bytes_max = bytes_max or known.bytes_max
            self._changed.notify_all()

    def put(self, sends: Iterable[tuple[Port, Item]]) -> None:
        """Put every item into its queue; waits until all are in, whichever has room first.

        Items of one port keep their order. `CancelledError` when the job is cancelled meanwhile.
        """
        waiting: dict[Port, deque[Item]] = {}
        for port, item in sends:
            waiting.setdefault(port, deque()).append(item)
        with self._changed:
            while waiting:
                self._check()
                if not self._put_what_fits(waiting):
                    self._changed.wait()

    def take(self, ports: Sequence[Port]) -> tuple[Port, Item]:
        """The next item of any of `ports`, earlier ports first; waits for one.

        To be fair among ports, pass them in another order each time.
        """
        if not ports:
            raise InternalError("nothing to take from", job=self._job)
        with self._changed:
            while True:
                self._check()
                for port in ports:
                    queue = self._queue(port)
                    if queue.items:
                        return port, self._pop(queue)
                self._changed.wait()

    def close(self, port: Port) -> None:
        """The consumer of `port` wants no more: what waits and what comes is dropped."""
        with self._changed:
            queue = self._queue(port)
            queue.closed = True
            queue.items.clear()
            queue.n_batches = queue.n_bytes = 0
            self._changed.notify_all()

    def wanted(self, edge: int) -> bool:
        """Whether any partition of `edge` still has, or may get, a consumer."""
        with self._changed:
            return not all(queue.closed for queue in self._edges[edge].queues)

    def waiting_bytes(self) -> int:
        """Bytes of all batches that wait now."""
        with self._changed:
            return sum(q.n_bytes for edge in self._edges.values() for q in edge.queues)

    def cancel(self, reason: str) -> None:
        """Wake everyone: each waiting and each later call raises `CancelledError`."""
        with self._changed:
            self._cancelled = self._cancelled or reason
            for queue in (q for edge in self._edges.values() for q in edge.queues):
                queue.items.clear()
                queue.n_batches = queue.n_bytes = 0
            self._changed.notify_all()

    def _check(self) -> None:
        if self._cancelled is not None:
            raise CancelledError(self._cancelled, job=self._job)

    def _queue(self, port: Port) -> _Queue:
        edge, partition = port
        if edge not in self._edges:
            raise InternalError(f"edge {edge} was never declared", job=self._job)
        return self._edges[edge].queues[partition]

    def _put_what_fits(self, waiting: dict[Port, deque[Item]]) -> bool:
        """Move items into their queues, and full ports out of the way; whether any went in."""
        moved = False
        for port in list(waiting):
            edge, items = self._edges[port[0]], waiting[port]
            queue = self._queue(port)
            while items and _fits(edge, queue, items[0]):
                self._push(queue, items.popleft())
                moved = True
            if not items:
                del waiting[port]
        if moved:
            self._changed.notify_all()
        return moved

    def _push(self, queue: _Queue, item: Item) -> None:
        if isinstance(item, Rows):
            queue.sent[item.producer] = queue.sent.get(item.producer, 0) + item.batch.num_rows
        elif item.event is Event.END and item.total_rows != queue.sent.get(item.producer, 0):
            raise InternalError(
                f"producer {item.producer} announced {item.total_rows} rows and sent "
                f"{queue.sent.get(item.producer, 0)}",
                job=self._job,
            )
        if queue.closed:
            return
        queue.items.append(item)
        if isinstance(item, Rows):
            queue.n_batches += 1
            queue.n_bytes += item.batch.nbytes

    def _pop(self, queue: _Queue) -> Item:
        item = queue.items.popleft()
        if isinstance(item, Rows):
            queue.n_batches -= 1
            queue.n_bytes -= item.batch.nbytes
            self._changed.notify_all()
        return item


def _fits(edge: _Edge, queue: _Queue, item: Item) -> bool:
    if isinstance(item, Mark) or queue.closed or queue.n_batches == 0:
        return True
    fits_bytes = queue.n_bytes + item.batch.nbytes <= edge.bytes_max
    return queue.n_batches < edge.batches_max and fits_bytes

"""What a task in a slot reads: rows that the agent has, or fetches for it.

One job: `Agent`, the asking end of the channel, and `StoredInput`. One thread asks at a time; the
others wait: DataFusion's may ask while the task's own does. The agent always answers, so nobody
waits for anything but the agent's disk and its peers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Lock

import pyarrow as pa

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.channel import Channel
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError, InternalError
from fabric.operators.fragment.memory import Input
from fabric.operators.fragment.scan import read_schema
from fabric.plan.nodes import Scan
from fabric.plan.sources import Split

PUTS_MAX = 2
"""Batches of a task that nobody has taken yet; more wait for the agent, who waits for consumers."""


class Agent:
    """The agent, as a task in a slot sees it."""

    def __init__(self, channel: Channel[sp.ToSlot]) -> None:
        self._channel, self._lock = channel, Lock()
        self._numbers = count()
        self._splits: dict[int, list[Split]] = {}
        self._let_go: deque[int] = deque()
        self._over = False
        self._n_put = 0
        """Batches that were put since the agent last answered."""

    def end(self, message: sp.FromSlot) -> None:
        """Say how the task ended; threads of its fragment that still read hear that it is over."""
        with self._lock:
            self._over = True
            self._channel.send(message)

    def put(self, batch: pa.RecordBatch) -> None:
        """Give rows that the task made; waits while the agent has not taken `PUTS_MAX` of them."""
        with self._lock:
            self._n_put += 1
            put = sp.Put(batch=self._channel.place(batch), waits=self._n_put >= PUTS_MAX)
            if put.waits:
                self._ask(sp.FromSlot(put=put), "accepted")
            else:
                self._channel.send(sp.FromSlot(put=put))

    def items(self) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """(edge, batch) of all edges of a chain; None at the end of an edge."""
        take = sp.Take(reader=next(self._numbers), items=sp.Items())
        while True:
            edge, batches, ended = self._take(take)
            for batch in batches:
                yield edge, batch
            if ended:
                return
            if not batches:
                yield edge, None

    def rows_of(self, given: sp.Input) -> Input:
        """All rows of an edge that is complete."""
        stored = StoredInput(self, given)
        return list(stored) if given.held else stored

    def part(self, edge: int, part: int) -> Iterator[pa.RecordBatch]:
        """A part of those rows."""
        return self._read(sp.Take(part=sp.Part(edge=edge, part=part)))

    def splits(self, scans: Sequence[pb.ScanSplits]) -> dict[int, list[Split]]:
        """What each scan reads."""
        for scan in scans:
            self._splits[scan.scan_id] = [
                Split(s.uri, s.begin, s.end, s.ticket, s.n_rows, s.n_bytes) for s in scan.splits
            ]
        return self._splits

    def read_split(self, node: Scan, split: Split) -> Iterator[pa.RecordBatch]:
        """Rows from elsewhere, which the agent reads with what it may."""
        at = next(i for i, each in enumerate(self._splits[node.scan_id]) if each is split)
        ask = sp.ReadSplit(scan_id=node.scan_id, split=at, columns=read_schema(node).names)
        return self._read(sp.Take(split=ask))

    def _read(self, take: sp.Take) -> Iterator[pa.RecordBatch]:
        take.reader = next(self._numbers)
        ended = False
        try:
            while not ended:
                _, batches, ended = self._take(take)
                while batches:
                    yield batches.popleft()
        finally:
            if not ended:  # perhaps by the garbage collector, while this thread holds the lock
                self._let_go.append(take.reader)

    def _take(self, take: sp.Take) -> tuple[int, deque[pa.RecordBatch], bool]:
        """The edge, next rows, and whether there are no more of a reader; no rows: of that edge."""
        with self._lock:
            rows = self._ask(sp.FromSlot(take=take), "rows").rows
            take.ClearField("source")  # it is known now
            batches = deque(self._channel.batch(placed) for placed in rows.batches)
            return rows.edge, batches, not batches and not rows.of_edge

    def _ask(self, message: sp.FromSlot, kind: str) -> sp.ToSlot:
        if self._over:
            raise CancelledError("the task has ended")
        while self._let_go:
            message.let_go.append(self._let_go.popleft())
        self._channel.send(message)
        answer = self._channel.receive()
        self._n_put = 0
        if answer.WhichOneof("kind") != kind:
            raise InternalError(f"the agent answered {answer.WhichOneof('kind')}, not {kind}")
        return answer


@dataclass(frozen=True, slots=True)
class StoredInput:
    """Rows that lie in the agent; see `StoredRows`."""

    agent: Agent
    given: sp.Input

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return self.given.n_rows

    @property
    def n_bytes(self) -> int:
        """About how many bytes."""
        return self.given.n_bytes

    def parts(self) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
        """Calls that read a part each."""
        return [partial(self.agent.part, self.given.edge, at) for at in range(self.given.n_parts)]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for read in self.parts():
            yield from read()

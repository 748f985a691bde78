"""Inside a slot: the work of one task after the other, and what it reads from the agent.

One job: `serve`. A task arrives as its fragment, whose functions the agent has vouched for; its
rows go back a batch at a time. Whatever a function raises becomes an error for the agent; whatever
it does to the process is the agent's to notice.

`Agent` is the asking end of the channel: rows that the agent has, or fetches for the task. One
thread asks at a time; the others wait: DataFusion's may ask while the task's own does. The agent
always answers, so nobody waits for anything but the agent's disk and its peers.
"""

from __future__ import annotations

import socket
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import count
from pathlib import Path
from threading import Lock

import pyarrow as pa

from fabric.agent.attempts import scan_splits
from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.calls import CallPage
from fabric.agent.slot.chain_server import step_until_closed
from fabric.agent.slot.channel import Channel, ChannelClosedError
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import CancelledError, InternalError
from fabric.operators.chain import build_chain, rows_through
from fabric.operators.expressions.errors import as_fabric
from fabric.operators.fragment import FragmentStream, execute_fragment
from fabric.operators.fragment.scan import read_schema
from fabric.operators.fragment.session import FragmentMemory, Input
from fabric.operators.functions.trust import functions_of, vouch
from fabric.operators.functions.user_code import watch_with
from fabric.plan.codec import decode
from fabric.plan.nodes import Node, Scan, Sink
from fabric.plan.sources import Split

Batches = Generator[pa.RecordBatch] | FragmentStream

LATE = (
    "cloudpickle",
    "fabric.operators.fragment.lower",
    "fabric.operators.fragment.session",
    "fabric.operators.fragment.size",
    "fabric.operators.fragment.pieces",
    "fabric.io.files",
    "fabric.io.sources.memory",
)
"""What tasks import when they need it."""
PUTS_MAX = 2
"""Batches of a task that nobody has taken yet; more wait for the agent, who waits for consumers."""


def prepare() -> None:
    """Import what tasks need, before this process is forked."""
    for name in LATE:
        import_module(name)


def serve(end: socket.socket, page: int) -> None:
    """Run what the agent sends, until it hangs up."""
    calls = CallPage(page)
    watch_with(calls)
    channel = Channel(end, sp.ToSlot)
    try:
        while True:
            message = channel.receive()
            match message.WhichOneof("kind"):
                case "run":
                    _work(Agent(channel), message.run)
                case "begin":
                    _step(channel, message.begin)
                case other:
                    raise InternalError(f"a slot waits for a task, and {other} came")
    except ChannelClosedError:
        return  # the agent hung up


def _work(agent: Agent, run: sp.Run) -> None:
    try:
        with closing(_rows(agent, run)) as batches:
            for batch in batches:
                agent.put(batch)
    except ChannelClosedError:
        raise
    except BaseException as error:  # also a panic of DataFusion, or what a function raised
        agent.end(_failed(error))
        return
    agent.end(sp.FromSlot(done=sp.Done(lingers=threading.active_count() > 1)))


def _step(channel: Channel[sp.ToSlot], begin: sp.Begin) -> None:
    try:
        step_until_closed(channel, begin)
    except ChannelClosedError:
        raise
    except BaseException as error:
        channel.send(_failed(error))


def _failed(error: BaseException) -> sp.FromSlot:
    known = as_fabric(error)
    if isinstance(known, InternalError):
        traceback.print_exception(error)
    return sp.FromSlot(failed=to_detail(known))


def _rows(agent: Agent, run: sp.Run) -> Batches:
    root = decode(run.fragment).root
    for udf in functions_of(root):
        vouch(udf.payload)
    if isinstance(root, Sink):
        root = root.input
    if run.kind == pb.STAGE_CHAIN:
        return rows_through(build_chain(root), agent.items())
    return _fragment(agent, root, run)


def _fragment(agent: Agent, root: Node, run: sp.Run) -> Batches:
    memory = None
    if run.pool_bytes:
        memory = FragmentMemory(run.pool_bytes, tuple(map(Path, run.spill_folders)))
    return execute_fragment(
        root,
        {given.edge: agent.rows_of(given) for given in run.inputs},
        agent.splits(run.scans),
        target_partitions=max(1, run.target_partitions),
        read=agent.read_split,
        memory=memory,
    )


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
        self._splits = scan_splits(scans)
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

"""How a task gets its input: sealed partitions from any agent, or rings in this process.

One job: the rows of the input edges of one task. Partitions of this agent come straight from its
store; those of others through the transport, several agents at once. What a fragment needs of them
is put into the store, too: more than memory has room for goes to the disk. So all rows of an edge
are one input of a fragment (`Gathered`): a list of batches when memory keeps them all anyway, else
streams from wherever they lie. A peer that is gone or lost its partitions is an error that names
agent, producing task and partition.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from fabric._cython.shuffle.store.store import LocalRows
from fabric.agent.attempts import TaskSpec
from fabric.agent.engine import Services
from fabric.agent.pipes import Item, Pipes, Port, backlog_of
from fabric.agent.router import partitions_of, producers_of
from fabric.cancellation import Cancellation
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError, FabricError, PartitionLostError, PeerLostError
from fabric.flight.ticket import PartitionRequest

T = TypeVar("T")

FETCHES_MAX = 4
"""Agents that one task reads from at the same time."""
TAKE_ITEMS = 64
TAKE_BYTES = 1 << 20
"""What a task takes out of its rings at once: each call may cost a turn of the GIL."""
TAKE_MESSAGES = 4
"""From the disk a message has about 1 MiB."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What one agent holds of one partition of one edge."""

    edge: int
    agent_id: str
    request: PartitionRequest


class Inputs:
    """The input edges of one task."""

    def __init__(
        self, spec: TaskSpec, services: Services, pipes: Pipes, cancellation: Cancellation
    ) -> None:
        self._deploy, self._task, self._n_tasks = spec.deploy, spec.id, spec.n_tasks
        self._reads = {read.edge: read for read in spec.assignment.reads}
        self._agent_id, self._store = services.agent_id, services.store
        self._transport, self._exchanges = services.transport, services.exchanges
        self._pipes, self._cancellation = pipes, cancellation
        self._gathered: list[Gathered] = []
        self.rows = 0
        self.lost: list[pb.LostInput] = []
        """What could not be had, and from whom."""

    @property
    def materialised(self) -> list[int]:
        """Edges whose partitions are complete."""
        return [e.edge for e in self._deploy.inputs if e.mode != pb.MODE_PIPELINED]

    @property
    def pipelined(self) -> list[int]:
        """Edges whose rows are still being made."""
        return [e.edge for e in self._deploy.inputs if e.mode == pb.MODE_PIPELINED]

    def fetch_all(self) -> dict[int, list[pa.RecordBatch] | Gathered]:
        """All rows of every materialised edge, on this agent; until `close`."""
        pieces = self._pieces(self.materialised)
        remote = len({p.agent_id for p in pieces} - {self._agent_id})
        stop = Cancellation()
        with (
            self._cancellation.waking(lambda: stop.cancel("the task was cancelled")),
            ThreadPoolExecutor(
                max_workers=max(1, min(FETCHES_MAX, remote)),
                thread_name_prefix=f"fetch {self._task}",
            ) as pool,
        ):
            futures = [pool.submit(self._fetch, piece, stop) for piece in pieces]
            wait(futures, return_when=FIRST_EXCEPTION)
            stop.cancel("another fetch of the task failed")
        self._cancellation.check()
        errors = [e for e in (f.exception() for f in futures) if e is not None]
        if errors:
            raise min(errors, key=lambda e: isinstance(e, StopFetchError))
        parts: dict[int, list[LocalRows]] = {edge: [] for edge in self.materialised}
        for piece, future in zip(pieces, futures, strict=True):
            parts[piece.edge] += future.result()
        found: dict[int, list[pa.RecordBatch] | Gathered] = {}
        for edge, of_edge in parts.items():
            rows = Gathered(of_edge)
            self._gathered.append(rows)
            self.rows += rows.n_rows
            batches = rows.in_memory()
            found[edge] = rows if batches is None else batches
        return found

    def complete(self) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """(edge, batch) of every materialised edge, a message at a time; None at its end."""
        for edge in self.materialised:
            for piece in self._pieces([edge]):
                with closing(self._open(piece, self._cancellation)) as lists:
                    for batch in self._each(lists):
                        self._cancellation.check()
                        self.rows += batch.num_rows
                        yield edge, batch
            yield edge, None

    def _each(self, lists: Iterator[list[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
        try:
            for batches in lists:
                yield from batches
        except StopFetchError:
            self._cancellation.check()
            raise

    def next_items(
        self, ports: list[Port], timeout_s: float | None = None, gather_s: float = 0.0
    ) -> list[tuple[Port, Item]]:
        """What waits, at least one but after `timeout_s`, or while more is to come together.

        A lost exchange with another agent has its own error.
        """
        try:
            return self._pipes.take_many(ports, TAKE_ITEMS, TAKE_BYTES, timeout_s, gather_s)
        except CancelledError:
            self._exchanges.check(self._task.job)
            raise

    def rest(self, ports: list[Port], until: int, timeout_s: float) -> bool:
        """Leave all where it is for `timeout_s`; True: until now, see `Pipes.rest`."""
        try:
            return self._pipes.rest(ports, until, timeout_s)
        except CancelledError:
            self._exchanges.check(self._task.job)
            raise

    def close(self) -> None:
        """Let go of all rows; tell the producers of pipelined edges that no more is wanted."""
        for rows in self._gathered:
            rows.close()
        self._gathered.clear()
        for port in self.expected():
            self._pipes.close(port)

    def expected(self) -> dict[Port, set[int]]:
        """Producers whose END is awaited, by port of a pipelined edge."""
        expected: dict[Port, set[int]] = {}
        wait_ns = backlog_of(self._deploy).wait_ns
        for edge in self._deploy.inputs:
            if edge.mode != pb.MODE_PIPELINED:
                continue
            self._pipes.declare(edge.edge, edge.n_partitions, wait_ns=wait_ns)
            for partition in self._partitions(edge):
                sources = producers_of(edge, partition)
                producers = {source.task for source in sources}
                expected[edge.edge, partition] = producers
        return expected

    def _partitions(self, edge: pb.InputEdge) -> list[int]:
        if (read := self._reads.get(edge.edge)) is not None:
            return list(range(read.first_partition, read.end_partition))
        return partitions_of(edge.kind, edge.n_partitions, self._task.task, self._n_tasks)

    def _pieces(self, edges: Sequence[int]) -> list[Piece]:
        return [
            piece
            for edge in self._deploy.inputs
            if edge.edge in edges
            for partition in self._partitions(edge)
            for piece in self._pieces_of(edge, partition)
        ]

    def _pieces_of(self, edge: pb.InputEdge, partition: int) -> list[Piece]:
        by_agent: dict[str, list[tuple[int, int]]] = {}
        producers = producers_of(edge, partition)
        read = self._reads.get(edge.edge)
        if read is not None and read.end_producer:
            producers = [p for p in producers if read.first_producer <= p.task < read.end_producer]
        for producer in producers:
            by_agent.setdefault(producer.agent_id, []).append((producer.task, producer.attempt))
        return [
            Piece(
                edge.edge,
                agent_id,
                PartitionRequest(
                    job=self._task.job,
                    edge=edge.edge,
                    node_path=edge.node_path,
                    partition=partition,
                    producers=tuple(found),
                ),
            )
            for agent_id, found in by_agent.items()
        ]

    def _fetch(self, piece: Piece, stop: Cancellation) -> list[LocalRows]:
        """The rows of a piece on this agent; those of another one are put into the store."""
        ask, task = piece.request, self._task
        if piece.agent_id == self._agent_id:
            with self._noting(piece):
                return self._store.local(ask.job, ask.edge, ask.partition, ask.producers)
        here: LocalRows | None = None
        with closing(self._open(piece, stop, gathers=True)) as lists:
            for batch in (batch for batches in lists for batch in batches):
                if here is None:
                    here = self._store.put_here(
                        ask.job, ask.edge, task.task, task.attempt, batch.schema
                    )
                here.append(batch)
        if here is None:
            return []
        here.seal()
        return [here]

    def _open(
        self, piece: Piece, stop: Cancellation, *, gathers: bool = False
    ) -> Generator[list[pa.RecordBatch], None, None]:
        """The rows of a piece as they come; `stop` ends a wait for them."""
        with self._noting(piece):
            yield from self._read(piece, stop, gathers)

    @contextmanager
    def _noting(self, piece: Piece) -> Iterator[None]:
        """Remember what could not be had: whoever retries the task must know."""
        try:
            yield
        except (PeerLostError, PartitionLostError) as error:
            gone = isinstance(error, PartitionLostError)
            self.lost += [
                pb.LostInput(
                    edge=piece.edge, task=task, attempt=attempt, agent_id=piece.agent_id, gone=gone
                )
                for task, attempt in piece.request.producers
            ]
            raise

    def _read(
        self, piece: Piece, stop: Cancellation, gathers: bool
    ) -> Generator[list[pa.RecordBatch], None, None]:
        ask = piece.request
        if piece.agent_id == self._agent_id:
            here = self._store.batches(ask.job, ask.edge, ask.partition, ask.producers)
            while batches := here.take_batches():
                yield batches
                _check(stop)
            return
        address = self._deploy.addresses.get(piece.agent_id, "")
        if not address:
            raise PeerLostError(
                f"agent {piece.agent_id} is gone and with it partition {ask.partition} of "
                f"{ask.node_path}, written there by task {ask.producers[0][0]}",
                job=ask.job,
                agent=piece.agent_id,
            )
        _check(stop)
        stream = self._transport.open_rows(address, ask, gathers=gathers)
        with closing(stream) as rows, stop.waking(rows.close):
            try:
                while batches := rows.take():
                    yield batches
                    _check(stop)
            except FabricError:
                _check(stop)  # closed under its reader
                raise


@contextmanager
def closed(items: Iterator[T]) -> Iterator[Iterator[T]]:
    """Close an iterator at the end of the block, when it can be closed."""
    try:
        yield items
    finally:
        close = getattr(items, "close", None)
        if close is not None:
            close()


class StopFetchError(Exception):
    """A fetch that was told to stop; never leaves this module."""


def _check(stop: Cancellation) -> None:
    if stop.cancelled:
        raise StopFetchError


class Gathered:
    """Sealed rows, which may be read as often as wanted; close it when nobody does any more."""

    def __init__(self, parts: Sequence[LocalRows]) -> None:
        self._parts = [part for part in parts if part.n_rows]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return sum(part.n_rows for part in self._parts)

    @property
    def n_bytes(self) -> int:
        """About how many decoded bytes they have."""
        return sum(part.n_bytes for part in self._parts)

    def parts(self) -> list[Callable[[], Iterator[pa.RecordBatch]]]:
        """Calls that read one producer's rows each; they hold none once this is closed.

        DataFusion lets go of what it was given when it is next called.
        """
        return [partial(self._read, at) for at in range(len(self._parts))]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return chain.from_iterable(read() for read in self.parts())

    def in_memory(self) -> list[pa.RecordBatch] | None:
        """All batches, which stay in memory until `close`; None when there is no room for that."""
        if not all(part.keep() for part in self._parts):
            for part in self._parts:
                part.let_go()
            return None
        return list(self)

    def close(self) -> None:
        """Let go of all rows."""
        for part in self._parts:
            part.let_go()
        self._parts.clear()

    def _read(self, at: int) -> Iterator[pa.RecordBatch]:
        stream = self._parts[at].batches()
        while batches := stream.take_batches(TAKE_MESSAGES):
            yield from batches

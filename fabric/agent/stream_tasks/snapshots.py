"""A task's part of each checkpoint, stored beside its work.

One job: take what the task had at a barrier, write it in a thread of its own, and say that it is
durable, or why not. Snapshots are stored one after the other, in the order of their barriers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from operator import attrgetter

from fabric import failpoints
from fabric.agent.attempts import TaskSpec
from fabric.agent.slot.chain import RemoteSnapshot
from fabric.agent.stream_tasks.channels import Recording
from fabric.agent.stream_tasks.inflight import InflightEdge, snapshots_of
from fabric.agent.stream_tasks.mailbox import Say
from fabric.checkpoint.codec import encode_snapshot_ack
from fabric.checkpoint.manifest import FileRecord, SinkHandle, SnapshotAck, TaskSnapshot
from fabric.checkpoint.places import Storage
from fabric.clock import Clock
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import CancelledError, FabricError, InternalError
from fabric.operators.snapshots import key_groups
from fabric.state.backend import Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingSnapshot:
    """What a task has at a barrier, by node: state, positions of sources, what sinks prepared."""

    checkpoint: int
    states: Mapping[str, Snapshot | RemoteSnapshot] = field(default_factory=dict)
    positions: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    handles: Mapping[str, tuple[SinkHandle, ...]] = field(default_factory=dict)
    inflight: Future[Recording] | None = None
    """Of an unaligned one: the rows in flight, once all of them came."""
    through: int = 0
    """At the end: the newest checkpoint that the task is through with, taken or not."""

    @property
    def nodes(self) -> list[str]:
        """Every node that has something."""
        return sorted({*self.states, *self.positions, *self.handles})


class SnapshotUploads:
    """Stores what one task attempt takes, rows in flight by their `edges`; `say` is called from
    its thread."""

    def __init__(
        self,
        storage: Storage,
        spec: TaskSpec,
        edges: Sequence[InflightEdge],
        *,
        clock: Clock,
        say: Say,
    ) -> None:
        self._storage, self._spec, self._edges = storage, spec, edges
        self._clock, self._say = clock, say
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"snapshots {spec.id}")
        self._closed = False

    def store(self, pending: PendingSnapshot) -> None:
        """Store it beside the task, then say so."""
        self._pool.submit(self._store_and_say, pending, self._clock.monotonic_s())

    def on_complete(self, checkpoint: int) -> None:
        """A checkpoint is complete: what is kept here of older ones may go."""
        if not self._closed:
            self._pool.submit(self._storage.on_complete, self._spec.deploy.stream.state, checkpoint)

    def decline(self, checkpoint: int, error: FabricError) -> None:
        """Say that this task has nothing in `checkpoint`."""
        self._tell(pb.Checkpointed(checkpoint=checkpoint, declined=to_detail(error)))

    def store_final(self, pending: PendingSnapshot) -> bytes:
        """Store what the task has at its end, after all that was begun; returns its ack."""
        ack = self._pool.submit(self._store, pending).result()
        return encode_snapshot_ack(ack)

    def close(self) -> None:
        """Wait for what is under way; it tells nobody any more."""
        self._closed = True
        self._pool.shutdown(cancel_futures=True)

    def _store_and_say(self, pending: PendingSnapshot, began_s: float) -> None:
        try:
            ack = self._store(pending)
        except Exception as error:
            known = error if isinstance(error, FabricError) else InternalError(repr(error))
            if not self._closed:
                self.decline(pending.checkpoint, known)
            return
        failpoints.reach("stream.snapshot-stored")
        if not self._closed:
            self._tell(
                pb.Checkpointed(
                    checkpoint=pending.checkpoint,
                    ack=encode_snapshot_ack(ack),
                    seconds=self._clock.monotonic_s() - began_s,
                    bytes=sum(snapshot.n_bytes for snapshot in ack.snapshots),
                )
            )

    def _tell(self, report: pb.Checkpointed) -> None:
        report.key.CopyFrom(self._spec.key)
        self._say(pb.AgentMessage(checkpointed=report))

    def _store(self, pending: PendingSnapshot) -> SnapshotAck:
        spec = self._spec
        return SnapshotAck(
            checkpoint=pending.checkpoint,
            stage=spec.id.stage,
            task=spec.id.task,
            attempt=spec.id.attempt,
            epoch=spec.epoch,
            snapshots=tuple(sorted(self._nodes(pending), key=attrgetter("node"))),
            taken=pending.through,
        )

    def _nodes(self, pending: PendingSnapshot) -> Iterator[TaskSnapshot]:
        """What is there at once is stored first."""
        yield from (self._node(pending, node) for node in pending.nodes)
        if pending.inflight is not None:
            rows = snapshots_of(pending.inflight.result(), self._edges)
            late = PendingSnapshot(checkpoint=pending.checkpoint, states=rows)
            yield from (self._node(late, node) for node in late.nodes)

    def _node(self, pending: PendingSnapshot, node: str) -> TaskSnapshot:
        spec = self._spec
        if self._closed:
            raise CancelledError("the task has ended")
        files, n_rows = self._files(pending, node)
        return TaskSnapshot(
            node=node,
            task=spec.id.task,
            attempt=spec.id.attempt,
            key_groups=key_groups(spec.id.task, spec.n_tasks),
            files=files,
            positions=tuple(sorted(pending.positions.get(node, {}).items())),
            handles=pending.handles.get(node, ()),
            n_rows=n_rows,
        )

    def _files(
        self, pending: PendingSnapshot, node: str
    ) -> tuple[tuple[FileRecord, ...], int | None]:
        """The state of a node, stored here or where it is, and how many rows it has."""
        spec, state = self._spec, pending.states.get(node)
        if isinstance(state, RemoteSnapshot):
            failpoints.reach("stream.snapshot-storing")
            return state.stored()
        writer = self._storage.writer(
            spec.deploy.stream.state, pending.checkpoint, node, spec.id.task, spec.id.attempt
        )
        try:
            n_rows = 0 if state is None else state.write(writer)
            failpoints.reach("stream.snapshot-storing")
            return writer.finish(), n_rows
        except BaseException:
            writer.abandon()
            raise

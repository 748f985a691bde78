"""A model of one task attempt of a stream, around the real `Channels`.

One job: what `StreamTask` does, in simulated time: read splits, hand rows to the task that owns
their key group, count, prepare output, take snapshots at barriers. It begins from the manifest
that its deploy names, with the splits of its assignment and the key groups of its number. It shares
the `Pipes` of its agent; what producers on other agents made it pulls from theirs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric._cython.shuffle.ring.ring import Rows
from fabric.agent.attempts import TaskSpec
from fabric.agent.events import TaskEnd
from fabric.agent.pipes import Item, Mark
from fabric.agent.stream_tasks.channels import ChannelEvent, Channels, EdgeEnd, EdgeRows, Inbox
from fabric.agent.stream_tasks.mailbox import Order
from fabric.checkpoint.alignment import DeclineSnapshot, TakeSnapshot
from fabric.checkpoint.codec import encode_snapshot_ack
from fabric.checkpoint.manifest import (
    FINAL,
    INFLIGHT,
    Manifest,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import ExternalError, PeerLostError
from fabric.flight.header import Event
from fabric.operators.snapshots import N_KEY_GROUPS, key_groups
from tests.support.sim.stream_outside import Change, check
from tests.support.sim.stream_plan import COUNT, OUT, PLACES, SCAN, Row, group_of, key_of

if TYPE_CHECKING:
    from tests.support.sim.stream_agent import StreamAgent

STEP_S = (0.05, 0.25)
PATIENCE_S = 6.0
"""How long a task waits for producers that do not begin."""


@dataclass
class Pipes:
    """The pipelined edges of the job on one agent, until they are dropped."""

    rings: dict[tuple[int, int], deque[Item]] = field(default_factory=dict)
    """By edge and partition; an item says which producer it is of, not which attempt."""
    served: dict[tuple[int, int], int] = field(default_factory=dict)
    """The attempt that others may pull from, by edge and producer."""
    cancelled: bool = False

    def ring(self, edge: int, partition: int) -> deque[Item]:
        """What waits for a partition."""
        return self.rings.setdefault((edge, partition), deque())


class StreamWorker:
    """One attempt on `agent`."""

    def __init__(self, agent: StreamAgent, spec: TaskSpec, pipes: Pipes) -> None:
        self.spec, self.pipes = spec, pipes
        self.session = agent.session
        """Of the link that it was started on."""
        self.is_over = False
        self._agent, self._outside, self._rng = agent, agent.outside, agent.scheduler.rng
        self._inputs = [e for e in spec.deploy.inputs if e.mode == pb.MODE_PIPELINED]
        self._outputs = [e for e in spec.deploy.outputs if e.mode == pb.MODE_PIPELINED]
        self._open_edges = {edge.edge for edge in self._inputs}
        self._channels = Channels(
            {edge.edge: [p.task for p in edge.producers] for edge in self._inputs},
            has_sources=bool(spec.assignment.scans), held_bytes_max=1 << 20,
            restored=spec.deploy.stream.checkpoint,
        )  # fmt: skip
        self._inbox = Inbox(self._channels, 1 << 20)
        self._inflight: dict[str, dict[str, bytes]] = {}
        self._groups = key_groups(spec.id.task, spec.n_tasks)
        self._orders: list[Order] | None = []
        """Those that came before it has begun."""
        self._positions: dict[int, int] = {}
        self._counts: dict[int, int] = {}
        self._changes: list[Change] = []
        self._handles: list[SinkHandle] = []
        self._met: dict[str, Pipes] = {}
        self._begun_s = agent.scheduler.now
        self._sent_s = 0.0
        for edge in self._outputs:
            pipes.served[edge.edge, spec.id.task] = spec.id.attempt
        agent.later(self._rng.uniform(0.0, 0.3), self._begin)

    # ---- life

    def cancel(self) -> None:
        """Stop before long."""
        self._agent.later(self._rng.uniform(0.0, 0.4), lambda: self._end(pb.TASK_CANCELLED))

    def order(self, order: Order) -> None:
        """What the coordinator wants of it."""
        if self._orders is not None:
            self._orders.append(order)
            return
        match order:
            case pb.TriggerCheckpoint(checkpoint=checkpoint, unaligned=True):
                self._skip_alignment(checkpoint)
            case pb.TriggerCheckpoint(checkpoint=checkpoint):
                if self._open_splits():
                    self._follow(self._channels.trigger(checkpoint))
            case pb.CheckpointEnded(checkpoint=checkpoint, complete=True):
                self._handles = [h for h in self._handles if h.checkpoint > checkpoint]
            case pb.CheckpointEnded(checkpoint=checkpoint):
                self._inbox.aborted(checkpoint)
                self._end_recording()
                self._follow(self._channels.aborted(checkpoint))

    def _begin(self) -> None:
        """Take from a checkpoint what is its own."""
        spec, stream = self.spec, self.spec.deploy.stream
        manifest = self._outside.load(stream)
        at = manifest.positions(SCAN) if manifest is not None else {}
        splits = [split.uri for scan in spec.assignment.scans for split in scan.splits]
        self._positions = {int(split): int(at.get(split, b"0")) for split in splits}
        if manifest is not None and not self._outputs:
            counts = [one for task in manifest.of_node(COUNT) for one in task.positions]
            owned = ((int(k), int(n)) for k, n in counts if group_of(int(k)) in self._groups)
            self._counts = dict(owned)
        if manifest is not None:
            self._restore_inflight(manifest)
        orders, self._orders = self._orders or [], None
        for order in orders:
            self.order(order)
        self._step()

    def _restore_inflight(self, manifest: Manifest) -> None:
        """Rows in flight come first: over their edge, or where there is none, to the count."""
        edges = {edge.node_path: edge for edge in self._inputs}
        for snapshot in manifest.inflight():
            edge = edges.get(snapshot.node.removesuffix(INFLIGHT))
            for _, data in snapshot.positions:
                producer, row = map(int, data.split(b":"))
                if group_of(key_of(divmod(row, PLACES))) not in self._groups:
                    continue
                self._outside.happened["restored in flight"] += 1
                if edge is None and not self._outputs:
                    self._count([divmod(row, PLACES)])
                elif edge is not None:
                    number = producer % len(edge.producers)
                    batch = pa.RecordBatch.from_arrays([pa.array([row])], names=["row"])
                    self._inbox.add([(edge.edge, Rows(number, batch))])

    def _open_splits(self) -> list[int]:
        ended = self._outside.source.has_ended
        return [split for split, at in self._positions.items() if not ended(split, at)]

    def _end(
        self, state: pb.TaskState, ack: bytes = b"", error: pb.ErrorDetail | None = None
    ) -> None:
        if not self.is_over:
            self.is_over = True
            report = pb.TaskReport(key=self.spec.key, state=state, ack=ack, error=error)
            self._agent.ended(self, TaskEnd(report))

    # ---- the loop

    def _step(self) -> None:
        if self.is_over:
            return
        if self.pipes.cancelled:
            self._end(pb.TASK_CANCELLED)
            return
        if lost := self._pull():
            error = PeerLostError(f"agent {lost} does not answer", agent=lost)
            self._end(pb.TASK_FAILED, error=to_detail(error))
            return
        for edge in self._inputs:
            ring = self.pipes.ring(edge.edge, self.spec.id.task)
            for _ in range(self._rng.randint(0, len(ring))):
                self._inbox.add([(edge.edge, ring.popleft())])
        self._end_recording()
        if self._rng.random() < 0.6:
            self._follow(self._channels.items(self._inbox.take()))
        was_open = bool(self._open_splits())
        if was_open and not self._channels.sources_held and not self._inbox.records:
            self._read()
        if was_open and not self._open_splits():
            self._follow(self._channels.sources_ended())
        if self._open_splits() or self._open_edges:
            self._agent.later(self._rng.uniform(*STEP_S), self._step)
        else:
            self._finish()

    def _read(self) -> None:
        split = self._rng.choice(self._open_splits())
        begin = self._positions[split]
        end = min(begin + self._rng.choice((0, 0, 1, 2, 4)), self._outside.source.limit(split))
        if end > begin:
            self._positions[split] = end
            self._emit([(split, row) for row in range(begin, end)])

    def _finish(self) -> None:
        self._prepare(FINAL)
        self._mark(Event.END, 0)
        ack = self._ack(FINAL)
        self._agent.later(
            self._rng.uniform(0.0, 0.3),
            lambda: self._end(pb.TASK_FINISHED, ack=encode_snapshot_ack(ack)),
        )

    def _pull(self) -> str:
        """Get what others made for it; the agent that is gone, or ""."""
        for edge in self._inputs:
            by_agent: dict[str, list[pb.Producer]] = {}
            for producer in edge.producers:
                by_agent.setdefault(producer.agent_id, []).append(producer)
            for agent_id, producers in by_agent.items():
                is_far = agent_id != self._agent.name and edge.edge in self._open_edges
                if is_far and not self._pull_from(agent_id, edge.edge, producers):
                    return agent_id
        return ""

    def _pull_from(self, agent_id: str, edge: int, producers: list[pb.Producer]) -> bool:
        pipes, met = self._agent.pipes_of(agent_id), self._met.get(agent_id)
        if met is not None and (pipes is not met or met.cancelled):
            return False
        is_there = pipes is not None and not pipes.cancelled and all(
            pipes.served.get((edge, p.task)) == p.attempt for p in producers
        )  # fmt: skip
        if pipes is None or not is_there:
            return self._agent.scheduler.now - self._begun_s < PATIENCE_S
        self._met[agent_id] = pipes
        theirs = pipes.ring(edge, self.spec.id.task)
        self.pipes.ring(edge, self.spec.id.task).extend(theirs)
        theirs.clear()
        return True

    def _follow(self, events: Iterator[ChannelEvent]) -> None:
        for event in events:
            match event:
                case EdgeRows(batch=batch):
                    self._count([divmod(row, PLACES) for row in batch.column(0).to_pylist()])
                case TakeSnapshot(checkpoint=checkpoint):
                    self._take_snapshot(checkpoint)
                case DeclineSnapshot(checkpoint=checkpoint, reason=reason):
                    self._decline(checkpoint, reason)
                case EdgeEnd(edge=edge):
                    self._open_edges.discard(edge)

    # ---- out

    def _emit(self, rows: list[Row]) -> None:
        if not self._outputs:
            self._count(rows)
        for edge in self._outputs:
            by_owner: dict[int, list[Row]] = {}
            for row in rows:
                owner = group_of(key_of(row)) * edge.n_partitions // N_KEY_GROUPS
                by_owner.setdefault(owner, []).append(row)
            for owner, own in by_owner.items():
                rows_of_owner = pa.array([split * PLACES + place for split, place in own])
                batch = pa.RecordBatch.from_arrays([rows_of_owner], names=["row"])
                self.pipes.ring(edge.edge, owner).append(Rows(self.spec.id.task, batch))

    def _mark(self, event: Event, value: int) -> None:
        for edge in self._outputs:
            for partition in range(edge.n_partitions):
                mark = Mark(self.spec.id.task, event, value)
                self.pipes.ring(edge.edge, partition).append(mark)

    def _count(self, rows: list[Row]) -> None:
        for split, place in rows:
            key = key_of((split, place))
            check(group_of(key) in self._groups, "a row came to another task")
            self._counts[key] = n = self._counts.get(key, 0) + 1
            self._changes.append((split, place, key, n))

    # ---- checkpoints

    def _prepare(self, checkpoint: int) -> None:
        if self._changes:
            made = self._outside.prepare(self._changes)
            self._handles.append(SinkHandle(checkpoint, made))
            self._changes = []

    def _take_snapshot(self, checkpoint: int) -> None:
        if self._agent.chance(0.02):
            self._decline(checkpoint, "the storage is full")
        else:
            self._prepare(checkpoint)
            ack = encode_snapshot_ack(self._ack(checkpoint))
            self._say(pb.Checkpointed(key=self.spec.key, checkpoint=checkpoint, ack=ack))
        self._mark(Event.BARRIER, checkpoint)

    def _skip_alignment(self, checkpoint: int) -> None:
        declined, recording = self._inbox.skip_alignment(checkpoint)
        self._follow(iter(declined))
        if recording is None:
            return
        self._outside.happened["unaligned"] += 1
        self._inbox.give_up("a newer checkpoint began")
        self._end_recording()
        self._prepare(checkpoint)
        self._mark(Event.BARRIER, checkpoint)
        self._inbox.record(recording)
        self._end_recording()

    def _end_recording(self) -> None:
        """Say what is in the snapshot: nothing has been worked on since."""
        if (recording := self._inbox.recorded()) is None:
            return
        if recording.failed:
            self._decline(recording.checkpoint, recording.failed)
            return
        paths = {edge.edge: edge.node_path for edge in self._inputs}
        for (edge, producer), batches in recording.rows.items():
            found = self._inflight.setdefault(f"{paths[edge]}{INFLIGHT}", {})
            for row in (row for batch in batches for row in batch.column(0).to_pylist()):
                found[f"{len(found):06d}"] = b"%d:%d" % (producer, row)
        ack = encode_snapshot_ack(self._ack(recording.checkpoint))
        self._inflight = {}
        checkpoint = recording.checkpoint
        self._say(pb.Checkpointed(key=self.spec.key, checkpoint=checkpoint, ack=ack))

    def _decline(self, checkpoint: int, reason: str) -> None:
        error = to_detail(ExternalError(reason))
        self._say(pb.Checkpointed(key=self.spec.key, checkpoint=checkpoint, declined=error))

    def _say(self, said: pb.Checkpointed) -> None:
        """Once it is stored, in order, unless the task is over by then."""
        now = self._agent.scheduler.now
        self._sent_s = max(self._sent_s + 1e-6, now + self._rng.uniform(0.0, 0.4))

        def say() -> None:
            if not self.is_over:
                self._agent.say(pb.AgentMessage(checkpointed=said))

        self._agent.later(self._sent_s - now, say)

    def _ack(self, checkpoint: int) -> SnapshotAck:
        """Of what it has: a task that has ended keeps no counts."""
        kept = dict(self._inflight)
        if self._positions:
            kept[SCAN] = {f"{split}": b"%d" % at for split, at in self._positions.items()}
        if not self._outputs:
            kept[OUT] = {}
        if not self._outputs and checkpoint != FINAL:
            kept[COUNT] = {f"{key}": b"%d" % n for key, n in self._counts.items()}
        key = self.spec.key
        snapshots = tuple(
            TaskSnapshot(
                node, key.task, key.attempt, self._groups, (), tuple(sorted(of_node.items())),
                tuple(self._handles) if node == OUT else (),
            )
            for node, of_node in sorted(kept.items())
        )  # fmt: skip
        taken = self._channels.over if checkpoint == FINAL else 0
        return SnapshotAck(
            checkpoint, key.stage, key.task, key.attempt, key.epoch, snapshots, taken
        )

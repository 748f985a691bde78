"""One task attempt of a stream, from its restore to its last acknowledgement.

One job: the loop. Rows, times and ends go from sources and edges through the chain to the output
edges or the sink, and at each barrier everything that the task knows is taken at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import asdict, replace

import pyarrow as pa

from fabric import failpoints
from fabric.agent.outputs import Outputs
from fabric.agent.slot.chain import RemoteSnapshot, SlotChain
from fabric.agent.stream_tasks.channels import (
    ChannelEvent,
    Channels,
    EdgeEnd,
    EdgeRows,
    EdgeWatermark,
    Inbox,
    Recording,
    joined,
)
from fabric.agent.stream_tasks.edges import Edges
from fabric.agent.stream_tasks.mailbox import Mailbox, Order, Progress
from fabric.agent.stream_tasks.sinks import Results, StreamSink
from fabric.agent.stream_tasks.snapshots import PendingSnapshot, SnapshotUploads
from fabric.agent.stream_tasks.sources import ROWS_MAX, ROWS_MIN, BatchSize, Read, Sources
from fabric.cancellation import Cancellation
from fabric.checkpoint.alignment import DeclineSnapshot, TakeSnapshot
from fabric.checkpoint.manifest import FINAL, SinkHandle
from fabric.clock import Clock
from fabric.control import control_pb2 as pb
from fabric.errors import CancelledError, DataError, ExpressionError, ExternalError, FabricError
from fabric.event_time import BEGINNING, least
from fabric.flight.header import Event
from fabric.io.readers.protocol import Ended
from fabric.operators.chain import Chain
from fabric.operators.contract import Batches, Files
from fabric.plan.stream import UNREADABLE
from fabric.state.backend import Snapshot

TICK_S = 0.05
"""How often time passes for a task that has nothing to do."""


class StreamTask:
    """The parts of one attempt, wired; `run` is called once, in the task's thread."""

    def __init__(
        self,
        *,
        node: str,
        chain: Chain | SlotChain,
        sources: Sources,
        channels: Channels,
        inbox: Inbox,
        replayed: deque[tuple[str, pa.RecordBatch]],
        edges: Edges,
        outputs: Outputs,
        sink: StreamSink | None,
        results: Results | None,
        uploads: SnapshotUploads,
        mailbox: Mailbox,
        progress: Progress,
        cancellation: Cancellation,
        clock: Clock,
        lent: bool = False,
        unreadable: str = UNREADABLE,
        rows_max: int = ROWS_MAX,
    ) -> None:
        self._node, self._chain, self._sources = node, chain, sources
        self._channels, self._edges, self._outputs = channels, edges, outputs
        self._sink, self._results, self._uploads = sink, results, uploads
        self._mailbox, self._cancellation, self._clock = mailbox, cancellation, clock
        self._inbox, self._replayed = inbox, replayed
        """`replayed`: rows that were in flight into steps of the chain."""
        self._recorded: Future[Recording] = Future()
        """Resolved at the end at the latest: an upload may wait for it."""
        self._progress = progress
        self._sent_us: dict[str, int] = {}
        """The watermark that consumers of each branch were told."""
        self._unreadable = unreadable
        """The side of rows that can't be read."""
        self._lent = lent
        """Whether rows lie in memory that is not to be kept, see `Outputs.write`."""
        self._walk = BatchSize(ROWS_MIN if inbox.waits else rows_max, rows_max)
        """Of a slow chain fewer rows are taken at a time: a snapshot waits until they are done. So
        few of those that were in flight are taken before it is known how long a row takes."""
        self._now_us = 0
        self._ticked_s = -TICK_S
        self._split = (0, "")
        """Of which edge and split the last rows were."""
        self.rows_in = 0

    def run(self) -> bytes:
        """Work until every input has ended; returns the last ack."""
        try:
            self._work()
        finally:
            self._inbox.give_up("the task has ended")
            self._end_recording()
            if not self._recorded.done():  # it was cancelled before it began to record
                self._recorded.set_exception(CancelledError("the task has ended"))
        return self._uploads.store_final(self._pending_snapshot(FINAL))

    def _work(self) -> None:
        mailbox = self._mailbox
        mailbox.wake = self._sources.interrupt
        self._replay()
        while not self._chain.done:
            self._cancellation.check()
            for order in mailbox.take():
                self._obey(order)
            self._bring_barriers()
            self._tick()  # before the first rows, too: some need to know what time it is
            self._read()
            self._send_watermarks()
            if not self._outputs.wanted and self._sink is None:
                break

    def _replay(self) -> None:
        """Work on rows that were in flight over edges that the plan no longer has."""
        self._chain.replaying = bool(self._replayed)
        while self._replayed:
            path, batch = self._replayed.popleft()
            self._cancellation.check()
            self._tick()
            if self._sink is not None and path == self._node:
                self._write(batch)
            else:
                self._emit(self._chain.on_rows_into(path, batch))
        self._chain.replaying = False

    def counts(self) -> dict[str, dict[str, int]]:
        """What sources and operators have counted, by node path."""
        written = {} if self._sink is None else self._sink.counts()
        return {**self._sources.counts(), **self._chain.counts(), **written}

    # ---- in

    def _read(self) -> None:
        inbox = self._inbox
        if inbox.records:
            inbox.add(self._edges.take(TICK_S))
            self._end_recording()
            return
        if self._chain.is_full:  # a barrier of the task's own sources need not wait for room
            self._emit(self._chain.more())
            return
        sources = self._sources.open and not self._channels.sources_held
        wait_s = TICK_S
        if self._edges.open:
            if not inbox.waits:
                wait_s = 0.0 if sources else wait_s
                inbox.add(self._edges.take(wait_s, self._chain.silent_until()))
            began_s, n_rows = self._clock.monotonic_s(), self.rows_in
            self._follow(joined(self._channels.items(inbox.take(self._walk.rows))))
            self._walk.took(self.rows_in - n_rows, self._clock.monotonic_s() - began_s)
            wait_s = 0.001
        if sources and not self._chain.is_full:
            self._sources.pause(self._chain.held_back())
            for read in self._sources.poll(wait_s, self._outputs.waiting):
                self._put_aside()  # before what may bring a barrier
                began_s = self._clock.monotonic_s()
                self._take(read)
                self._sources.took(read, self._clock.monotonic_s() - began_s)
                if self._chain.is_full:
                    break
            self._put_aside()

    def _put_aside(self) -> None:
        for left_out in self._sources.take_unreadable():
            self._outputs.write(left_out, side=self._unreadable)

    def _take(self, read: Read | int) -> None:
        if isinstance(read, int):
            self._emit(self._chain.on_end(read))
            if not self._sources.open:
                self._follow(self._channels.sources_ended())
        elif isinstance(read.rows, Ended):
            self._emit(self._chain.on_split_end(read.edge, read.rows.split))
        else:
            if (split := (read.edge, read.rows.split)) != self._split:
                self._split = split
                self._chain.on_split(*split)
            self.rows_in += read.rows.batch.num_rows
            try:
                self._emit(self._chain.on_batch(read.edge, read.rows.batch))
            except (DataError, ExpressionError) as error:  # of a value: say where it came from
                where = self._sources.whereabouts(read.edge, read.rows)
                told = type(error)(f"{error.message}; {where}", **asdict(error.where))
                raise told from error
            self._send_watermarks()

    def _follow(self, events: Iterator[ChannelEvent]) -> None:
        for event in events:
            match event:
                case EdgeRows(edge=edge, batch=batch):
                    failpoints.reach("stream.rows-came")
                    self.rows_in += batch.num_rows
                    self._emit(self._chain.on_batch(edge, batch))
                case EdgeWatermark(edge=edge, time_us=time_us):
                    self._emit(self._chain.on_watermark(edge, time_us))
                    self._send_watermarks()
                case EdgeEnd(edge=edge):
                    self._edges.over(edge)
                    self._emit(self._chain.on_end(edge))
                case TakeSnapshot(checkpoint=checkpoint):
                    self._take_snapshot(checkpoint)
                case DeclineSnapshot(checkpoint=checkpoint, reason=reason):
                    self._uploads.decline(checkpoint, ExternalError(reason))

    def _obey(self, order: Order) -> None:
        match order:
            case pb.TriggerCheckpoint(drain=True):
                self._sources.drain()
            case pb.TriggerCheckpoint(checkpoint=checkpoint, unaligned=True):
                self._skip_alignment(checkpoint)
            case pb.TriggerCheckpoint(checkpoint=checkpoint):
                if self._sources.open:
                    self._follow(self._channels.trigger(checkpoint))
            case pb.CheckpointEnded(checkpoint=checkpoint, complete=True):
                failpoints.reach("stream.told-complete")
                self._uploads.on_complete(checkpoint)
                self._chain.on_complete(checkpoint)
                self._sources.on_complete(checkpoint)
                if self._sink is not None:
                    self._sink.on_complete(checkpoint)
            case pb.CheckpointEnded(checkpoint=checkpoint):
                self._chain.on_abort(checkpoint)
                self._inbox.aborted(checkpoint)
                self._end_recording()
                self._follow(self._channels.aborted(checkpoint))
            case pb.SlowestSplit(node_path=node, time_us=time_us):
                self._chain.on_watermark_alignment(node, time_us)

    # ---- out

    def _emit(self, batches: Batches) -> None:
        self._hand_on(batches)
        while self._chain.has_more:
            self._cancellation.check()
            self._hand_on(self._chain.more())

    def _hand_on(self, batches: Batches) -> None:
        for batch in batches:
            self._write(batch)
        for tag, rows in self._chain.take_side().items():
            for batch in rows:
                self._outputs.write(batch, lent=self._lent, side=tag)

    def _write(self, batch: pa.RecordBatch) -> None:
        if self._sink is not None:
            self._sink.write(batch)
            return
        if self._results is None:
            self._outputs.write(batch, lent=self._lent)
            return
        if self._lent:
            batch = batch.copy_to(pa.default_cpu_memory_manager())
        self._outputs.write(batch)
        if batch.num_rows:
            self._results.add(batch)

    def _tick(self) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._ticked_s < TICK_S:
            return
        self._ticked_s = now_s
        self._now_us = max(self._now_us, int(self._clock.wall_s() * 1e6))
        self._emit(self._chain.on_time(self._now_us))
        written = None if self._sink is None else self._sink.rows
        chain = self._chain
        times = [time_us for time_us in chain.watermarks.values() if time_us != BEGINNING]
        reached = least(times) if times else BEGINNING  # a branch without a watermark says nothing
        self._progress.tell(now_s, self.rows_in, written, reached, self.counts)
        self._progress.tell_slowest(now_s, chain.slowest)

    def _send_watermarks(self) -> None:
        for branch, time_us in self._chain.watermarks.items():
            if time_us != self._sent_us.get(branch, BEGINNING):
                self._sent_us[branch] = time_us
                self._outputs.mark(Event.WATERMARK, time_us, branch)

    # ---- checkpoints

    def _skip_alignment(self, checkpoint: int) -> None:
        """Take the snapshot now; the rows in flight follow, see `Inbox`."""
        declined, recording = self._inbox.skip_alignment(checkpoint)
        for one in declined:
            self._uploads.decline(one.checkpoint, ExternalError(one.reason))
        if recording is None:
            return
        self._inbox.give_up(f"checkpoint {checkpoint} began before all its barriers came")
        self._end_recording()
        self._recorded = Future()
        self._take_snapshot(checkpoint, self._recorded)
        self._inbox.record(recording)
        self._end_recording()

    def _bring_barriers(self) -> None:
        """Work on edges whose barriers a snapshot waits for, ahead of all other rows; take it."""
        while edges := self._inbox.owing:
            self._cancellation.check()
            if self._chain.is_full:
                self._emit(self._chain.more())
            else:
                self._inbox.add(self._edges.take_of(edges, TICK_S))
                self._follow(joined(self._channels.items(self._inbox.take_of(edges))))
            self._tick()
            for order in self._mailbox.take():
                self._obey(order)
        if self._inbox.skipped:
            self._skip_alignment(self._inbox.skipped)

    def _end_recording(self) -> None:
        """Hand over the rows in flight, if all of them came, or it was given up."""
        if (recording := self._inbox.recorded()) is None:
            return
        if recording.failed:
            self._recorded.set_exception(ExternalError(recording.failed))
        else:
            self._recorded.set_result(recording)

    def _take_snapshot(self, checkpoint: int, inflight: Future[Recording] | None = None) -> None:
        failpoints.reach("stream.barrier-came")
        try:
            pending = replace(self._pending_snapshot(checkpoint), inflight=inflight)
        except FabricError as error:
            if self._sink is not None and self._sink.is_broken:
                raise  # it may have lost rows: no later checkpoint must pass for whole
            self._uploads.decline(checkpoint, error)
        else:
            self._uploads.store(pending)
        self._outputs.mark(Event.BARRIER, checkpoint)
        failpoints.reach("stream.barrier-sent")

    def _pending_snapshot(self, checkpoint: int) -> PendingSnapshot:
        last = checkpoint == FINAL
        states: dict[str, Snapshot | RemoteSnapshot] = dict(
            self._chain.on_final() if last else self._chain.on_barrier(checkpoint)
        )
        handles: dict[str, tuple[SinkHandle, ...]] = {}
        if (sink := self._sink) is not None:
            handles[sink.node] = sink.on_end() if last else sink.on_barrier(checkpoint)
            states[sink.node] = sink.snapshot()
        if self._results is not None:
            states[f"{self._node}#result"] = self._results.on_barrier()
        return PendingSnapshot(
            checkpoint=checkpoint,
            states={node: state for node, state in states.items() if state != Files()},
            positions=self._sources.on_barrier(checkpoint),
            handles=handles,
            through=self._channels.over if last else 0,
        )

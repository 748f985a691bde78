"""Inside a slot: the operators of one task of a stream, called by the agent.

One job: `step_until_closed`: build the chain, restore it, make one call after the other, and store
what a barrier takes beside them, straight into the checkpoint's folder. Watermarks, alignment,
sources and sinks are the agent's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.channel import Channel, ChannelClosedError
from fabric.agent.stream_tasks.restore import Restored, context_of, splits_of
from fabric.checkpoint.manifest import FINAL
from fabric.checkpoint.places import Storage, storage_at
from fabric.control.errors import to_detail
from fabric.errors import FabricError, InternalError
from fabric.operators.chain import Chain, build_chain
from fabric.operators.contract import Batches, Files
from fabric.operators.functions.trust import functions_of, vouch
from fabric.plan.codec import decode
from fabric.plan.nodes import Node, Sink
from fabric.state.backend import Snapshot

FromAgent = Channel[sp.ToSlot]


def step_until_closed(channel: FromAgent, begin: sp.Begin) -> None:
    """Work until the agent says `Close`; raises what a call raises."""
    with ExitStack() as stack:
        copies = Path(begin.copies) if begin.copies else None
        storage = storage_at(begin.stream.folder, copies)
        chain = _chain(begin)
        stack.callback(chain.close)
        Restored(storage, begin.task, begin.n_tasks, begin.stream).chain(chain)
        storing = _Storing(channel, storage, begin)
        stack.callback(storing.close)
        stepper = _Stepper(channel, chain, storing)
        stepper.answer([])
        while (step := _next(channel)).WhichOneof("call") != "close":
            stepper.take(step)
    lingers = threading.active_count() > 1
    channel.send(sp.FromSlot(stepped=sp.Stepped(lingers=lingers)))


def _next(channel: FromAgent) -> sp.Step:
    message = channel.receive()
    if message.WhichOneof("kind") != "step":
        raise InternalError(f"a task of a stream was sent {message.WhichOneof('kind')}")
    return message.step


def _chain(begin: sp.Begin) -> Chain:
    root: Node = decode(begin.fragment).root
    for udf in functions_of(root):
        vouch(udf.payload)
    top = root.input if isinstance(root, Sink) else root
    return build_chain(top, context_of(root.path, begin), splits_of(begin))


class _Stepper:
    """Makes calls and tells what they came to."""

    def __init__(self, channel: FromAgent, chain: Chain, storing: _Storing) -> None:
        self._channel, self._chain, self._storing = channel, chain, storing
        self._counted: dict[tuple[str, str], int] = {}

    def take(self, step: sp.Step) -> None:
        """One call, and its answer."""
        if step.WhichOneof("call") != "barrier":
            return self.answer(self._call(step))
        chain, checkpoint = self._chain, step.barrier
        states = chain.on_final() if checkpoint == FINAL else chain.on_barrier(checkpoint)
        kept = {node: state for node, state in states.items() if state != Files()}
        self.answer([], states=kept)
        for node, state in kept.items():
            self._storing.begin(step.barrier, node, state)
        return None

    def _call(self, step: sp.Step) -> Batches:
        chain = self._chain
        chain.replaying = step.replaying
        match step.WhichOneof("call"):
            case "rows" if step.rows.into:
                return chain.on_rows_into(step.rows.into, self._channel.batch(step.rows.batch))
            case "rows":
                if step.split:
                    chain.on_split(step.rows.edge, step.split)
                return chain.on_batch(step.rows.edge, self._channel.batch(step.rows.batch))
            case "split_end":
                return chain.on_split_end(step.split_end.edge, step.split_end.name)
            case "watermark":
                return chain.on_watermark(step.watermark.edge, step.watermark.time_us)
            case "now_us":
                return chain.on_time(step.now_us)
            case "edge_end":
                return chain.on_end(step.edge_end)
            case "more":
                return chain.more()
            case "complete":
                chain.on_complete(step.complete)
            case "abort":
                chain.on_abort(step.abort)
            case "slowest":
                chain.on_watermark_alignment(step.slowest.node, step.slowest.time_us)
            case other:
                raise InternalError(f"a chain was called by {other}")
        return []

    def answer(self, rows: Batches, states: Iterable[str] = ()) -> None:
        """Tell what a call came to."""
        chain = self._chain
        stepped = sp.Stepped(
            rows=self._placed(rows),
            sides=[
                sp.SideRows(tag=tag, rows=self._placed(some))
                for tag, some in chain.take_side().items()
            ],
            watermarks=chain.watermarks,
            done=chain.done,
            has_more=chain.has_more,
            is_full=chain.is_full,
            held_back=[sp.Splits(edge=e, names=held) for e, held in chain.held_back().items()],
            states=states,
            slowest=[sp.SlowestSplit(node=n, time_us=us) for n, us in chain.slowest().items()],
        )
        for node, counts in chain.counts().items():
            for name, n in counts.items():
                if self._counted.get((node, name)) != n:
                    self._counted[node, name] = n
                    stepped.counted.add(node=node, name=name, n=n)
        self._channel.send(sp.FromSlot(stepped=stepped))

    def _placed(self, batches: Iterable[pa.RecordBatch]) -> list[sp.Placed]:
        return [self._channel.place(batch) for batch in batches if batch.num_rows]


class _Storing:
    """Stores snapshots in a thread, one after the other."""

    def __init__(self, channel: FromAgent, storage: Storage, begin: sp.Begin) -> None:
        self._channel, self._storage, self._task = channel, storage, begin
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="snapshots")

    def begin(self, checkpoint: int, node: str, state: Snapshot) -> None:
        """Store it, and say so."""
        self._pool.submit(self._store, checkpoint, node, state)

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(cancel_futures=True)

    def _store(self, checkpoint: int, node: str, state: Snapshot) -> None:
        stored = sp.Stored(checkpoint=checkpoint, node=node)
        task = self._task
        state_of = task.stream.state
        writer = self._storage.writer(state_of, checkpoint, node, task.task, task.attempt)
        try:
            if (n_rows := state.write(writer)) is not None:
                stored.rows = n_rows
            for file in writer.finish():
                stored.files.add(
                    name=file.name, size=file.n_bytes, crc32c=file.crc32c, content=file.content
                )
        except BaseException as error:  # whatever it is, who waits for the snapshot must know
            writer.abandon()
            known = error if isinstance(error, FabricError) else InternalError(repr(error))
            stored.failed.CopyFrom(to_detail(known))
        try:
            self._channel.send(sp.FromSlot(stored=stored))
        except ChannelClosedError:
            return  # nobody waits any more

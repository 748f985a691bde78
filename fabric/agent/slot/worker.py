"""Inside a slot: the work of one task after the other.

One job: `serve`. A task arrives as its fragment, whose functions the agent has vouched for; its
rows go back a batch at a time. Whatever a function raises becomes an error for the agent; whatever
it does to the process is the agent's to notice.
"""

from __future__ import annotations

import socket
import threading
import traceback
from collections.abc import Generator
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pyarrow as pa

from fabric.agent.slot import slot_pb2 as sp
from fabric.agent.slot.calls import CallPage
from fabric.agent.slot.channel import Channel, ChannelClosedError
from fabric.agent.slot.remote import Agent
from fabric.agent.slot.stepping import step_until_closed
from fabric.control import control_pb2 as pb
from fabric.control.errors import to_detail
from fabric.errors import InternalError
from fabric.operators.chain import build_chain
from fabric.operators.expressions.errors import as_fabric
from fabric.operators.fragment import execute_fragment
from fabric.operators.fragment.memory import FragmentMemory
from fabric.operators.functions.trust import functions_of, vouch
from fabric.operators.functions.watched import watch_with
from fabric.plan.codec import decode
from fabric.plan.nodes import Node, Sink

Batches = Generator[pa.RecordBatch, None, None]

LATE = (
    "cloudpickle",
    "fabric.operators.fragment.lower",
    "fabric.operators.fragment.session",
    "fabric.operators.fragment.size",
    "fabric.operators.fragment.pieces",
    "fabric.io.files",
    "fabric.io.memory",
)
"""What tasks import when they need it."""


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
    return _chained(agent, root) if run.kind == pb.STAGE_CHAIN else _fragment(agent, root, run)


def _chained(agent: Agent, root: Node) -> Batches:
    chain = build_chain(root)
    for edge, batch in agent.items():
        yield from chain.on_end(edge) if batch is None else chain.on_batch(edge, batch)
        if chain.done:
            return


def _fragment(agent: Agent, root: Node, run: sp.Run) -> Batches:
    memory = None
    if run.pool_bytes:
        memory = FragmentMemory(run.pool_bytes, tuple(map(Path, run.spill_folders)))
    batches = execute_fragment(
        root,
        {given.edge: agent.rows_of(given) for given in run.inputs},
        agent.splits(run.scans),
        target_partitions=max(1, run.target_partitions),
        read=agent.read_split,
        memory=memory,
    )
    with closing(batches):
        yield from batches

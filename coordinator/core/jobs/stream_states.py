"""Where what a stream keeps by key can be read: its newest whole checkpoint, and its keyed steps.

One job: `stream_states`, pure, for agents that read state for clients. The coordinator itself opens
no file of a checkpoint for them. Only what is needed to read state is told: neither the sources and
sinks of a stage, which may have passwords, nor the functions that users gave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.jobs.jobs import Job
from fabric.errors import NotFoundError
from fabric.plan.codec import encode
from fabric.plan.expr import Udf
from fabric.plan.node import Node
from fabric.plan.nodes import KeyedProcess, Plan, StageInput
from fabric.plan.nodes.groups import Groups
from fabric.plan.schema import schema_of
from fabric.plan.walk import walk


def stream_states(job: Job) -> pb.StreamStates:
    """Of a job that reads a stream; `NotFoundError` of any other job, which keeps nothing."""
    stream = job.stream
    if stream is None:
        raise NotFoundError(
            f"job {job.job_id} reads no stream, so it keeps no state; read its result",
            job=job.job_id,
        )
    found = pb.StreamStates(
        job_id=job.job_id, folder=job.checkpoint.folder, state=job.state_id,
        fragments=[
            fragment
            for stage in job.graph.stages
            if stage.region == stream.region
            for fragment in _keyed_steps(stage.root)
        ],
    )  # fmt: skip
    if (pointer := stream.checkpoints.readable) is not None:
        found.checkpoint = pointer.checkpoint
        found.seal_bytes, found.seal_crc32c = pointer.seal.n_bytes, pointer.seal.crc32c
    return found


def _keyed_steps(root: Node) -> Iterator[bytes]:
    """Each step of a stage that keeps state by key, as a plan of its own."""
    for node in walk(root):
        if isinstance(node, Groups | KeyedProcess):
            inputs = tuple(StageInput(0, schema_of(child)) for child in node.children)
            alone = node.with_children(inputs)
            yield encode(Plan(_without_code(alone)))


def _without_code(node: Node) -> Node:
    """The same step; nobody calls the function of a process to read its states."""
    if not isinstance(node, KeyedProcess):
        return node
    states = tuple(
        replace(each, function=None if each.function is None else _empty(each.function))
        for each in node.states
    )
    return replace(node, function=_empty(node.function), states=states)


def _empty(function: Udf) -> Udf:
    return replace(function, payload=b"", mac=b"")

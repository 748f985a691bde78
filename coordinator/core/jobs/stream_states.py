"""Where what a stream keeps by key can be read: its newest whole checkpoint, and its stages.

One job: `stream_states`, pure, for agents that read state for clients. The coordinator itself opens
no file of a checkpoint for them.
"""

from __future__ import annotations

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.jobs.jobs import Job
from fabric.errors import NotFoundError
from fabric.plan.nodes import KeyedProcess
from fabric.plan.nodes.groups import Groups
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
            job.fragments[stage.stage]
            for stage in job.graph.stages
            if stage.region == stream.region
            and any(isinstance(node, Groups | KeyedProcess) for node in walk(stage.root))
        ],
    )  # fmt: skip
    if (pointer := stream.checkpoints.readable) is not None:
        found.checkpoint = pointer.checkpoint
        found.seal_bytes, found.seal_crc32c = pointer.seal.n_bytes, pointer.seal.crc32c
    return found

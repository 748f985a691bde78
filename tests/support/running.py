"""Running plans on a fabric and reading the result, for tests.

One job: submit a plan, wait, collect its partitions as a table, whoever serves them.
"""

from __future__ import annotations

import pyarrow as pa

from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED, ControlApi
from fabric.control.errors import from_detail
from fabric.errors import InternalError
from fabric.flight.inprocess import read_result, result_edge
from fabric.flight.transport import Transport
from fabric.plan.codec import encode
from fabric.plan.nodes import Node, NodeConfig, Plan


def submit(
    control: ControlApi,
    root: Node,
    parallelism: int = 0,
    config: dict[str, NodeConfig] | None = None,
    adaptive: pb.Adaptive | None = None,
) -> str:
    """Start a plan; returns the job's id."""
    plan = Plan(root, tuple(sorted((config or {}).items())))
    return control.submit(
        pb.SubmitRequest(plan=encode(plan), name="test", parallelism=parallelism, adaptive=adaptive)
    ).job_id


def wait(control: ControlApi, job_id: str) -> pb.JobStatus:
    """The status in which a job ended; the job's error is raised."""
    for status in control.watch(pb.JobRequest(job_id=job_id)):
        if status.state in ENDED:
            if status.HasField("error"):
                raise from_detail(status.error)
            return status
    raise InternalError("the coordinator stopped watching before the job ended", job=job_id)


def result(control: ControlApi, transport: Transport, job_id: str) -> pa.Table:
    """All rows of a finished job, in the order of its partitions."""
    located = control.locate(pb.LocateRequest(job_id=job_id))
    edge = result_edge(located, job_id)
    schema = pa.ipc.read_schema(pa.py_buffer(edge.schema))
    return pa.Table.from_batches(read_result(located, job_id, transport), schema=schema)

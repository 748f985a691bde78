"""A job's stages as a record, and back.

One job: `plan` and `job`. Each stage travels as its fragment, the same bytes that agents are given,
and each edge as agents are told of it, with the little that only a coordinator knows beside.
"""

from __future__ import annotations

from dataclasses import fields

import pyarrow as pa

from fabric.config import AdaptiveConfig, CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.events import JobSubmitted, StreamStart
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.messages import KINDS, MODES, assignment, output
from fabric.coordinator.planner.stages import RESULT, Edge, Read, ScanSplits, Stage, StageGraph
from fabric.plan.codec import decode
from fabric.plan.nodes import NodeConfig
from fabric.plan.sources import Split

_KINDS = {number: kind for kind, number in KINDS.items()}
_MODES = {number: mode for mode, number in MODES.items()}


def plan(job: Job) -> pb.StoredPlan:
    """What is needed to go on with `job`, but for its state and that of its tasks."""
    adaptive = {f.name: getattr(job.adaptive, f.name) for f in fields(AdaptiveConfig)}
    chosen = {f.name: getattr(job.checkpoint, f.name) for f in fields(CheckpointConfig)}
    checkpoint = {name: value for name, value in chosen.items() if value is not None}
    return pb.StoredPlan(
        name=job.name,
        client_key=job.client_key,
        schema=job.schema,
        submitted_s=job.submitted_s,
        adaptive=pb.Adaptive(**adaptive),
        checkpoint=pb.Checkpointing(**checkpoint),
        stages=[_stored_stage(job, stage) for stage in job.graph.stages],
        edges=[
            pb.StoredEdge(
                edge=output(edge),
                producer=edge.producer,
                adaptive=edge.adaptive,
                ordered=edge.ordered,
            )
            for edge in job.graph.edges
        ],
        planned=sorted(job.planned),
        latency_us=job.latency_us,
        stream=job.origin,
        plan=job.plan,
        parallelism=job.parallelism,
        reactive=job.reactivity is not None,
    )


def job(job_id: str, plan: pb.StoredPlan, started: float) -> Job:
    """The job; `started` is monotonic. Its tasks wait, until their records say otherwise."""
    graph = StageGraph(
        tuple(_stage(number, stage, plan) for number, stage in enumerate(plan.stages)),
        tuple(_edge(edge) for edge in plan.edges),
    )
    submitted = JobSubmitted(
        job_id=job_id,
        name=plan.name,
        client_key=plan.client_key,
        graph=graph,
        fragments=tuple(stage.fragment for stage in plan.stages),
        schema=plan.schema,
        wall_s=plan.submitted_s,
        adaptive=AdaptiveConfig(**{f.name: value for f, value in plan.adaptive.ListFields()}),
        checkpoint=CheckpointConfig(**{f.name: value for f, value in plan.checkpoint.ListFields()}),
        latency_us=plan.latency_us,
        stream=StreamStart(plan.stream) if plan.HasField("stream") else None,
        plan=plan.plan,
        parallelism=plan.parallelism,
        reactive=plan.reactive,
    )
    made = Job(submitted, tuple(("",) * stage.n_tasks for stage in plan.stages), started)
    made.planned = set(plan.planned)
    return made


def _stored_stage(job: Job, stage: Stage) -> pb.StoredStage:
    return pb.StoredStage(
        path=stage.path,
        kind=pb.STAGE_CHAIN if stage.kind == "chain" else pb.STAGE_FRAGMENT,
        fragment=job.fragments[stage.stage],
        n_tasks=stage.n_tasks,
        region=stage.region,
        is_sink=stage.is_sink,
        tasks=[assignment(stage, number, 0) for number in range(stage.n_tasks)],
        adapted=stage.adapted,
        added=stage.added,
        latency_us=stage.latency_us,
        states={p: pb.NodeState(state=s.state, bytes=s.state_memory) for p, s in stage.states},
    )


def _stage(number: int, stage: pb.StoredStage, plan: pb.StoredPlan) -> Stage:
    edges = sorted({read.edge for task in stage.tasks for read in task.reads})
    return Stage(
        stage=number,
        path=stage.path,
        root=decode(stage.fragment).root,
        kind="chain" if stage.kind == pb.STAGE_CHAIN else "fragment",
        n_tasks=stage.n_tasks,
        splits=tuple(_splits(task) for task in stage.tasks),
        region=stage.region,
        is_sink=stage.is_sink,
        reads=tuple((edge, tuple(_read(task, edge) for task in stage.tasks)) for edge in edges),
        adapted=tuple(stage.adapted),
        added=stage.added,
        latency_us=stage.latency_us if stage.HasField("latency_us") else None,
        states=tuple((path, _state(stage.states[path])) for path in sorted(stage.states)),
    )


def _state(record: pb.NodeState) -> NodeConfig:
    return NodeConfig(
        state=record.state if record.HasField("state") else None,  # type: ignore[arg-type]
        state_memory=record.bytes if record.HasField("bytes") else None,
    )


def _splits(task: pb.TaskAssignment) -> ScanSplits:
    return tuple(
        (
            scan.scan_id,
            tuple(Split(s.uri, s.begin, s.end, s.ticket, s.n_rows, s.n_bytes) for s in scan.splits),
        )
        for scan in task.scans
    )


def _read(task: pb.TaskAssignment, edge: int) -> Read:
    read = next(read for read in task.reads if read.edge == edge)
    producers = (read.first_producer, read.end_producer) if read.end_producer else None
    return Read((read.first_partition, read.end_partition), producers)


def _edge(record: pb.StoredEdge) -> Edge:
    edge = record.edge
    return Edge(
        edge=edge.edge,
        path=edge.node_path,
        producer=record.producer,
        consumer=RESULT if edge.is_result else edge.consumer_stage,
        kind=_KINDS[edge.kind],
        mode=_MODES[edge.mode],
        n_partitions=edge.n_partitions,
        keys=tuple(edge.keys),
        schema=pa.ipc.read_schema(pa.py_buffer(edge.schema)),
        buffer_batches=edge.buffer_batches,
        compression=edge.compression or "none",  # type: ignore[arg-type]
        adaptive=record.adaptive,
        ordered=record.ordered,
        side=edge.side,
    )

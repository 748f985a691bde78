"""What the API answers, as OpenAPI describes it.

One job: models, each made of a message of `control.proto`. Times are seconds since 1970, UTC.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Self, TypeVar

from google.protobuf.message import Message
from pydantic import BaseModel

from fabric.control import control_pb2 as pb
from fabric.control.api import STATES
from fabric.control.datasets import n_lacking, n_replicas
from fabric.event_time import END_OF_TIME, IDLE, shown


class Problem(BaseModel):
    """RFC 9457; `title` is the class of the error."""

    type: str
    title: str
    status: int
    detail: str


M = TypeVar("M", bound=BaseModel)


def _made(model: type[M], told: Message, **own: object) -> M:
    """`model` from its message: fields of the same names, and its `own`; null: it is not set."""
    fields = told.DESCRIPTOR.fields_by_name
    names = model.model_fields.keys() - own.keys()
    unset = {name for name in names if fields[name].has_presence and not told.HasField(name)}
    return model(**{n: None if n in unset else getattr(told, n) for n in names}, **own)


class _Told(BaseModel):
    """Fields of a message, under the same names."""

    @classmethod
    def of(cls, told: Message) -> Self:
        """From its message."""
        return _made(cls, told)


class Error(_Told):
    """Why a job or a task failed, and where."""

    kind: str
    message: str
    node: str
    task: str
    agent: str


class Stage(BaseModel):
    """Tasks that run the same piece of the plan; of a stream, `watermark` is its event time."""

    stage: int
    node_path: str
    n_tasks: int
    running: int
    finished: int
    rows: int
    bytes: int
    backpressure_ratio: float
    adapted: list[str]
    rows_in: int
    watermark: str | None
    watermark_lag_s: float | None
    """From the watermark to now, where that is a time."""
    counts: dict[str, dict[str, int]]
    """What a stream has counted, such as ``late_rows``, by node path."""

    @classmethod
    def of(cls, told: pb.StageStatus) -> Self:
        """From its message."""
        return _made(
            cls,
            told,
            adapted=list(told.adapted),
            watermark=shown(told.watermark_us) if told.HasField("watermark_us") else None,
            watermark_lag_s=_lag_s(told),
            counts=_counts(told.counts),
        )


def _lag_s(told: pb.StageStatus) -> float | None:
    if not told.HasField("watermark_us") or not IDLE < told.watermark_us < END_OF_TIME:
        return None
    return round(time.time() - told.watermark_us / 1e6, 3)


def _counts(told: Iterable[pb.Counted]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for each in told:
        found.setdefault(each.node_path, {})[each.name] = each.n
    return found


class Origin(_Told):
    """Where a stream with a name goes on; `state` is the job that its state belongs to."""

    name: str
    state: str
    checkpoint: int
    begun_s: float
    states: int
    rows: int | None
    """Of state by key; null: an engine that doesn't count them is among them."""
    bytes: int
    savepoint: str
    changes: list[str]

    @classmethod
    def of(cls, told: Message) -> Self:
        """From its message."""
        assert isinstance(told, pb.StreamOrigin)
        return _made(cls, told, changes=list(told.changes))


class Job(BaseModel):
    """A submitted plan; `n_attempts` counts those beyond the first of each task.

    `stopped_at` is the checkpoint that somebody stopped its stream at, null when nobody has.
    `parallelism` is of a stream, and `rescaling` what that is to become; both are 0
    otherwise. `reactive`: it follows the slots.
    """

    job_id: str
    name: str
    state: str
    submitted_s: float
    seconds: float
    rows: int
    result_path: str
    n_tasks: int
    n_finished: int
    n_attempts: int
    run: int
    parallelism: int
    rescaling: int
    reactive: bool
    stopped_at: int | None
    error: Error | None

    @classmethod
    def of(cls, told: pb.JobStatus) -> Self:
        """From its message."""
        return _made(
            cls,
            told,
            state=job_state(told.state),
            rows=told.result_rows,
            n_tasks=sum(stage.n_tasks for stage in told.stages),
            n_finished=sum(stage.finished for stage in told.stages),
            stopped_at=told.stopped_at or None,
            error=Error.of(told.error) if told.HasField("error") else None,
        )


class JobDetail(Job):
    """A job with its stages and the last errors that attempts ended with.

    `stream` is of a stream that has a name.
    """

    stages: list[Stage]
    errors: list[Error]
    stream: Origin | None

    @classmethod
    def of(cls, told: pb.JobStatus) -> Self:
        """From its message."""
        return cls(
            **dict(Job.of(told)),
            stages=[Stage.of(stage) for stage in told.stages],
            errors=[Error.of(error) for error in told.errors],
            stream=Origin.of(told.stream) if told.HasField("stream") else None,
        )


class Jobs(BaseModel):
    """Newest first; `next` is the `before` of the next page, null on the last."""

    jobs: list[Job]
    next: str | None


class Task(BaseModel):
    """One attempt of a task."""

    stage: int
    task: int
    attempt: int
    node_path: str
    agent_id: str
    state: str
    started_s: float | None
    ended_s: float | None
    rows_in: int
    rows_out: int
    backpressure_ratio: float
    error: Error | None

    @classmethod
    def of(cls, told: pb.TaskStatus) -> Self:
        """From its message."""
        return _made(
            cls,
            told,
            state=task_state(told.state),
            started_s=told.started_s or None,
            ended_s=told.ended_s or None,
            error=Error.of(told.error) if told.HasField("error") else None,
        )


class Checkpoint(_Told):
    """What a stream has made durable, or tried to; `begun_s` is wall time."""

    checkpoint: int
    state: str
    begun_s: float
    seconds: float
    bytes: int
    files: int
    reason: str
    unaligned: bool
    inflight_bytes: int


class Savepoint(_Told):
    """A checkpoint that is kept under a name; `created_s` is wall time."""

    name: str
    stream: str
    job_id: str
    job_name: str
    checkpoint: int
    created_s: float
    bytes: int
    files: int
    states: int
    rows: int | None
    release: str
    error: str
    """Why a damaged one can't be used."""


class Taken(BaseModel):
    """How far a checkpoint is that somebody asked for: ``under way``, ``done`` or ``failed``.

    Ask again with the same `key` until it is no longer under way.
    """

    key: str
    state: str
    checkpoint: int
    savepoint: Savepoint | None
    error: Error | None

    @classmethod
    def of(cls, key: str, told: pb.TakenCheckpoint) -> Self:
        """From its message."""
        return _made(
            cls,
            told,
            key=key,
            savepoint=Savepoint.of(told.savepoint) if told.HasField("savepoint") else None,
            error=Error.of(told.error) if told.HasField("error") else None,
        )


class Stream(_Told):
    """A stream that has a name; `checkpoint` is the newest one, which it would go on from.

    `job_id` is the job that its state belongs to, `runs_in` the process that runs it.
    """

    name: str
    job_id: str
    starts: int
    ended: bool
    runs_in: str
    checkpoint: int
    created_s: float
    bytes: int
    states: int
    rows: int | None
    error: str


class Agent(_Told):
    """An agent that the coordinator knows."""

    agent_id: str
    address: str
    host: str
    state: str
    slots: int
    running_tasks: int
    stored_bytes: int
    rss_bytes: int
    memory_bytes: int
    seen_s_ago: float
    version: str


class Dataset(BaseModel):
    """A dataset; `partitions_lacking` have fewer owners attached than there are replicas."""

    name: str
    version: int
    rows: int
    keys: list[str]
    partitions: int
    replicas: int
    partitions_lacking: int

    @classmethod
    def of(cls, location: pb.DatasetLocation, attached: set[str]) -> Self:
        """From where it lies, and the agents that are there."""
        return _made(
            cls,
            location,
            keys=list(location.keys),
            partitions=location.n_partitions,
            replicas=n_replicas(location),
            partitions_lacking=n_lacking(location, attached),
        )


class Event(_Told):
    """What happened, or who did what."""

    number: int
    wall_s: float
    kind: str
    job_id: str
    agent_id: str
    text: str
    who: str
    epoch: int


class Plan(_Told):
    """A job's plan as it runs."""

    plan: str
    optimised: str
    stages: str
    svg: str
    rules: str


def states_of(names: Iterable[str]) -> list[pb.JobState]:
    """The states that people call so; the inverse of `job_state`."""
    wanted = frozenset(names)
    return [state for state, name in STATES.items() if name in wanted]


def job_state(state: pb.JobState) -> str:
    """As people write it.

    >>> job_state(pb.JOB_RUNNING)
    'running'
    """
    return STATES.get(state, "unknown")


def task_state(state: pb.TaskState) -> str:
    """As people write it; a task that was not started waits."""
    if state == pb.TASK_UNKNOWN:
        return "waiting"
    return pb.TaskState.Name(state).removeprefix("TASK_").lower()

"""What the core writes down, and what it makes of it after a restart.

One job: records by table. ``jobs`` holds each job's status and how it is to end, ``plans`` the
stages of those that were not released, ``tasks`` the newest attempt of each of their tasks,
``attempts`` the ones before, ``agents`` every agent, ``events`` what happened.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fabric.control import control_pb2 as pb
from fabric.control.errors import from_detail, to_detail
from fabric.coordinator.core.jobs import plan_records
from fabric.coordinator.core.jobs.jobs import Job, Stopping
from fabric.coordinator.core.jobs.messages import task_status
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.metadata.store import MetadataStore, Write
from fabric.coordinator.planner.stages import Key


@dataclass(slots=True)
class Restored:
    """A job as it was written down; `job` is None when it was released."""

    status: pb.JobStatus
    job: Job | None = None
    attempts: list[pb.TaskStatus] = field(default_factory=list)


def job_record(job: Job, status: pb.JobStatus, ended_s: float) -> Write:
    """A job that was not released."""
    record = pb.StoredJob(
        status=status, published=job.published, publishing=job.publishing, ended_s=ended_s
    )
    if job.stopping is not None:
        record.stopping, record.release = job.stopping.state, job.stopping.release
        if job.stopping.error is not None:
            record.error.CopyFrom(to_detail(job.stopping.error))
    return Write("jobs", job.job_id, record.SerializeToString())


def past_record(status: pb.JobStatus) -> Write:
    """A job of which only the status is left."""
    return Write("jobs", status.job_id, pb.StoredJob(status=status).SerializeToString())


def plan_record(job: Job) -> Write:
    """The stages of a job."""
    return Write("plans", job.job_id, plan_records.plan(job).SerializeToString())


def task_record(job: Job, key: Key, task: Task) -> Write:
    """The newest attempt of a task."""
    record = pb.StoredTask(
        status=task_status(job, key, task),
        outputs=[
            pb.EdgeTotals(
                edge=edge, rows=rows, bytes=size, partition_bytes=task.sizes.get(edge, ())
            )
            for edge, (rows, size) in task.totals.items()
        ],
        sink_handle=task.handle,
        failures=task.failures,
        given=task.given,
        lost=task.lost,
    )
    return Write("tasks", task_key(job.job_id, *key), record.SerializeToString())


def attempt_record(job_id: str, status: pb.TaskStatus) -> Write:
    """An attempt that is over and was followed by another one."""
    return Write("attempts", attempt_key(job_id, status), status.SerializeToString())


def agent_record(hello: pb.Hello, state: str, *, draining: bool, seen_s: float) -> Write:
    """Remember an agent; what it ran when it said hello is known elsewhere."""
    record = pb.StoredAgent(hello=hello, state=state, draining=draining, seen_s=seen_s)
    del record.hello.tasks[:]
    return Write("agents", hello.agent_id, record.SerializeToString())


def event_record(event: pb.EventRecord) -> Write:
    """Remember what happened."""
    return Write("events", event_key(event.number), event.SerializeToString())


def task_key(job_id: str, stage: int, task: int) -> str:
    """``job/stage.task``, padded so that keys sort as numbers do."""
    return f"{job_id}/{stage:06}.{task:06}"


def attempt_key(job_id: str, status: pb.TaskStatus) -> str:
    """``job/stage.task.attempt``."""
    return f"{task_key(job_id, status.stage, status.task)}.{status.attempt:05}"


def event_key(number: int) -> str:
    """Padded, so that keys sort as numbers do."""
    return f"{number:020}"


def restored_jobs(store: MetadataStore, wall_s: float, now: float) -> list[Restored]:
    """Every job of a store, at wall time `wall_s` and monotonic `now`."""
    plans = dict(store.scan("plans"))
    tasks = _by_job(store.scan("tasks"))
    attempts = _by_job(store.scan("attempts"))
    found = []
    for job_id, value in store.scan("jobs"):
        record = pb.StoredJob.FromString(value)
        if job_id not in plans:
            found.append(Restored(record.status))
            continue
        plan = pb.StoredPlan.FromString(plans[job_id])
        job = plan_records.job(job_id, plan, now - (wall_s - plan.submitted_s))
        _take_state(job, record, wall_s, now)
        for data in tasks.get(job_id, ()):
            _take_task(job, pb.StoredTask.FromString(data))
        past = [pb.TaskStatus.FromString(data) for data in attempts.get(job_id, ())]
        found.append(Restored(record.status, job, past))
    return found


def _by_job(records: Iterable[tuple[str, bytes]]) -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {}
    for key, value in records:
        found.setdefault(key.rpartition("/")[0], []).append(value)
    return found


def _take_state(job: Job, record: pb.StoredJob, wall_s: float, now: float) -> None:
    status = record.status
    job.state, job.run, job.stopped_at = status.state, status.run, status.stopped_at
    job.published, job.publishing = set(record.published), dict(record.publishing)
    job.errors = [from_detail(error) for error in status.errors]
    if status.HasField("error"):
        job.error = from_detail(status.error)
    if record.ended_s:
        job.ended = now - max(0.0, wall_s - record.ended_s)
    if record.stopping and job.active:
        error = from_detail(record.error) if record.HasField("error") else None
        job.stopping = Stopping(record.stopping, error, now, release=record.release)


def _take_task(job: Job, record: pb.StoredTask) -> None:
    status = record.status
    job.tasks[status.stage, status.task] = Task(
        status.agent_id,
        status.attempt,
        status.state,
        given=record.given,
        lost=record.lost,
        epoch=status.epoch,
        failures=record.failures,
        handle=record.sink_handle,
        rows_in=status.rows_in,
        rows_out=status.rows_out,
        backpressure_ratio=status.backpressure_ratio,
        started_s=status.started_s,
        ended_s=status.ended_s,
        error=from_detail(status.error) if status.HasField("error") else None,
        totals={total.edge: (total.rows, total.bytes) for total in record.outputs},
        sizes={t.edge: tuple(t.partition_bytes) for t in record.outputs if t.partition_bytes},
    )

"""When a failed attempt is followed by another.

One job: what a report of failure means. An error that may pass (`retryable`) is tried again after a
pause that doubles, `attempts_max` times in all; input that its owner has not got any more is no
fault of the task, and does not count.
"""

from __future__ import annotations

from collections.abc import Collection

from fabric.control import control_pb2 as pb
from fabric.control.errors import from_detail
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.jobs import Job
from fabric.coordinator.core.lineage import Key
from fabric.errors import ExternalError, FabricError
from fabric.ids import TaskId


def failure(job: Job, key: Key, report: pb.TaskReport) -> FabricError:
    """What an attempt ended with, and where."""
    task = job.tasks[key]
    error: FabricError
    if report.HasField("error"):
        error = from_detail(report.error)
    else:
        error = ExternalError("the agent stopped the task without saying why")
    where = str(TaskId(job.job_id, *key, task.attempt))
    node = job.graph.stages[key[0]].path
    return error.at(job=job.job_id, node=node, task=where, agent=task.agent_id)


def lost_inputs(job: Job, report: pb.TaskReport, attached: Collection[str]) -> bool:
    """Mark output as lost that a task could not read and that is gone; whether there was any."""
    found = False
    for lost in report.lost:
        producer = (job.graph.edge(lost.edge).producer, lost.task)
        task = job.tasks.get(producer)
        if task is None or (task.attempt, task.agent_id) != (lost.attempt, lost.agent_id):
            found = True  # it was made again meanwhile: this attempt read the one before
        elif lost.gone or lost.agent_id not in attached:
            job.tasks[producer], found = task._replace(lost=True), True
    return found


def pause_s(config: CoordinatorConfig, failures: int) -> float:
    """How long to wait before the next attempt."""
    return min(config.retry_s_max, config.retry_s * 2.0 ** max(0, failures - 1))


def with_causes(error: FabricError, n: int) -> FabricError:
    """The error that stops the job, once there were enough."""
    if n == 1:
        return error
    return type(error)(f"{error.message} (attempt {n} of {n})", **_place(error))


def _place(error: FabricError) -> dict[str, str]:
    where = error.where
    return {"job": where.job, "node": where.node, "task": where.task, "agent": where.agent}

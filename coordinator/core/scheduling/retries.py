"""When a failed attempt is followed by another.

One job: what a report of failure means. An error that may pass (`retryable`) is tried again after a
pause that doubles, `attempts_max` times in all; input that its owner has not got any more is no
fault of the task, and does not count. Nor does an owner of dataset partitions that is away, as it
is while it starts again, for `owner_wait_s`; after that the job fails and names it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fabric.control import control_pb2 as pb
from fabric.control.errors import from_detail
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core.agents.agents import Agents
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.planner.stages import Key
from fabric.errors import ExternalError, FabricError, PeerLostError
from fabric.ids import TaskId

_AWAY_S, _AWAY_S_MAX = 0.2, 4.0


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


def away_for(error: FabricError, agent_id: str, agents: Agents, now: float) -> float | None:
    """How long another agent has been away that a task on `agent_id` did not reach; else None."""
    other = error.where.agent
    if not isinstance(error, PeerLostError) or other == agent_id:
        return None
    return agents.away_s(other, now)


class Verdict(NamedTuple):
    """What follows a failure: another attempt of `task` after `pause_s`, or the job's end."""

    task: Task
    pause_s: float
    final: FabricError | None = None


def judge(
    task: Task, error: FabricError, gone: bool, away_s: float | None, config: CoordinatorConfig
) -> Verdict:
    """`gone`: input was lost; `away_s`: how long the agent has been away that was not reached."""
    if away_s is not None:
        pause_s = min(_AWAY_S_MAX, max(_AWAY_S, away_s / 2))
        over = away_s >= config.owner_wait_s
        return Verdict(task, pause_s, _was_away(error, away_s) if over else None)
    task = task._replace(failures=task.failures + (not gone))
    pause_s = min(config.retry_s_max, config.retry_s * 2.0 ** min(64, max(0, task.failures - 1)))
    if not (error.retryable or gone):
        return Verdict(task, pause_s, error)
    over = task.failures >= config.attempts_max
    return Verdict(task, pause_s, with_causes(error, task.failures) if over else None)


def with_causes(error: FabricError, n: int) -> FabricError:
    """The error that stops the job, once there were enough."""
    if n == 1:
        return error
    return type(error)(f"{error.message} (attempt {n} of {n})", **_place(error))


def _was_away(error: FabricError, away_s: float) -> FabricError:
    known = "start it again" in error.message
    advice = "" if known else " and is not connected; start it again"
    away = f"agent {error.where.agent} has been away for {away_s:.0f} s{advice}"
    waited = f"{error.message} ({away})"
    return type(error)(waited, **_place(error))


def _place(error: FabricError) -> dict[str, str]:
    where = error.where
    return {"job": where.job, "node": where.node, "task": where.task, "agent": where.agent}

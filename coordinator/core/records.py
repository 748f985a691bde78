"""What the core writes down, and what it makes of it after a restart.

One job: records by table. ``jobs`` holds the last `JobStatus` of each job, ``tasks`` the last
report of each task, ``agents`` the hello of every agent ever attached. A job that ran when the
coordinator stopped can't go on: its agents drop it when they meet the new epoch.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.control import control_pb2 as pb
from fabric.coordinator.metadata.store import Write

_RUNNING = frozenset((pb.JOB_QUEUED, pb.JOB_RUNNING))


def job_record(status: pb.JobStatus) -> Write:
    """Remember a job's status."""
    return Write("jobs", status.job_id, status.SerializeToString())


def task_record(agent_id: str, report: pb.TaskReport) -> Write:
    """Remember how a task ended; the handle stays, since it may still have to be abandoned."""
    kept = pb.TaskReport()
    kept.CopyFrom(report)
    for total in kept.outputs:
        total.ClearField("partition_bytes")  # of use only while the job runs
    kept.error.agent = kept.error.agent or agent_id
    return Write("tasks", task_key(report.key), kept.SerializeToString())


def task_key(key: pb.TaskKey) -> str:
    """``job/stage.task``, padded so that keys sort as numbers do."""
    return f"{key.job_id}/{key.stage:06}.{key.task:06}"


def agent_record(hello: pb.Hello) -> Write:
    """Remember an agent."""
    return Write("agents", hello.agent_id, hello.SerializeToString())


def restored_jobs(records: Iterable[tuple[str, bytes]]) -> list[pb.JobStatus]:
    """Statuses after a restart, oldest first: what ran has failed, what is left is released."""
    found = []
    for _, value in records:
        status = pb.JobStatus.FromString(value)
        if status.state in _RUNNING:
            status.state = pb.JOB_FAILED
            status.error.CopyFrom(
                pb.ErrorDetail(
                    kind="PeerLostError",
                    message="the coordinator was restarted while the job ran; submit it again",
                    job=status.job_id,
                )
            )
        elif status.state == pb.JOB_FINISHED:
            status.state = pb.JOB_RELEASED
        found.append(status)
    return sorted(found, key=lambda status: (status.submitted_s, status.job_id))

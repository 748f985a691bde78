"""What a coordinator said of a job, as people read it.

One job: `Status`, a `JobStatus` message that prints its stages as lines, and `headline`, its first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fabric.clients.session.progress import counted, stage_rows
from fabric.control import control_pb2 as pb
from fabric.control.api import STATES

BACKPRESSURE_SHOWN = 0.005
"""The smallest share of waiting for consumers that is told."""

if TYPE_CHECKING:
    _Message = pb.JobStatus
else:
    _Message = object


class Status(_Message):
    """A job's status; its fields are those of the message ``JobStatus`` of ``control.proto``.

    >>> stage = pb.StageStatus(node_path="scan_1", n_tasks=2, finished=1, rows=1000, bytes=8000)
    >>> print(Status(pb.JobStatus(job_id="job-1", state=pb.JOB_RUNNING, stages=[stage])))
    job-1: running, 1 of 2 tasks done
      stage 0 scan_1: 1 of 2 tasks, 1,000 rows, 8,000 bytes
    """

    def __init__(self, message: pb.JobStatus) -> None:
        self.message = message

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name == "message":  # while it is copied, there is none yet
                raise AttributeError(name)
            return getattr(self.message, name)

    def __eq__(self, other: object) -> bool:
        return self.message == (other.message if isinstance(other, Status) else other)

    __hash__ = None  # type: ignore[assignment]  # the message changes

    def __str__(self) -> str:
        lines = [headline(self.message)]
        for s in self.message.stages:
            lines.append(
                f"  stage {s.stage} {s.node_path}: {s.finished} of {s.n_tasks} tasks, "
                f"{stage_rows(s) or '0 rows'}, {s.bytes:,} bytes{_backpressure(s)}"
            )
            lines += [f"    {why}" for why in s.adapted]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"JobStatus({headline(self.message)})"


def headline(status: pb.JobStatus) -> str:
    """One line: id, name, state, rows, seconds, error."""
    name = f" {status.name!r}" if status.name else ""
    text = f"{status.job_id}{name}: {STATES.get(status.state, 'unknown')}"
    if status.state == pb.JOB_FINISHED:
        text += f", {status.result_rows:,} rows in {status.seconds:.2f} s"
    elif status.state == pb.JOB_RUNNING:
        done = sum(stage.finished for stage in status.stages)
        text += f", {done} of {sum(stage.n_tasks for stage in status.stages)} tasks done"
        if n_read := max(
            (s.rows_in for s in status.stages if s.HasField("watermark_us")), default=0
        ):
            text += f", {n_read:,} rows in"
    text = ", ".join([text, *counted(status.stages)])
    if status.waiting:
        text += f", it {status.waiting}"
    if status.HasField("error"):
        text += f", {status.error.kind}: {status.error.message}"
    return text


def _backpressure(stage: pb.StageStatus) -> str:
    """How much of its time a task of the stage waited for its consumers, when it is much."""
    ratio = stage.backpressure_ratio
    return f", backpressure {ratio:.0%}" if ratio >= BACKPRESSURE_SHOWN else ""

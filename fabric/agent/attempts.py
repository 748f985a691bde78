"""The task attempts of an agent, by job: those it was given, that run, and whose output it has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from fabric.control import control_pb2 as pb
from fabric.ids import TaskId
from fabric.plan.sources import Split


def key_of(task: TaskId, epoch: int) -> pb.TaskKey:
    """An attempt as reports name it."""
    return pb.TaskKey(
        job_id=task.job, stage=task.stage, task=task.task, attempt=task.attempt, epoch=epoch
    )


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task attempt to run; `deploy` is shared by the tasks of a stage."""

    id: TaskId
    epoch: int
    deploy: pb.Deploy
    assignment: pb.TaskAssignment

    @property
    def key(self) -> pb.TaskKey:
        """As reports name it."""
        return key_of(self.id, self.epoch)

    @property
    def n_tasks(self) -> int:
        """How many tasks its stage has."""
        return max(1, self.deploy.n_tasks)

    @property
    def pipelined(self) -> bool:
        """Whether it runs together with other tasks: joined by a pipelined edge, or a stream's."""
        if self.deploy.HasField("stream"):
            return True
        modes = {e.mode for e in self.deploy.inputs} | {e.mode for e in self.deploy.outputs}
        return pb.MODE_PIPELINED in modes


def scan_splits(scans: Iterable[pb.ScanSplits]) -> dict[int, list[Split]]:
    """What each scan of a task reads."""
    return {
        scan.scan_id: [
            Split(s.uri, s.begin, s.end, s.ticket, s.n_rows, s.n_bytes) for s in scan.splits
        ]
        for scan in scans
    }


Phase = Literal["waiting", "running", "ended"]


@dataclass(slots=True)
class TaskAttempt:
    """One attempt on this agent, or its output."""

    id: TaskId
    epoch: int
    edges: tuple[int, ...]
    pipelined: bool = False
    spec: TaskSpec | None = None
    """None when another agent ran it, and its output was fetched from there."""
    phase: Phase = "waiting"
    report: pb.TaskReport | None = None
    """Its end, once known."""

    @property
    def key(self) -> pb.TaskKey:
        """As reports name it."""
        return key_of(self.id, self.epoch)


@dataclass(slots=True)
class JobAttempts:
    """What this agent has of one job."""

    run: int = 0
    tasks: dict[tuple[int, int], TaskAttempt] = field(default_factory=dict)
    """The newest attempt by (stage, task)."""
    retired: dict[TaskId, TaskAttempt] = field(default_factory=dict)
    """Older attempts whose threads still run."""
    cancelled: str | None = None
    published: set[int] = field(default_factory=set)
    """Stages whose sinks were told to publish: nothing of them is abandoned any more."""
    released: bool = False

    @property
    def pipes_in_use(self) -> bool:
        """Whether a task on a pipelined edge still runs."""
        both = (*self.tasks.values(), *self.retired.values())
        return any(task.pipelined and task.phase == "running" for task in both)

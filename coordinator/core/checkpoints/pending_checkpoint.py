"""One checkpoint on its way: who has acknowledged it, and the manifest that follows.

`PendingCheckpoint` is the one that was begun, `RunningTasks` are those it waits for, and
`AbortedCheckpoints` are the earlier ones that were not completed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fabric.checkpoint.manifest import Declined, Manifest, NodeRecord, SnapshotAck
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.checkpoints.completed_checkpoints import CompletedCheckpoints
from fabric.coordinator.core.effects import NotifyAborted
from fabric.coordinator.planner.stages import Key

_TOLD_TASKS, _TOLD_ABORTED = 5, 50


class TaskRun(NamedTuple):
    """The attempt that a task is at, and the coordinator's epoch that it was given in."""

    attempt: int
    epoch: int


@dataclass(slots=True)
class PendingCheckpoint:
    """A checkpoint that was begun; `manifest` is there once it is being written."""

    checkpoint: int
    begun: float
    deadline: float
    wall_us: int
    unaligned_at: float = math.inf
    """When tasks are told that they need not wait for its barriers."""
    is_unaligned: bool = False
    """Whether they were."""
    acks: dict[Key, SnapshotAck] = field(default_factory=dict)
    manifest: Manifest | None = None

    def skip_alignment_at(self, now: float) -> None:
        """Tasks need not wait for its barriers from then on."""
        self.unaligned_at, self.is_unaligned = now, now <= self.begun

    def take_finals(self, finals: Mapping[Key, SnapshotAck]) -> None:
        """Tasks that ended before they took a snapshot for this one have said their last word."""
        for key, ack in finals.items():
            if ack.taken < self.checkpoint:
                self.acks.setdefault(key, ack)

    @property
    def due(self) -> float:
        """When something is to be done about it."""
        return min(self.deadline, math.inf if self.is_unaligned else self.unaligned_at)

    def missing(self, tasks: Collection[Key]) -> str:
        """Whose acknowledgements lack, for people; "": nobody's."""
        lacking = sorted(set(tasks) - self.acks.keys())
        named = ", ".join(f"{stage}.{task}" for stage, task in lacking[:_TOLD_TASKS])
        more = ", ..." if len(lacking) > _TOLD_TASKS else ""
        return f"{len(lacking)} of {len(tasks)} tasks: {named}{more}" if lacking else ""

    def seal(
        self, *, job: str, epoch: int, run: int, nodes: tuple[NodeRecord, ...], published: int
    ) -> Manifest:
        """All acknowledgements as one manifest, less what checkpoint `published` has published."""
        acks = (ack.without_handles_up_to(published) for ack in self.acks.values())
        tasks = sorted((s for ack in acks for s in ack.snapshots), key=lambda s: (s.node, s.task))
        self.manifest = Manifest(
            job=job, checkpoint=self.checkpoint, epoch=epoch, run=run, nodes=nodes,
            wall_us=self.wall_us, tasks=tuple(tasks),
        )  # fmt: skip
        return self.manifest

    def status(self, state: str, now: float, reason: str = "") -> pb.CheckpointStatus:
        """What people are told of it, as long as it is not complete."""
        return pb.CheckpointStatus(
            checkpoint=self.checkpoint, state=state, begun_s=self.wall_us / 1e6,
            seconds=now - self.begun, reason=reason, unaligned=self.is_unaligned,
        )  # fmt: skip


class RunningTasks:
    """The tasks of a run that checkpoints are made of; `runs` is empty when there is no run."""

    def __init__(self, completed: CompletedCheckpoints) -> None:
        self._completed = completed
        self.end()

    def begin(self, runs: Mapping[Key, TaskRun], sources: Collection[Key]) -> None:
        """A run is at work; `sources` are the tasks to be triggered."""
        self.runs, self._sources = dict(runs), frozenset(sources)

    def end(self) -> None:
        """The run is over."""
        self.begin({}, ())

    def live_sources(self) -> frozenset[Key]:
        """The sources that have not ended."""
        return self._sources - self._completed.finals.keys()

    def unfinished(self) -> frozenset[Key]:
        """All tasks that have not ended."""
        return frozenset(self.runs.keys() - self._completed.finals.keys())

    def all_ended(self) -> bool:
        """Whether every task of the run has said its last word."""
        return bool(self.runs) and self.runs.keys() <= self._completed.finals.keys()

    def misfit(self, said: SnapshotAck | Declined, pending: PendingCheckpoint | None) -> str | None:
        """Why `pending` does not take what a task says."""
        if (why := self._misfit_of_run(said)) is not None:
            return why
        if pending is None or pending.checkpoint != said.checkpoint:
            return "checkpoint: it is over"
        return "checkpoint: duplicate" if said.key in pending.acks else None

    def misfit_of_end(self, ack: SnapshotAck) -> str | None:
        """Why a task's last word is not taken."""
        is_double = ack.key in self._completed.finals
        return self._misfit_of_run(ack) or ("checkpoint: duplicate end" if is_double else None)

    def _misfit_of_run(self, said: SnapshotAck | Declined) -> str | None:
        run = self.runs.get(said.key)
        if run is None:
            return "checkpoint: unknown task"
        if run.attempt != said.attempt:
            return "checkpoint: old attempt"
        return "checkpoint: old epoch" if run.epoch != said.epoch else None


class AbortedCheckpoints:
    """The newest checkpoints that were not completed, and how many failed in a row."""

    def __init__(self) -> None:
        self.statuses: deque[pb.CheckpointStatus] = deque(maxlen=_TOLD_ABORTED)
        self.n_in_a_row = 0
        self.last: NotifyAborted | None = None
        """What tasks are told of the newest, as long as no complete one has followed."""

    def add(self, pending: PendingCheckpoint, reason: str, now: float, *, fails: bool) -> None:
        """One more; `fails`: for a reason other than the end of its run."""
        self.statuses.append(pending.status("aborted", now, reason))
        self.n_in_a_row += fails

    def followed(self) -> None:
        """A checkpoint was completed."""
        self.n_in_a_row, self.last = 0, None


def statuses(
    completed: CompletedCheckpoints,
    pending: PendingCheckpoint | None,
    aborted: AbortedCheckpoints,
    now: float,
) -> list[pb.CheckpointStatus]:
    """Those that are kept, the last that were aborted, and the one under way, by number."""
    found = list(aborted.statuses)
    found += [
        pb.CheckpointStatus(
            checkpoint=p.checkpoint, state=p.state, begun_s=p.begun_us / 1e6, seconds=p.seconds,
            bytes=p.n_bytes, files=p.n_files, reason=p.reason, unaligned=p.unaligned,
            inflight_bytes=p.n_inflight_bytes,
        )
        for p in completed.pointers
    ]  # fmt: skip
    if pending is not None:
        found.append(pending.status("under way", now))
    return sorted(found, key=lambda status: status.checkpoint)

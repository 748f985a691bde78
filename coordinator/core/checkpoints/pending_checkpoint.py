"""One checkpoint on its way: who has acknowledged it, and the manifest that follows.

`PendingCheckpoint` is the one that was begun, `History` has those that were not completed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from fabric.checkpoint.manifest import Manifest, SnapshotAck, TaskSnapshot
from fabric.coordinator.core.checkpoints.completed_checkpoints import CompletedCheckpoints, Handles
from fabric.coordinator.core.jobs.lineage import Key

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
    acks: dict[Key, SnapshotAck] = field(default_factory=dict)
    manifest: Manifest | None = None

    def take_finals(self, finals: Mapping[Key, SnapshotAck]) -> None:
        """Tasks that ended before they took a snapshot for this one have said their last word."""
        for key, ack in finals.items():
            if ack.taken < self.checkpoint:
                self.acks.setdefault(key, ack)

    def missing(self, tasks: Collection[Key]) -> str:
        """Whose acknowledgements lack, for people; "": nobody's."""
        lacking = sorted(set(tasks) - self.acks.keys())
        named = ", ".join(f"{stage}.{task}" for stage, task in lacking[:_TOLD_TASKS])
        more = ", ..." if len(lacking) > _TOLD_TASKS else ""
        return f"{len(lacking)} of {len(tasks)} tasks: {named}{more}" if lacking else ""

    def seal(self, *, job: str, epoch: int, run: int, plan: str, published: int) -> Manifest:
        """All acknowledgements as one manifest, less what checkpoint `published` has published."""
        acks = (ack.without_handles_up_to(published) for ack in self.acks.values())
        tasks = sorted((s for ack in acks for s in ack.snapshots), key=_place)
        self.manifest = Manifest(
            job=job, checkpoint=self.checkpoint, epoch=epoch, run=run, plan=plan,
            wall_us=self.wall_us, tasks=tuple(tasks),
        )  # fmt: skip
        return self.manifest


@dataclass(frozen=True, slots=True)
class CheckpointStatus:
    """A checkpoint as people see it; `state` may be "under way" and "aborted", too."""

    checkpoint: int
    state: str
    begun_us: int
    seconds: float
    n_bytes: int = 0
    n_files: int = 0
    reason: str = ""


class History:
    """The newest checkpoints that were not completed."""

    def __init__(self) -> None:
        self.aborted: deque[CheckpointStatus] = deque(maxlen=_TOLD_ABORTED)

    def add(self, pending: PendingCheckpoint, reason: str, now: float) -> None:
        """One more."""
        seconds = now - pending.begun
        self.aborted.append(
            CheckpointStatus(pending.checkpoint, "aborted", pending.wall_us, seconds, reason=reason)
        )


def statuses(
    completed: CompletedCheckpoints, pending: PendingCheckpoint | None, history: History, now: float
) -> list[CheckpointStatus]:
    """Those that are kept, the last that were aborted, and the one under way, by number."""
    found = list(history.aborted)
    for p in completed.pointers:
        found.append(
            CheckpointStatus(
                p.checkpoint, p.state, p.begun_us, p.seconds, p.n_bytes, p.n_files, p.reason
            )
        )
    if pending is not None:
        seconds = now - pending.begun
        found.append(CheckpointStatus(pending.checkpoint, "under way", pending.wall_us, seconds))
    return sorted(found, key=lambda status: status.checkpoint)


def handles_of(acks: Collection[SnapshotAck], but: Handles) -> Handles:
    """What acknowledgements tell of, each once, without those in `but`."""
    found: Handles = {}
    for snapshot in (s for ack in acks for s in ack.snapshots):
        known = found.get(snapshot.node, ())
        given = (h.data for h in snapshot.handles)
        new = [d for d in given if d not in known and d not in but.get(snapshot.node, ())]
        if new:
            found[snapshot.node] = (*known, *dict.fromkeys(new))
    return found


def _place(snapshot: TaskSnapshot) -> tuple[str, int]:
    return snapshot.node, snapshot.task

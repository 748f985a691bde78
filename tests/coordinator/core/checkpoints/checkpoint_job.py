"""One source and two sinks around `Checkpoints`, which say what a test lets them say."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fabric.checkpoint.manifest import (
    FINAL,
    FileRecord,
    Manifest,
    NodeRecord,
    Seal,
    SinkHandle,
    SnapshotAck,
    TaskSnapshot,
)
from fabric.config import CheckpointConfig
from fabric.coordinator.core.checkpoints.checkpoints import Checkpoints
from fabric.coordinator.core.checkpoints.pending_checkpoint import TaskRun
from fabric.coordinator.core.effects import (
    CheckpointEffect,
    Note,
    NotifyComplete,
    Persist,
    Restore,
    WriteManifest,
)
from fabric.errors import (
    DataError,
)

SOURCE, SINK, OTHER = (0, 0), (1, 0), (1, 1)
SEAL = Seal(10, 7)
NODE = NodeRecord("window_1", "stream_aggregate", '.window("1 second").count()')
DAMAGED = DataError("job/2/state is damaged")


class Job:
    """One source and two sinks, and what the coordinator wrote down of them."""

    def __init__(self, **config: Any) -> None:
        times = {"interval_s": 10, "timeout_s": 60, "unaligned_after_s": 60}
        self.config = CheckpointConfig(**{**times, **config})
        self.rows: dict[str, bytes] = {}
        self.refused: Counter[str] = Counter()
        self.core = self.coordinator(1)

    def coordinator(self, epoch: int) -> Checkpoints:
        return Checkpoints(
            "job", (NODE,), self.config, state="job", epoch=epoch, wall_s=lambda now: now + 1e6,
            refuse=lambda why: self.refused.update([why]),
        )  # fmt: skip

    def start(self, now: float = 0.0, attempt: int = 0) -> list[CheckpointEffect]:
        tasks = {key: TaskRun(attempt, 1) for key in (SOURCE, SINK, OTHER)}
        return self.take(self.core.started(tasks, [SOURCE], now))

    def restart(self) -> None:
        self.core = self.coordinator(2)
        self.core.restored(self.rows.items())

    def take(self, effects: list[CheckpointEffect]) -> list[CheckpointEffect]:
        """Write down what is to be written down; the others, but notes."""
        for effect in effects:
            for write in effect.writes if isinstance(effect, Persist) else ():
                self.rows.pop(write.key, None)
                if write.value is not None:
                    self.rows[write.key] = write.value
        return [e for e in effects if not isinstance(e, Persist | Note)]

    def all_ack(self, checkpoint: int, now: float, *, handles: bool = False) -> Manifest:
        for key in (SOURCE, SINK):
            assert self.take(self.core.ack(ack(key, checkpoint, handles=handles), now)) == []
        (effect,) = self.take(self.core.ack(ack(OTHER, checkpoint, handles=handles), now))
        assert isinstance(effect, WriteManifest)
        return effect.manifest

    def complete(self, checkpoint: int, now: float) -> Manifest:
        """Trigger, acknowledge, write; without sinks nothing is owed."""
        self.take(self.core.tick(now))
        manifest = self.all_ack(checkpoint, now)
        assert NotifyComplete(checkpoint) in self.take(self.core.written(checkpoint, SEAL, now))
        return manifest


def ack(
    key: tuple[int, int], checkpoint: int, *, attempt: int = 0, epoch: int = 1,
    handles: bool = False, taken: int = 0,
) -> SnapshotAck:  # fmt: skip
    """What a task keeps: a source a position, others a file, sinks handles."""
    files = () if checkpoint == FINAL else (FileRecord("state", 5, 1),)
    made = (SinkHandle(checkpoint, b"h%d.%d" % (key[1], checkpoint)),) if handles else ()
    node, task = ("scan", 0) if key == SOURCE else ("sink", key[1])
    snapshot = TaskSnapshot(
        node, task, attempt, range(task, task + 1),
        files if key != SOURCE else (), (("s", b"9"),) if key == SOURCE else (),
        made if key != SOURCE else (),
    )  # fmt: skip
    return SnapshotAck(checkpoint, *key, attempt, epoch, (snapshot,), taken)


def started_job() -> Job:
    """All tasks are at work, no checkpoint was made."""
    made = Job()
    assert made.take(made.core.restore(0.0)) == [Restore(None)]
    assert made.start() == []
    return made

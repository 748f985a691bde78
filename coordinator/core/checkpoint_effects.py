"""What the checkpoints of a job want done.

One job: the effects that `Checkpoints` returns. They are to be carried out in order: nobody is told
of anything, and no file is removed, before the rows that come first are written down. Those that
take a while answer by the method that is named.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.checkpoint.manifest import Manifest, Seal
from fabric.coordinator.core.effects import Note
from fabric.coordinator.core.lineage import Key
from fabric.coordinator.metadata.store import Write
from fabric.errors import FabricError


@dataclass(frozen=True, slots=True)
class CommitPointer:
    """Apply `writes` to the metadata store."""

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class TriggerSources:
    """Have the `tasks`, which read sources, send barrier `checkpoint`; again is fine."""

    checkpoint: int
    tasks: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class WriteManifest:
    """Commit to storage; answer: `written` or `not_written`."""

    manifest: Manifest


@dataclass(frozen=True, slots=True)
class NotifyComplete:
    """Tell all tasks of the run; again is fine."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class NotifyAborted:
    """Tell all tasks of the run; again is fine."""

    checkpoint: int
    reason: str


@dataclass(frozen=True, slots=True)
class Publish:
    """Make what the sink `node` prepared visible; again is fine. `published`, `not_published`."""

    checkpoint: int
    node: str
    handles: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Have nobody see any more what the sink `node` published after `checkpoint`, which is whole.

    Newer ones are damaged, so its rows will come again. `kept`, what that checkpoint published, may
    be among the `handles`: a task names what it does not know to be complete. Again is fine.
    `taken_back`, `not_taken_back`.
    """

    checkpoint: int
    node: str
    handles: tuple[bytes, ...]
    kept: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Abandon:
    """Remove what the sink `node` prepared and nobody will publish; no answer.

    What is `kept` may be among the `handles`: it is complete, which a task did not know.
    """

    node: str
    handles: tuple[bytes, ...]
    kept: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveCheckpoints:
    """Remove the checkpoints below `below` from storage but those to `keep`; no answer."""

    keep: tuple[int, ...]
    below: int


@dataclass(frozen=True, slots=True)
class RemoveJob:
    """Remove all of the job from storage; no answer."""


@dataclass(frozen=True, slots=True)
class Verify:
    """Load a manifest and read all its files; answer: `verified` or `not_verified`."""

    checkpoint: int
    seal: Seal


@dataclass(frozen=True, slots=True)
class Restore:
    """Start all tasks, from `manifest`; None: from the beginning."""

    manifest: Manifest | None


@dataclass(frozen=True, slots=True)
class Fail:
    """The job can't go on."""

    error: FabricError


@dataclass(frozen=True, slots=True)
class Ended:
    """All tasks have ended, and all that they prepared is published."""

    checkpoint: int


CheckpointEffect = (
    CommitPointer | TriggerSources | WriteManifest | NotifyComplete | NotifyAborted | Publish
    | TakeBack | Abandon | RemoveCheckpoints | RemoveJob | Verify | Restore | Fail | Ended | Note
)  # fmt: skip
"""Whatever `Checkpoints` returns."""

CheckpointEffects = list[CheckpointEffect]

"""What the core wants done.

`Effect` is what `CoordinatorCore.handle` returns, `CheckpointEffect` what the checkpoints of one
job return to the core. Both are to be carried out in order: nobody is told of anything, and no file
is removed, before the records that come first are written down. Only `Hear` may overtake. Effects
that take a while are answered by the event or the method that is named.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.checkpoint.manifest import Manifest, Seal
from fabric.control import control_pb2 as pb
from fabric.coordinator.metadata.store import Write
from fabric.coordinator.planner.stages import Key
from fabric.errors import FabricError


@dataclass(frozen=True, slots=True)
class Send:
    """Give `message` to the agent on the link of `session`."""

    agent_id: str
    session: int
    message: pb.CoordinatorMessage


@dataclass(frozen=True, slots=True)
class Hear:
    """Tell the agent that its heartbeat came: at once, before whatever waits to be written."""

    agent_id: str
    session: int
    message: pb.CoordinatorMessage


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Close the link of `session`; the agent may attach again."""

    agent_id: str
    session: int
    reason: str


@dataclass(frozen=True, slots=True)
class Persist:
    """Apply `writes` to the metadata store."""

    writes: tuple[Write, ...]


@dataclass(frozen=True, slots=True)
class JobChanged:
    """The status of a job is another one now; `by_itself`: it has finished, not been stopped."""

    job_id: str
    state: pb.JobState
    by_itself: bool = False


@dataclass(frozen=True, slots=True)
class DatasetAnswered:
    """The answer to `DatasetAsked`."""

    reply: pb.DatasetReply


@dataclass(frozen=True, slots=True)
class Note:
    """Worth a line in the log."""

    event: str
    fields: tuple[tuple[str, str | int], ...] = ()


@dataclass(frozen=True, slots=True)
class StorageWork:
    """Do this with a job's checkpoints in `folder`, one after the other, and say how it went.

    They are those of the job `state`: itself, or the first one of a stream with a name. `epoch` is
    that of the coordinator that wants it.
    """

    job_id: str
    folder: str
    state: str
    work: Work
    epoch: int


@dataclass(frozen=True, slots=True)
class Rescale:
    """Cut the plan of a stream anew, into so many tasks, and say so with `JobReplanned`."""

    job_id: str
    parallelism: int


Effect = (
    Send | Hear | Disconnect | Persist | JobChanged | DatasetAnswered | Note | StorageWork | Rescale
)
"""Whatever `handle` returns."""


@dataclass(frozen=True, slots=True)
class TriggerSources:
    """Ask `tasks`, which read sources, to start barrier `checkpoint`; repeating is harmless.

    With `unaligned` they are any tasks, which take their snapshots without waiting for barriers.
    """

    checkpoint: int
    tasks: tuple[Key, ...]
    unaligned: bool = False


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSavepoint:
    """Keep a checkpoint, which is complete and published, as savepoint `name`; answer: `exported`.

    With `again` one of this name and this job is the answer. The fields with a default are what it
    says of the job; who carries it out fills them in.
    """

    name: str
    checkpoint: int
    seal: Seal
    again: bool = False
    stream: str = ""
    job_name: str = ""
    plan: str = ""
    created_us: int = 0


@dataclass(frozen=True, slots=True)
class DrainSources:
    """Have the `tasks`, which read sources, come to their end; again is fine."""

    tasks: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Stopped:
    """The job is to end here: somebody stopped it at `checkpoint`, from which it can go on."""

    checkpoint: int


@dataclass(frozen=True, slots=True)
class Verify:
    """Load a manifest and read all its files; answer: `verified` or `not_verified`.

    From then on no coordinator that led before can make a checkpoint of the job be there.
    """

    checkpoint: int
    seal: Seal


Work = WriteManifest | Verify | ExportSavepoint | RemoveCheckpoints | RemoveJob
"""What is done in storage, in order."""


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
    Persist | TriggerSources | WriteManifest | NotifyComplete | NotifyAborted | Publish
    | TakeBack | Abandon | RemoveCheckpoints | RemoveJob | Verify | Restore | Fail | Ended | Note
    | ExportSavepoint | DrainSources | Stopped
)  # fmt: skip
"""Whatever `Checkpoints` returns."""

CheckpointEffects = list[CheckpointEffect]

"""What a coordinator wants done.

One job: the effects that `CoordinatorCore.handle` returns. They are to be carried out in order:
nobody is told of anything that is not written down. Only `Hear` may overtake.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fabric.control import control_pb2 as pb
from fabric.coordinator.metadata.store import Write

if TYPE_CHECKING:
    from fabric.coordinator.core.checkpoint_effects import (
        RemoveCheckpoints,
        RemoveJob,
        Verify,
        WriteManifest,
    )


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
    """The status of a job is another one now."""

    job_id: str
    state: pb.JobState


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
    """Do this with a job's checkpoints in `folder`, one after the other, and say how it went."""

    job_id: str
    folder: str
    work: WriteManifest | Verify | RemoveCheckpoints | RemoveJob


Effect = Send | Hear | Disconnect | Persist | JobChanged | DatasetAnswered | Note | StorageWork
"""Whatever `handle` returns."""

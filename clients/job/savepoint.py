"""A savepoint, as the handle of a job and a session show it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fabric.control import control_pb2 as pb
from fabric.control.api import ControlApi


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointInfo:
    """A checkpoint that is kept under `name` until it is deleted.

    `stream` is the name of its stream, "" when that has none; `states` is how many steps have kept
    something, `taken` when it was asked for. `error` says why a damaged one can't be used.

    >>> SavepointInfo(name="monday", checkpoint=41, bytes=31_900, states=2)
    SavepointInfo('monday', checkpoint 41, 2 states, 31,900 bytes)
    """

    name: str
    checkpoint: int
    bytes: int = 0
    states: int = 0
    files: int = 0
    stream: str = ""
    job_id: str = ""
    job_name: str = ""
    release: str = ""
    folder: str = ""
    error: str = ""
    taken: datetime | None = None

    @classmethod
    def of(cls, told: pb.SavepointStatus) -> SavepointInfo:
        """What a coordinator says of one."""
        return cls(
            name=told.name, checkpoint=told.checkpoint, bytes=told.bytes, states=told.states,
            files=told.files, stream=told.stream, job_id=told.job_id, job_name=told.job_name,
            release=told.release, folder=told.location, error=told.error,
            taken=datetime.fromtimestamp(told.created_s) if told.created_s else None,
        )  # fmt: skip

    def __repr__(self) -> str:
        if self.error:
            return f"SavepointInfo({self.name!r}, damaged: {self.error})"
        states = f"{self.states or 'no'} state{'' if self.states == 1 else 's'}"
        stream = f" of stream {self.stream!r}" if self.stream else ""
        return (
            f"SavepointInfo({self.name!r}, checkpoint {self.checkpoint}{stream}, {states}, "
            f"{self.bytes:,} bytes)"
        )


def kept(control: ControlApi, checkpoint: pb.Checkpointing) -> list[SavepointInfo]:
    """The savepoints in the folder that a session's checkpoints lie in, oldest first."""
    found = control.list_savepoints(pb.SavepointsRequest(checkpoint=checkpoint))
    return [SavepointInfo.of(one) for one in found.savepoints]

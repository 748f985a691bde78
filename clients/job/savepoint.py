"""Savepoints and named streams, as jobs and sessions show them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fabric.control import control_pb2 as pb


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointInfo:
    """A checkpoint that is kept under `name` until it is deleted.

    `stream` is the name of its stream, "" when that has none; `states` is how many steps have kept
    something, `rows` how many rows they keep by key (None: an engine that doesn't count them is
    among them), `taken` when it was asked for. `error` says why a damaged one can't be used.

    >>> SavepointInfo(name="monday", checkpoint=41, bytes=31_900, states=2, rows=1200)
    SavepointInfo('monday', checkpoint 41, 2 states, 1,200 rows, 31,900 bytes)
    """

    name: str
    checkpoint: int
    bytes: int = 0
    states: int = 0
    rows: int | None = None
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
            rows=told.rows if told.HasField("rows") else None, files=told.files,
            stream=told.stream, job_id=told.job_id, job_name=told.job_name, release=told.release,
            folder=told.location, error=told.error,
            taken=datetime.fromtimestamp(told.created_s) if told.created_s else None,
        )  # fmt: skip

    def __repr__(self) -> str:
        if self.error:
            return f"SavepointInfo({self.name!r}, damaged: {self.error})"
        stream = f" of stream {self.stream!r}" if self.stream else ""
        return (
            f"SavepointInfo({self.name!r}, checkpoint {self.checkpoint}{stream}, "
            f"{_states(self.states, self.rows)}, {self.bytes:,} bytes)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamInfo:
    """A stream that has a name, as its checkpoint folder knows it.

    `checkpoint` is the newest one, which a program of that name goes on from; 0: there is none.
    `job_id` is the first job of the stream, whose state it is; `starts` counts programs that
    started it. `runs_in` is the process that runs it, "" when none does; `ended` says that its
    sources came to their end, so that it can't go on. `error` says what can't be read. `rows` are
    those of `SavepointInfo`.

    >>> StreamInfo(name="clicks", checkpoint=41, bytes=31_900, states=2)
    StreamInfo('clicks', stopped at checkpoint 41, 2 states, 31,900 bytes)
    """

    name: str
    checkpoint: int = 0
    bytes: int = 0
    states: int = 0
    rows: int | None = None
    starts: int = 0
    job_id: str = ""
    runs_in: str = ""
    ended: bool = False
    error: str = ""
    taken: datetime | None = None

    @classmethod
    def of(cls, told: pb.StreamRecord) -> StreamInfo:
        """What a coordinator says of one."""
        return cls(
            name=told.name, checkpoint=told.checkpoint, bytes=told.bytes, states=told.states,
            rows=told.rows if told.HasField("rows") else None, starts=told.starts,
            job_id=told.job_id, runs_in=told.runs_in, ended=told.ended, error=told.error,
            taken=datetime.fromtimestamp(told.created_s) if told.created_s else None,
        )  # fmt: skip

    @property
    def state(self) -> str:
        """ "running", "stopped", "ended" or "damaged"."""
        if self.error:
            return "damaged"
        if self.runs_in:
            return "running"
        return "ended" if self.ended else "stopped"

    def __repr__(self) -> str:
        if self.error:
            return f"StreamInfo({self.name!r}, damaged: {self.error})"
        if not self.checkpoint:
            return f"StreamInfo({self.name!r}, {self.state}, no checkpoint)"
        return (
            f"StreamInfo({self.name!r}, {self.state} at checkpoint {self.checkpoint}, "
            f"{_states(self.states, self.rows)}, {self.bytes:,} bytes)"
        )


def _states(n: int, n_rows: int | None) -> str:
    states = f"{n or 'no'} state{'' if n == 1 else 's'}"
    if not n or n_rows is None:
        return states
    return f"{states}, {n_rows:,} row{'' if n_rows == 1 else 's'}"

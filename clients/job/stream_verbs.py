"""What a user does with a job that is a stream, beside waiting for it.

One job: `StreamVerbs`, the part of `Job` about checkpoints: look at them, take one and keep it, and
stop there.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self, cast

from fabric.checkpoint.savepoint import check_savepoint_name
from fabric.clients.job.dry_run import may_change
from fabric.clients.job.savepoint import SavepointInfo
from fabric.clients.job.stream_name import Parallelism
from fabric.clients.job.waiting import rescaled, taken
from fabric.control import control_pb2 as pb
from fabric.errors import ConfigError
from fabric.ids import new_id

if TYPE_CHECKING:
    from fabric.clients.job.host import JobHost
    from fabric.clients.session.kept_state import KeptState, StateFacts, StateHost


class StateWord(str):
    """How a job is, as a word; called, the state that one of its steps keeps by key.

    >>> import fabric, tempfile
    >>> from fabric import streams
    >>> with fabric.connect() as session:
    ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
    ...     rows = streams.generator(rows_per_s=100, session=session).deduplicate("key")
    ...     job = rows.named("seen").write_stream(streams.to_blackhole())
    ...     _ = job.savepoint("doc")
    ...     found = job.state, job.state("seen").keys
    ...     _ = job.cancel()
    >>> found
    ('running', ['key'])
    """

    _job: str
    _session: JobHost

    def __new__(cls, word: str, session: JobHost, job: str) -> Self:
        """Of the job with the id `job`."""
        made = super().__new__(cls, word)
        made._session, made._job = session, job
        return made

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        """Copied or pickled it is the word alone: a session stays where it is."""
        return str, (str(self),)

    def __call__(self, path: str = "", name: str = "") -> KeptState:
        """What the step at `path` keeps by key; `name` where it keeps several states.

        Read as of the newest complete checkpoint, whole or by key; the job is not slowed. See
        `KeptState` for its rows.

        Raises
        ------
        NotFoundError
            There is no such step or state (the error lists what there is), or no complete
            checkpoint yet.
        TypeError
            No step is named.
        """
        from fabric.clients.session.kept_state import KeptState  # for start-up time

        if not path:
            raise TypeError(
                f"job.state is {str(self)!r}, a word; called, it names a step whose state is read: "
                'job.state("counts"), job.states() lists them'
            )

        return KeptState(cast("StateHost", self._session), self._job, path, name)


class StreamVerbs(ABC):
    """Of the handle of a job in `session`."""

    session: JobHost
    _status: pb.JobStatus

    @property
    @abstractmethod
    def id(self) -> str:
        """The job's id."""

    @abstractmethod
    def wait(self, timeout_s: float | None = None, *, progress: bool | None = None) -> Self:
        """Until the job has ended."""

    def stop(
        self,
        savepoint: str | None = None,
        *,
        drain: bool = False,
        timeout_s: float | None = None,
    ) -> Self:
        """Stop a stream at a checkpoint that it takes now, and wait for its end.

        All it has read until then is published, its windows stay open, and a stream with a name
        goes on from there when its program is run again. One without a name goes on by `restart`.

        Parameters
        ----------
        savepoint
            Keep that checkpoint under this name, see `savepoint`.
        drain
            Have its sources end now instead: all windows close, all is published, and the stream
            is over. A savepoint is taken before that.
        timeout_s
            Seconds to wait; then it raises `TimeoutError`, and the job still stops.

        Raises
        ------
        ConfigError
            The job is no stream, has ended otherwise, or there is a savepoint of that name.
        FabricError
            The checkpoint failed: the stream goes on, as if nobody had stopped it.

        >>> import fabric, tempfile
        >>> from fabric import streams
        >>> with fabric.connect() as session:
        ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
        ...     rows = streams.generator(session=session)
        ...     job = rows.write_stream(streams.to_blackhole(), name="clicks")
        ...     job.stop().state, job.status.stopped_at > 0
        ('finished', True)
        """
        if savepoint is not None:
            check_savepoint_name(savepoint)
        if not may_change(f"stop of {self.id}"):
            return self
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        self._taken(savepoint or "", "drain" if drain else "stop", timeout_s)
        left_s = None if end_s is None else max(0.0, end_s - time.monotonic())
        return self.wait(left_s, progress=False)

    def savepoint(self, name: str, timeout_s: float | None = None) -> SavepointInfo:
        """Take a checkpoint of a stream now, and keep it under `name` until it is deleted.

        The stream goes on. Returns when the savepoint is there, and all it has of sinks published.

        Raises
        ------
        ConfigError
            The job is no stream or does not run, or there is a savepoint of that name.
        TimeoutError
            It was not there in `timeout_s` seconds; it may still come.
        FabricError
            The checkpoint failed, or could not be kept; the stream goes on.

        >>> import fabric, tempfile
        >>> from fabric import streams
        >>> with fabric.connect() as session:
        ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
        ...     job = streams.generator(session=session).write_stream(streams.to_blackhole())
        ...     job.savepoint("monday").name
        'monday'
        """
        check_savepoint_name(name)
        if not may_change(f"savepoint {name} of {self.id}"):
            return SavepointInfo(name=name, checkpoint=0)
        return SavepointInfo.of(self._taken(name, "go on", timeout_s).savepoint)

    def rescale(self, parallelism: Parallelism, timeout_s: float | None = None) -> Self:
        """Change the number of tasks of a running stream.

        All tasks stop, and new ones start from the newest checkpoint. Each takes the state of its
        share of the keys, and the splits of the sources are assigned again. Rows that were read
        since then are read again; sinks publish each row once. Returns when all tasks run.

        Parameters
        ----------
        parallelism
            The number of tasks of each stage, 1 to 128. ``"slots"``: as many as there are slots for
            it, also when agents come, leave, or drain.
        timeout_s
            Seconds to wait; then it raises `TimeoutError`, and the stream is still rescaled.

        Raises
        ------
        ConfigError
            The job is no stream or does not run, or there are too few slots. Nothing has changed.
        PlanError
            The plan would have other steps, or a source has lost a split. Nothing has changed.

        >>> import fabric, tempfile
        >>> from fabric import streams
        >>> with fabric.connect(parallelism=2) as session:
        ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
        ...     rows = streams.generator(session=session)
        ...     job = rows.write_stream(streams.to_blackhole(), parallelism=1)
        ...     job.rescale(2).status.parallelism
        2
        """
        if not (parallelism == "slots" or type(parallelism) is int):
            raise ConfigError(f'rescale: parallelism is a number or "slots", got {parallelism!r}')
        if type(parallelism) is int and not 0 < parallelism < 1 << 31:  # no number on the wire
            raise ConfigError(f"rescale: parallelism must be 1 to 128, got {parallelism}")
        if not may_change(f"rescale of {self.id} to {parallelism}"):
            return self
        self._status = rescaled(self.session.control, self.id, parallelism, timeout_s)
        return self

    def _taken(self, name: str, then: str, timeout_s: float | None) -> pb.TakenCheckpoint:
        request = pb.TakeCheckpointRequest(
            job_id=self.id, key=new_id("ask"), savepoint=name, then=then
        )
        return taken(self.session.control, request, timeout_s)

    def states(self) -> list[StateFacts]:
        """What its steps keep by key that can be read: path, columns and keys of each.

        Nothing while there is no complete checkpoint.

        >>> import fabric, tempfile
        >>> from fabric import streams
        >>> with fabric.connect() as session:
        ...     _ = session.checkpoints(folder=tempfile.mkdtemp())
        ...     rows = streams.generator(rows_per_s=100, session=session).deduplicate("key")
        ...     job = rows.named("seen").write_stream(streams.to_blackhole())
        ...     _ = job.savepoint("doc")
        ...     found = [(one.path[2:], one.keys) for one in job.states()]
        ...     _ = job.cancel()
        >>> found
        [(('seen', 'keys'), ('key',))]
        """
        return cast("StateHost", self.session).states(self.id)

    def checkpoints(self) -> list[pb.CheckpointStatus]:
        """Of a stream: those that are kept, those given up lately, and the one under way.

        Oldest first; ``state`` says which it is. A job that is no stream has none.

        >>> from fabric import DataFrame, streams
        >>> job = streams.generator(n_rows=9).write_stream(streams.to_blackhole()).wait()
        >>> [one.state for one in job.checkpoints()]
        ['published']
        >>> DataFrame({"a": [1, 2]}).submit().wait().checkpoints()
        []
        """
        request = pb.CheckpointsRequest(job_id=self.id)
        return list(self.session.control.list_checkpoints(request).checkpoints)

    def checkpoint(self, number: int) -> pb.CheckpointStatus:
        """One of them, with what each task has in it; `NotFoundError` when it is not known.

        >>> from fabric import streams
        >>> job = streams.generator(n_rows=9).write_stream(streams.to_blackhole()).wait()
        >>> [one] = job.checkpoints()
        >>> job.checkpoint(one.checkpoint).state
        'published'
        """
        request = pb.CheckpointsRequest(job_id=self.id, checkpoint=number)
        (found,) = self.session.control.list_checkpoints(request).checkpoints
        return found

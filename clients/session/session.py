"""A session: one connection to a coordinator, in this process or elsewhere.

One job: submit plans and hand back jobs, the same whatever is behind. The two kinds are in
`local.py` and `remote.py`; `fabric.connect` chooses.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fabric.clients.dataframe.durations import Length, latency_us
from fabric.clients.dataframe.expressions.udf import chosen
from fabric.clients.dataframe.session import closed, opened
from fabric.clients.job.dry_run import is_closed_later, may_run
from fabric.clients.job.job import Job
from fabric.clients.job.status import where_from
from fabric.clients.job.stream_name import Parallelism, StreamName
from fabric.clients.session.inventory import Inventory
from fabric.clients.session.readers import Readers
from fabric.config import AdaptiveConfig, CheckpointConfig, StateBackend
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED, ControlApi
from fabric.errors import ConfigError, NotFoundError, PlanError
from fabric.ids import new_id
from fabric.object_urls import ObjectUrl, is_object_url
from fabric.plan.nodes import Plan, Scan
from fabric.plan.stream_facts import drops_late, is_endless
from fabric.values import ByteSize, unreachable_folder

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from fabric.clients.dataframe.frame import DataFrame
    from fabric.clients.job.host import Partition
    from fabric.io.sinks.live import Feed
    from fabric.plan.targets import StreamTarget

_KEPT_MAX = 16


class Session(Readers, Inventory, ABC):
    """Where plans run. Closing it stops what it started; jobs of a remote fabric go on.

    Examples
    --------
    >>> import fabric
    >>> with fabric.connect(parallelism=2) as session:
    ...     df = fabric.DataFrame({"k": [1, 1, 2]}).group_by("k").count()
    ...     session.submit(df.sort("k")).collect().to_pydict()
    {'k': [1, 2], 'count': [2, 1]}
    """

    def __init__(
        self,
        control: ControlApi,
        *,
        parallelism: int | None = None,
        latency: Length | None = None,
    ) -> None:
        self.control = control
        self.parallelism = _at_least_one(parallelism)
        self._latency_us = latency_us(latency)
        self._closed = False
        self._kept: dict[str, Plan] = {}
        self._adaptive, self._checkpoint = pb.Adaptive(), pb.Checkpointing()
        opened(self)

    def configure(
        self,
        *,
        adaptive: bool | None = None,
        broadcast_bytes: int | None = None,
        target_bytes: int | None = None,
        tiny_bytes: int | None = None,
        skew_factor: float | None = None,
    ) -> Session:
        """How stages of jobs submitted from now on are planned anew from measured sizes.

        What is None stays as it was, at first as the coordinator has it
        (`fabric.config.AdaptiveConfig` says what each means; on Spark they are its own settings).
        `Job.explain` shows what was changed.

        >>> import fabric
        >>> with fabric.connect(parallelism=8) as session:
        ...     df = session.read_arrow({"k": list(range(99))}).group_by("k").count()
        ...     plain = session.configure(adaptive=False).submit(df).wait()
        ...     fewer = session.configure(adaptive=True).submit(df).wait()
        ...     [job.status.stages[-1].n_tasks for job in (plain, fewer)]
        [8, 1]
        """
        given: dict[str, Any] = {
            "enabled": adaptive,
            "broadcast_bytes": broadcast_bytes,
            "target_bytes": target_bytes,
            "tiny_bytes": tiny_bytes,
            "skew_factor": skew_factor,
        }
        changed = {name: value for name, value in given.items() if value is not None}
        AdaptiveConfig(**changed)  # refuses what can't be
        self._adaptive.MergeFrom(pb.Adaptive(**changed))
        return self

    def checkpoints(
        self,
        *,
        interval_s: float | None = None,
        min_pause_s: float | None = None,
        timeout_s: float | None = None,
        failures_max: int | None = None,
        retained: int | None = None,
        held_bytes_max: int | None = None,
        unaligned_after_s: float | None = None,
        seen_twice: bool | None = None,
        state: StateBackend | None = None,
        state_memory: int | str | None = None,
        folder: str | Path | None = None,
    ) -> Session:
        """How streams submitted from now on keep their state, and are checkpointed.

        What is None stays as it was, at first as the coordinator has it; see `CheckpointConfig`.
        `folder` is a path that every agent sees, at first ``~/.fabric/checkpoints``, or the URL of
        a bucket. When an embedded session is closed, those of jobs stay that failed or still ran.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     job = session.checkpoints(interval_s=0.5).submit(fabric.streams.generator(n_rows=9))
        ...     job.wait().rows
        9
        """
        given: dict[str, Any] = {
            "interval_s": interval_s,
            "min_pause_s": min_pause_s,
            "timeout_s": timeout_s,
            "failures_max": failures_max,
            "retained": retained,
            "held_bytes_max": held_bytes_max,
            "unaligned_after_s": unaligned_after_s,
            "seen_twice": seen_twice,
            "state": state,
            "state_memory": None if state_memory is None else ByteSize(state_memory),
            "folder": None if folder is None else _full_name(folder),
        }
        changed = {name: value for name, value in given.items() if value is not None}
        CheckpointConfig(**changed)  # refuses what can't be
        self._checkpoint.MergeFrom(pb.Checkpointing(**changed))
        return self

    # ---- jobs
    def submit(
        self,
        plan: Plan | DataFrame,
        name: str = "",
        *,
        parallelism: Parallelism | None = None,
        latency: Length | None = None,
        stream: StreamName | None = None,
    ) -> Job:
        """Check, plan and start; returns while it runs.

        Parameters
        ----------
        plan
            A frame, or its plan.
        name
            What `Job.name` says; several jobs may have the same.
        parallelism
            How many tasks a stage has; None: that of the session. ``"slots"``, for a stream: as
            many as there are slots for it, also when agents come, leave or drain.
        latency
            For a stream: how long its rows may be gathered (`fabric.connect`).
        stream
            The name of a stream whose state outlives the program, see `DataFrame.write_stream`.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     session.submit(fabric.DataFrame({"a": [1, 2]}), "two rows").wait().name
        'two rows'
        """
        given = chosen(plan if isinstance(plan, Plan) else plan.plan)
        may_run(given, self, stream)
        wanted_us = self._latency_us if latency is None else latency_us(latency)
        if latency is not None and not is_endless(given.root):
            raise PlanError("latency is of streams, and this plan reads none; leave it out")
        request = self._request(given, name, parallelism, stream)
        if wanted_us is not None:
            request.latency_us = wanted_us
        status = self._open_control().submit(request)
        self._keep(status.job_id, given)
        if (line := where_from(status)) is not None:
            print(line, file=sys.stderr)
        return Job(self, status, drops_late(given.root))

    def explain(
        self, plan: Plan | DataFrame, *, stream: StreamName | None = None
    ) -> pb.ExplainReply:
        """What the coordinator would do with a plan; starts nothing.

        Texts: the ``plan`` as given and ``optimised``, its ``stages``, the ``rules`` that fired;
        ``svg`` is a picture. Of a `stream` with a name also ``changes``, a line for each state that
        it would go on with, and whether one is ``refused``.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     session.explain(fabric.DataFrame({"a": [1, 2]})).optimised
        'scan_1: DataFrame(2 rows) -> a: int64'
        """
        given = chosen(plan if isinstance(plan, Plan) else plan.plan)
        return self._open_control().explain(self._request(given, "", None, stream))

    def jobs(self, last: int = 0) -> list[Job]:
        """The `last` jobs the coordinator remembers (0: all of them), oldest first.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     for name in ("one", "two", "three"):
        ...         _ = session.submit(fabric.DataFrame({"a": [1]}), name)
        ...     [job.name for job in session.jobs(last=2)]
        ['two', 'three']
        """
        found = self._open_control().list_jobs(pb.ListRequest(limit=last))
        return [Job(self, one) for one in found.jobs]

    def job(self, job_id: str) -> Job:
        """The job of that id, of whoever submitted it; `NotFoundError` where there is none.

        >>> import fabric
        >>> with fabric.connect() as session:
        ...     job = session.submit(fabric.DataFrame({"a": [1, 2]})).wait()
        ...     session.job(job.id).rows
        2
        """
        for status in self._open_control().watch(pb.JobRequest(job_id=job_id)):
            return Job(self, status)
        raise NotFoundError(f"there is no job {job_id!r} here; `fabric jobs` lists them")

    def live(self, feed: Feed) -> AbstractContextManager[StreamTarget]:
        """Where a job writes rows that `feed` is to have; refuses agents that can't reach it."""
        from fabric.clients.job.live import receiver

        return receiver().opened(feed)

    def leaving(self) -> None:
        """The program is about to end."""

    # ---- what each kind of session does its own way
    @abstractmethod
    def view_rows(
        self, address: str, name: str, partition: int, keys: pa.Table, *, live: bool
    ) -> pa.Table:
        """The rows of keys of one partition of a view, asked of the agent at `address`."""

    @abstractmethod
    def result_batches(self, status: pb.JobStatus) -> Iterator[pa.RecordBatch]:
        """The rows of a finished job."""

    @abstractmethod
    def partitions(self, status: pb.JobStatus, node_path: str, lossless: bool) -> list[Partition]:
        """What Flight says about the partitions of `node_path`."""

    @property
    @abstractmethod
    def flight_url(self) -> str:
        """An agent's Flight address, for any client; `NotFoundError` when none is served.

        >>> import fabric
        >>> with fabric.connect(serve=True) as session:
        ...     _ = session.read_arrow({"a": [1, 2]}).write_dataset("small")
        ...     url, token = session.flight_url, session.token
        ...     fabric.read_flight(url, "dataset", "small", token=token).count()
        2
        """

    @property
    @abstractmethod
    def token(self) -> str:
        """The token to send as ``authorization: Bearer``; see `flight_url`."""

    @property
    def tls_roots(self) -> bytes | None:
        """PEM of who must have signed the agents' certificates; None: whom the system trusts."""
        return None

    @property
    def insecure(self) -> bool:
        """Whether the token may go in the clear to other machines."""
        return False

    def cached(self, plan: Plan) -> Scan:
        """Run `plan` and keep its rows where they are read fast: a scan of them."""
        from fabric.clients.dataframe.memory import memory_scan

        with self.submit(plan, name="cache") as job:
            return memory_scan(job.wait().collect())

    @abstractmethod
    def _prepared(self, plan: Plan) -> Plan:
        """`plan` as the coordinator can run it."""

    @abstractmethod
    def _stop(self) -> None:
        """Let go of what this session holds."""

    # ---- life
    @property
    def is_open(self) -> bool:
        """Whether it can be asked; once closed it stays so. See `close`."""
        return not self._closed

    def close(self) -> None:
        """Stop what this session started; may be called again. A ``with`` block ends with it.

        >>> import fabric
        >>> session = fabric.connect()
        >>> session.close()
        >>> session.is_open
        False
        >>> session.jobs()
        Traceback (most recent call last):
          ...
        fabric.errors.NotFoundError: this session is closed; fabric.connect(...) opens another
        """
        if self._closed or is_closed_later(self.close):
            return
        self._closed = True
        closed(self)
        self._stop()

    def _open_control(self) -> ControlApi:
        if self._closed:
            raise NotFoundError("this session is closed; fabric.connect(...) opens another")
        return self.control

    def job_ended(self, job_id: str) -> None:
        """Forget what was kept for a job while it ran."""
        self._kept.pop(job_id, None)

    def running_plans(self) -> list[Plan]:
        """The plans submitted here whose jobs have not ended; the others are forgotten."""
        if self._kept:
            asked = pb.ListRequest(states=[pb.JOB_QUEUED, pb.JOB_RUNNING])
            jobs = self.control.list_jobs(asked).jobs
            running = {job.job_id for job in jobs if job.state not in ENDED}
            self._kept = {job: plan for job, plan in self._kept.items() if job in running}
        return list(self._kept.values())

    def _keep(self, job_id: str, plan: Plan) -> None:
        """Hold on to a plan, and so to its tables of this process, while its job runs."""
        self._kept[job_id] = plan
        if len(self._kept) > _KEPT_MAX:
            self.running_plans()

    def _request(
        self, plan: Plan, name: str, parallelism: Parallelism | None, stream: StreamName | None
    ) -> pb.SubmitRequest:
        from fabric.plan.codec import encode

        number = self.parallelism if parallelism is None else parallelism
        wanted = None if isinstance(number, str) else _at_least_one(number)
        return pb.SubmitRequest(
            plan=encode(self._prepared(plan)),
            name=name,
            client_key=new_id("submit"),
            parallelism=wanted or 0,
            reactive=isinstance(parallelism, str),
            adaptive=self._adaptive,
            checkpoint=self._checkpoint,
            stream=None if stream is None else stream.message(),
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _at_least_one(parallelism: int | None) -> int | None:
    if parallelism is not None and parallelism < 1:
        raise PlanError(f"parallelism must be at least 1, got {parallelism}")
    return parallelism


def _full_name(folder: str | Path) -> str:
    """Where that is for others; `ConfigError` when it names nothing."""
    if not isinstance(folder, str | Path) or not str(folder).strip():
        raise ConfigError(f"checkpoints: folder is the path of a folder, got {folder!r}")
    if is_object_url(folder):
        return str(ObjectUrl.of(folder))
    if refused := unreachable_folder(folder, "checkpoints", stores=True):
        raise ConfigError(refused)
    return str(Path(folder).expanduser().absolute())

"""The handle of a job: look at it, wait for it, read it, stop it.

One job: what a user does with a running plan. A handle holds no rows; dropping it stops nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from fabric.clients.job.dry_run import may_change
from fabric.clients.job.status import JobProgress, Status, headline, html, say_dropped
from fabric.clients.job.stream_verbs import StateWord, StreamVerbs
from fabric.clients.job.waiting import statuses
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED, STATES
from fabric.control.errors import from_detail
from fabric.errors import CancelledError, ConfigError, FabricError, InternalError

if TYPE_CHECKING:
    from fabric.clients.job.host import JobHost, Partition


class Job(StreamVerbs):
    """A submitted plan.

    As a context manager it releases the job at the end, and cancels it first when it still runs.

    Examples
    --------
    >>> from fabric import DataFrame
    >>> with DataFrame({"a": [1, 2]}).submit("small") as job:
    ...     job.collect().num_rows
    2
    """

    def __init__(
        self, session: JobHost, status: pb.JobStatus, drops_late: Collection[tuple[str, str]] = ()
    ) -> None:
        """`drops_late`: paths of steps, and tags, of late rows that nobody reads."""
        self.session = session
        self._status = status
        self._drops_late = drops_late

    # ---- facts
    @property
    def id(self) -> str:
        """The job's id: the second element of its Flight descriptors.

        >>> from fabric import DataFrame
        >>> job = DataFrame({"a": [1, 2]}).submit().wait()
        >>> job.session.job(job.id).rows
        2
        """
        return self._status.job_id

    @property
    def name(self) -> str:
        """The name it was submitted under; ``job`` where none was given.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2]}).submit("two rows").name, DataFrame({"a": [1]}).submit().name
        ('two rows', 'job')
        """
        return self._status.name

    @property
    def result_path(self) -> str:
        """The node path whose partitions are the result; of a job that writes, that of its sink.

        >>> from fabric import DataFrame, col
        >>> DataFrame({"a": [1, 2]}).filter(col("a") > 1).submit().result_path
        'filter_1'
        """
        return self._status.result_path

    @property
    def rows(self) -> int:
        """Rows of the result, or rows written, as this handle heard last; 0 until it has finished.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2]}).submit().wait().rows
        2
        """
        return self._status.result_rows

    @property
    def last(self) -> pb.JobStatus:
        """What this handle heard last; asks nobody. `status` asks the coordinator.

        >>> from fabric import DataFrame
        >>> job = DataFrame({"a": [1, 2]}).submit().wait()
        >>> job.last.result_rows, [stage.node_path for stage in job.last.stages]
        (2, ['scan_1'])
        """
        return self._status

    @property
    def status(self) -> Status:
        """What the coordinator says now: stages, rows, seconds, error; it prints as text.

        Of a job that has ended it is what this handle heard last.

        >>> from fabric import DataFrame
        >>> status = DataFrame({"a": [1, 2]}).submit().wait().status
        >>> status.result_rows, status.stages[0].finished
        (2, 1)
        """
        return Status(self._now())

    def _now(self) -> pb.JobStatus:
        if self._status.state not in ENDED:
            updates = self.session.control.watch(pb.JobRequest(job_id=self.id))
            self._status = next(iter(updates), self._status)
        return self._status

    @property
    def state(self) -> StateWord:
        """``queued``, ``running``, ``finished``, ``failed``, ``cancelled`` or ``released``.

        Called, it is what a step keeps by key: ``job.state("counts").get(7)``, see `KeptState`.

        >>> from fabric import DataFrame
        >>> with DataFrame({"a": [1, 2]}).submit() as job:
        ...     job.wait().state
        'finished'
        >>> job.state
        'released'
        """
        return StateWord(STATES.get(self._now().state, "unknown"), self.session, self.id)

    @property
    def error(self) -> FabricError | None:
        """Why it failed, or None.

        >>> from fabric import DataFrame, col
        >>> job = DataFrame({"a": ["x"]}).select(col("a").cast("int64")).submit()
        >>> try:
        ...     _ = job.wait()
        ... except Exception:
        ...     print(type(job.error).__name__)
        ExpressionError
        """
        status = self._now()
        return from_detail(status.error) if status.HasField("error") else None

    # ---- what can be done
    def wait(self, timeout_s: float | None = None, *, progress: bool | None = None) -> Self:
        """Until the job has ended; raises its error when it failed or was cancelled.

        Ctrl-C cancels the job, then raises `KeyboardInterrupt`. Work of more than half a second
        shows its progress on a terminal (`progress` True or False decides otherwise). After
        `timeout_s` it raises `TimeoutError`; the job goes on.

        >>> from fabric import DataFrame
        >>> job = DataFrame({"a": [1, 2]}).submit()
        >>> job.wait(timeout_s=60).rows
        2
        """
        if self._status.state in ENDED:
            return self._checked()
        display = JobProgress(enabled=progress)
        try:
            for status in statuses(self.session.control, self.id, timeout_s):
                self._status = status
                display.show(status)
            self.session.job_ended(self.id)
        except KeyboardInterrupt:
            self.cancel()
            raise
        finally:
            display.close()
        return self._checked()

    def cancel(self) -> Job:
        """Stop it and wait for its end; an ended one stays as it is.

        Nothing it wrote stays, but of a stream what was published: the rows of its checkpoints.

        >>> from fabric import streams
        >>> job = streams.generator().write_stream(streams.to_blackhole())
        >>> job.cancel().state
        'cancelled'
        """
        return self._stopped(self.session.control.cancel)

    def release(self) -> Job:
        """Drop its partitions on every agent; a job that runs is cancelled first.

        Its rows, tasks and plan can't be read any more, nor can it run again: a `NotFoundError`.

        >>> from fabric import DataFrame
        >>> job = DataFrame({"a": [1, 2]}).submit().wait()
        >>> job.release().state
        'released'
        >>> job.collect()
        Traceback (most recent call last):
          ...
        fabric.errors.NotFoundError: ...
        """
        return self._stopped(self.session.control.release)

    def restart(self, from_: str = "") -> Job:
        """Run it again once it has ended: from node `from_` on, or what is not there any more.

        Whatever is materialised before that is read again, not computed. Returns at once.

        Raises
        ------
        ConfigError
            It still runs.
        NotFoundError
            It has no node `from_`, or it was released.

        >>> from fabric import DataFrame, col
        >>> df = DataFrame({"a": [1, 2]}).filter(col("a") > 1)
        >>> job = df.submit().wait()
        >>> job.restart(from_="filter_1").wait().rows
        1
        """
        if not may_change(f"restart of {self.id}"):
            return self
        request = pb.RestartRequest(job_id=self.id, from_path=from_)
        self._status = self.session.control.restart(request)
        return self

    def collect(self) -> pa.Table:
        """Wait, then all rows as one Arrow table; raises as `wait` does.

        A job that writes has one row: how many ``rows`` it wrote.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2]}).submit().collect().to_pydict()
        {'a': [1, 2]}
        """
        return pa.Table.from_batches(self._rows(), self._schema())

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """Wait, then the rows batch by batch; raises as `wait` does.

        >>> from fabric import DataFrame
        >>> with DataFrame({"a": [1, 2]}).submit() as job:
        ...     sum(batch.num_rows for batch in job.iter_batches())
        2
        """
        yield from self._rows()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Wait, then the rows as an Arrow stream: ``pa.table(job)``, ``pl.DataFrame(job)``."""
        self.wait()
        reader = pa.RecordBatchReader.from_batches(self._schema(), self.iter_batches())
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream

    def partitions(self, node_path: str = "", *, lossless: bool = False) -> list[Partition]:
        """The partitions of `node_path` (default: the result), as any Flight client sees them.

        Those of a pipelined exchange are taps, for as long as the job runs: they give rows from the
        next batch on. A slow reader skips rows (``app_metadata`` counts them); with `lossless` the
        job waits for it instead, at most as long as an agent waits for a silent client.

        Raises
        ------
        NotFoundError
            There are none at `node_path`, or an embedded session was opened without `serve`.

        >>> import fabric
        >>> with fabric.connect(serve=True) as session:
        ...     job = session.submit(fabric.DataFrame({"a": [1, 2]})).wait()
        ...     [(one.number, one.path[2:]) for one in job.partitions()]
        [(0, ('scan_1', '0'))]
        """
        return self.session.partitions(self._now(), node_path or self.result_path, lossless)

    def tasks(self) -> list[pb.TaskStatus]:
        """Every attempt of its tasks, by stage, task and attempt.

        >>> from fabric import DataFrame
        >>> len(DataFrame({"a": [1, 2]}).submit().wait().tasks())
        1
        """
        return list(self.session.control.list_tasks(pb.JobRequest(job_id=self.id)).tasks)

    def events(self, last: int = 1000) -> list[pb.EventRecord]:
        """The `last` things that happened to it, oldest first.

        >>> from fabric import DataFrame
        >>> [event.kind for event in DataFrame({"a": [1, 2]}).submit().wait().events()]
        ['job submitted', 'job finished']
        """
        request = pb.EventsRequest(job_id=self.id, last=last)
        return list(self.session.control.list_events(request).events)

    def logs(self) -> list[dict[str, Any]]:
        """What agents logged about it lately, oldest first: its tasks, prints of functions.

        Each line is a dict whose ``event`` says what happened, with ``level`` and ``timestamp`` as
        texts. In an embedded session the coordinator's lines are there, too.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2]}).submit("two rows").wait().logs()[0]["event"]
        'job submitted'
        """
        return self.session.logs(self.id)

    def plan(self) -> pb.ExplainReply:
        """Its plan and stages as they run, also after they were planned anew.

        Texts: ``optimised`` is the plan, ``stages`` how it runs, ``svg`` a picture of it.

        >>> from fabric import DataFrame
        >>> DataFrame({"a": [1, 2]}).submit().wait().plan().optimised
        'scan_1: DataFrame(2 rows) -> a: int64'
        """
        return self.session.control.job_plan(pb.JobRequest(job_id=self.id))

    def explain(self) -> str:
        """The stages as they run: tasks, rows, bytes, and the worst task's waiting for room.

        Below a stage: what was changed of it when the sizes of its input had been measured.

        >>> from fabric import DataFrame
        >>> print(DataFrame({"a": [1, 2]}).submit().wait().explain().splitlines()[1])
          stage 0 scan_1: 1 of 1 tasks, 2 rows, 16 bytes
        """
        return str(self.status)

    def _rows(self) -> Iterator[pa.RecordBatch]:
        self.wait()
        if self._status.stopped_at:
            raise ConfigError(
                f"the stream was stopped at checkpoint {self._status.stopped_at}, and the rows of "
                "a result are there when it has ended: run it again to go on; stop(drain=True) "
                "ends a stream with its rows",
                job=self.id,
            )
        return self.session.result_batches(self._status)

    def _schema(self) -> pa.Schema:
        return pa.ipc.read_schema(pa.py_buffer(self._status.result_schema))

    def _stopped(self, ask: Callable[[pb.JobRequest], pb.JobStatus]) -> Job:
        if not may_change(f"{ask.__name__} of {self.id}"):
            return self
        request = pb.JobRequest(job_id=self.id)
        self._status = ask(request)
        if self._status.state not in ENDED:
            for status in self.session.control.watch(request):  # until its tasks have ended
                self._status = status
        self.session.job_ended(self.id)
        return self

    def _checked(self) -> Self:
        """Itself when finished, else the error it ended with."""
        status = self._status
        if status.state in (pb.JOB_FINISHED, pb.JOB_RELEASED):
            dropped, self._drops_late = self._drops_late, ()
            say_dropped(status, dropped)  # once
            return self
        if status.HasField("error"):
            raise from_detail(status.error).at(job=self.id)
        if status.state == pb.JOB_CANCELLED:
            raise CancelledError("the job was cancelled", job=self.id)
        raise InternalError("the coordinator stopped telling about the job", job=self.id)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if self.session.is_open:  # an iterator may outlive the session that its rows came from
            self.release()

    def __repr__(self) -> str:
        return f"Job({headline(self.last)})"  # debuggers and tracebacks must not wait for anyone

    def __str__(self) -> str:
        """What the coordinator says now, in a line; what it said last when it can't be asked."""
        try:
            return f"Job({headline(self._now())})"
        except FabricError as error:
            return f"Job({headline(self.last)}; heard last, now: {error.message})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """A notebook shows it as `print` does."""
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return html(self._now())

    result = collect
    to_arrow = collect

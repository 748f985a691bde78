"""A coordinator's calls, answered by Spark.

One job: `SparkControl`: jobs as sessions know them (submit, watch, cancel, release), each run by
Spark in a thread of its own. Rows of a finished job lie in this process until it is released.
Datasets are those of the fabric beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import SparkSession

from fabric.clients.spark.plan.errors import as_ours
from fabric.clients.spark.plan.explain import explained, refuse
from fabric.clients.spark.plan.run import execute, prepared
from fabric.clients.spark.plan.sinks import wrote
from fabric.clients.spark.plan.sources import FindHome
from fabric.clock import Clock, SystemClock
from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED, ControlApi
from fabric.control.errors import to_detail
from fabric.errors import CancelledError, FabricError, InternalError, NotFoundError, UserError
from fabric.ids import new_id
from fabric.plan.check import check
from fabric.plan.codec import decode
from fabric.plan.nodes import Plan
from fabric.plan.printer import tree
from fabric.plan.schema import schema_of
from fabric.plan.svg import svg

_WATCH_S = 1.0


@dataclass(slots=True)
class _SparkJob:
    """One run: what is told of it, its plan while it runs, its rows afterwards."""

    status: pb.JobStatus
    plan: Plan
    client_key: str
    parallelism: int
    adaptive: pb.Adaptive
    rows: pa.Table | None = None
    cancelled: bool = False
    changed: threading.Condition = field(default_factory=threading.Condition)


class SparkControl(ControlApi):
    """Jobs of one Spark session; `datasets` gives the control of the fabric beside it."""

    def __init__(
        self,
        spark: SparkSession,
        home: FindHome,
        datasets: Callable[[], ControlApi],
        clock: Clock | None = None,
    ) -> None:
        self._spark, self._home, self._datasets = spark, home, datasets
        self._clock = clock or SystemClock()
        self._jobs: dict[str, _SparkJob] = {}
        self._lock = threading.Lock()

    # ---- jobs
    def submit(self, request: pb.SubmitRequest) -> pb.JobStatus:
        """See `ControlApi`."""
        with self._lock:
            for known in self._jobs.values():
                if request.client_key and known.client_key == request.client_key:
                    return self._told(known)
        plan = check(decode(request.plan))
        refuse(plan.root, self._spark)
        if request.HasField("stream"):
            raise UserError("a stream with a name runs on Fabric; leave name= out on Spark")
        if request.reactive:
            raise UserError('parallelism="slots" is for streams, and they run on Fabric')
        job_id = new_id("job")
        status = pb.JobStatus(
            job_id=job_id,
            name=request.name,
            state=pb.JOB_RUNNING,
            submitted_s=self._clock.wall_s(),
            result_path=plan.root.path,
            result_schema=schema_of(plan.root).serialize().to_pybytes(),
        )
        job = _SparkJob(status, plan, request.client_key, request.parallelism, request.adaptive)
        with self._lock:
            self._jobs[job_id] = job
        threading.Thread(target=self._run, args=(job,), daemon=True, name=f"spark {job_id}").start()
        return self._told(job)

    def explain(self, request: pb.SubmitRequest) -> pb.ExplainReply:
        """The plan, what is refused, and Spark's plan."""
        plan = check(decode(request.plan))
        with (
            as_ours(plan.root),
            prepared(self._spark, adaptive=request.adaptive) as inside,
        ):
            found = explained(plan, inside, self._home)
        left = "" if found.left == "nothing" else f"left to Spark: {found.left}\n"
        return pb.ExplainReply(
            plan=tree(plan.root),
            optimised=found.optimised,
            stages=left + found.physical,
            svg=svg(plan.root),
        )

    def watch(self, request: pb.JobRequest) -> Iterator[pb.JobStatus]:
        """See `ControlApi`."""
        job = self._job(request.job_id)
        while True:
            with job.changed:
                status = self._told(job)
            yield status
            if status.state in ENDED:
                return
            with job.changed:
                if job.status.state not in ENDED:
                    job.changed.wait(_WATCH_S)

    def cancel(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `ControlApi`."""
        job = self._job(request.job_id)
        with job.changed:
            runs = job.status.state not in ENDED
            job.cancelled = job.cancelled or runs
        if runs:
            self._spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(request.job_id)
        return self._told(job)

    def release(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `ControlApi`; the rows are let go of."""
        job = self._job(request.job_id)
        self.cancel(request)
        with job.changed:
            job.changed.wait_for(lambda: job.status.state in ENDED)
            job.rows = None
            if job.status.state == pb.JOB_FINISHED:
                job.status.state = pb.JOB_RELEASED
            return self._told(job)

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        """See `ControlApi`."""
        with self._lock:
            jobs = list(self._jobs.values())
        return pb.JobList(jobs=[self._told(job) for job in jobs])

    def rows(self, job_id: str) -> pa.Table:
        """The rows of a finished job; `NotFoundError` after its release."""
        rows = self._job(job_id).rows
        if rows is None:
            raise NotFoundError(f"the rows of {job_id} are not held any more; submit it again")
        return rows

    def close(self) -> None:
        """Cancel what runs and wait for its end."""
        with self._lock:
            jobs = list(self._jobs)
        for job_id in jobs:
            self.release(pb.JobRequest(job_id=job_id))

    # ---- what a fabric has and Spark has not
    def restart(self, request: pb.RestartRequest) -> pb.JobStatus:
        """Nothing of a job is materialised here that another run could begin with."""
        self._job(request.job_id)
        raise UserError("a job on Spark can't be restarted; submit its plan again")

    def rescale(self, request: pb.RescaleRequest) -> pb.JobStatus:
        """No stream runs on Spark."""
        self._job(request.job_id)
        raise UserError("a job on Spark is no stream, so it can't be rescaled")

    def list_tasks(self, request: pb.JobRequest) -> pb.TaskList:
        """None: Spark's own pages tell of its tasks."""
        self._job(request.job_id)
        return pb.TaskList()

    def list_checkpoints(self, request: pb.CheckpointsRequest) -> pb.CheckpointList:
        """None: no stream runs on Spark."""
        self._job(request.job_id)
        return pb.CheckpointList()

    def take_checkpoint(self, request: pb.TakeCheckpointRequest) -> pb.TakenCheckpoint:
        """No stream runs on Spark."""
        self._job(request.job_id)
        raise UserError("a job on Spark takes no checkpoints; cancel() ends it")

    def list_savepoints(self, request: pb.SavepointsRequest) -> pb.SavepointList:
        """None: no stream runs on Spark."""
        return pb.SavepointList()

    def delete_savepoint(self, request: pb.SavepointsRequest) -> pb.SavepointList:
        """There is none to delete."""
        raise NotFoundError("no stream runs on Spark, so there are no savepoints")

    def list_streams(self, request: pb.StreamsRequest) -> pb.StreamList:
        """None: no stream runs on Spark."""
        return pb.StreamList()

    def drop_stream(self, request: pb.StreamsRequest) -> pb.StreamList:
        """There is none to drop."""
        raise NotFoundError("no stream runs on Spark, so none has a name")

    def job_plan(self, request: pb.JobRequest) -> pb.ExplainReply:
        """The plan as it was given."""
        root = self._job(request.job_id).plan.root
        return pb.ExplainReply(plan=tree(root), svg=svg(root))

    def list_events(self, request: pb.EventsRequest) -> pb.EventList:
        """None: Spark writes its own."""
        return pb.EventList()

    def drain(self, request: pb.AgentRequest) -> pb.AgentStatus:
        """There is no agent to drain."""
        raise NotFoundError("Spark's executors are no agents; nothing can be drained here")

    undrain = drain

    def list_agents(self, request: pb.ListRequest) -> pb.AgentList:
        """None: Spark's executors are no agents."""
        return pb.AgentList()

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """Only datasets lie somewhere."""
        if request.job_id:
            raise NotFoundError(
                "a job on Spark has no partitions that Flight clients could read; "
                "write_dataset puts its rows on agents"
            )
        return self._datasets().locate(request)

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        """Asked of the fabric beside."""
        return self._datasets().dataset(request)

    # ---- inside
    def _run(self, job: _SparkJob) -> None:
        """One job from its start to its end, in a thread of its own."""
        root, status = job.plan.root, job.status
        begin_s = self._clock.monotonic_s()
        rows, error = None, None
        try:
            rows = execute(
                root, self._spark, self._home, job=status.job_id, parallelism=job.parallelism,
                adaptive=job.adaptive,
            )  # fmt: skip
        except FabricError as failed:
            error = CancelledError("the job was cancelled") if job.cancelled else failed
        except BaseException as bug:  # told to whoever waits; the thread has nobody else
            error = InternalError(f"unexpected {type(bug).__name__}")
        with job.changed:
            status.seconds = self._clock.monotonic_s() - begin_s
            if rows is not None:
                job.rows, status.state = rows, pb.JOB_FINISHED
                status.result_rows = wrote(root, rows)
            else:
                cancelled = isinstance(error, CancelledError)
                status.state = pb.JOB_CANCELLED if cancelled else pb.JOB_FAILED
                assert error is not None
                status.error.CopyFrom(to_detail(error))
            job.changed.notify_all()

    def _job(self, job_id: str) -> _SparkJob:
        with self._lock:
            if job_id not in self._jobs:
                raise NotFoundError(f"there is no job {job_id!r} in this Spark session")
            return self._jobs[job_id]

    def _told(self, job: _SparkJob) -> pb.JobStatus:
        """A copy that later changes leave alone."""
        with job.changed:
            told = pb.JobStatus()
            told.CopyFrom(job.status)
        if told.state not in ENDED:
            told.seconds = self._clock.wall_s() - told.submitted_s
            told.stages.extend(self._stages(told.job_id))
        return told

    def _stages(self, job_id: str) -> Iterator[pb.StageStatus]:
        """What Spark says of the stages it has begun for a job."""
        tracker = self._spark.sparkContext.statusTracker()
        infos = map(tracker.getJobInfo, sorted(tracker.getJobIdsForGroup(job_id)))
        for number in sorted({stage for info in infos if info for stage in info.stageIds}):
            if (stage := tracker.getStageInfo(number)) is not None:
                yield pb.StageStatus(
                    stage=number,
                    node_path=f"Spark's stage {number}",
                    n_tasks=stage.numTasks,
                    running=stage.numActiveTasks,
                    finished=stage.numCompletedTasks,
                )

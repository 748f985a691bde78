"""What an agent decides: a state machine without I/O, threads or clocks.

One job: from what the coordinator says and what tasks report to what is to be done next. It admits
tasks by slots (tasks on a pipelined edge start at once: their region must run together), refuses
duplicates, older attempts and older epochs (and counts them), and stops what the coordinator gives
up when the link breaks. The runtime obeys the returned effects, in order.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from fabric.control import control_pb2 as pb
from fabric.ids import TaskId

RELEASED_MAX = 1000
"""Released jobs remembered, so that a late order for one of them is refused."""

# ---- events


@dataclass(frozen=True, slots=True)
class Said:
    """The coordinator said something."""

    message: pb.CoordinatorMessage


@dataclass(frozen=True, slots=True)
class Ended:
    """A task's thread ended with this report."""

    report: pb.TaskReport


@dataclass(frozen=True, slots=True)
class SinkDone:
    """A sink command was carried out, or failed."""

    report: pb.SinkReport


@dataclass(frozen=True, slots=True)
class LinkLost:
    """The link to the coordinator broke."""


Event = Said | Ended | SinkDone | LinkLost

# ---- effects


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task attempt to run; `deploy` is shared by the tasks of a stage."""

    id: TaskId
    epoch: int
    deploy: pb.Deploy
    assignment: pb.TaskAssignment

    @property
    def key(self) -> pb.TaskKey:
        """As reports name it."""
        return pb.TaskKey(
            job_id=self.id.job,
            stage=self.id.stage,
            task=self.id.task,
            attempt=self.id.attempt,
            epoch=self.epoch,
        )

    @property
    def pipelined(self) -> bool:
        """Whether it runs together with other tasks, joined by a pipelined edge."""
        modes = {e.mode for e in self.deploy.inputs} | {e.mode for e in self.deploy.outputs}
        return pb.MODE_PIPELINED in modes


@dataclass(frozen=True, slots=True)
class Start:
    """Run a task in a thread of its own."""

    spec: TaskSpec


@dataclass(frozen=True, slots=True)
class Cancel:
    """Make a running task stop; it will report its end."""

    id: TaskId
    reason: str


@dataclass(frozen=True, slots=True)
class Send:
    """Tell the coordinator."""

    message: pb.AgentMessage


@dataclass(frozen=True, slots=True)
class DropJob:
    """Drop all partitions, queues and anything else of a job."""

    job: str


@dataclass(frozen=True, slots=True)
class RunSink:
    """Publish or abandon, then say `SinkDone`."""

    command: pb.SinkCommand


@dataclass(frozen=True, slots=True)
class AbandonSinks:
    """Drop prepared output that will never be published; nobody waits for it."""

    job: str
    handles: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Relocate:
    """Apply locations to the agent's table."""

    locations: pb.Locations


Effect = Start | Cancel | Send | DropJob | RunSink | AbandonSinks | Relocate

# ---- state

Phase = Literal["waiting", "running", "ended"]


@dataclass(slots=True)
class _Task:
    spec: TaskSpec
    phase: Phase = "waiting"
    report: pb.TaskReport | None = None
    """Its end, once known."""


@dataclass(slots=True)
class _Job:
    epoch: int = 0
    tasks: dict[tuple[int, int], _Task] = field(default_factory=dict)
    """The newest attempt by (stage, task)."""
    retired: dict[TaskId, _Task] = field(default_factory=dict)
    """Older attempts whose threads still run."""
    cancelled: str | None = None
    published: set[int] = field(default_factory=set)
    """Stages whose sinks were told to publish: nothing of them is abandoned any more."""
    released: bool = False


class AgentCore:
    """One agent's jobs and tasks; call `handle` from one thread only."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._jobs: OrderedDict[str, _Job] = OrderedDict()
        self._released: OrderedDict[str, None] = OrderedDict()
        self.refused: Counter[str] = Counter()
        """How often what was refused: duplicates, older attempts and epochs, ended jobs."""

    @property
    def running(self) -> int:
        """Tasks that have a thread."""
        return sum(task.phase == "running" for task in self._tasks())

    def handle(self, event: Event) -> list[Effect]:
        """Take one event; returns what is to be done, in order."""
        match event:
            case Said(message=message):
                effects = list(self._said(message))
            case Ended(report=report):
                effects = list(self._ended(report))
            case SinkDone(report=report):
                effects = [Send(pb.AgentMessage(sink=report))]
            case LinkLost():
                effects = list(self._give_up())
        return effects + list(self._admit())

    def _said(self, message: pb.CoordinatorMessage) -> Iterator[Effect]:
        match message.WhichOneof("kind"):
            case "welcome":
                yield from self._give_up()
            case "deploy":
                yield from self._deploy(message.deploy)
            case "cancel":
                yield from self._cancel(message.cancel.job_id, message.cancel.reason)
            case "release":
                yield from self._release(message.release.job_id)
            case "sink":
                yield from self._sink(message.sink)
            case "locations":
                yield Relocate(message.locations)
            case _:
                self.refused["unknown message"] += 1

    def _give_up(self) -> Iterator[Effect]:
        """A coordinator that lost us has failed every job we had unfinished tasks of."""
        for job_id, job in self._jobs.items():
            if any(task.phase != "ended" for task in job.tasks.values()):
                yield from self._cancel(job_id, "the link to the coordinator was lost")

    def _deploy(self, deploy: pb.Deploy) -> Iterator[Effect]:
        if deploy.job_id in self._released:
            self.refused["released"] += 1
            return
        job = self._jobs.setdefault(deploy.job_id, _Job(epoch=deploy.epoch))
        if deploy.epoch < job.epoch:
            self.refused["older epoch"] += 1
            return
        if deploy.epoch > job.epoch:
            job.epoch, job.cancelled = deploy.epoch, None
        if job.cancelled is not None:
            self.refused["cancelled"] += 1
            return
        for assignment in deploy.tasks:
            yield from self._assign(job, deploy, assignment)

    def _assign(
        self, job: _Job, deploy: pb.Deploy, assignment: pb.TaskAssignment
    ) -> Iterator[Effect]:
        task_id = TaskId(deploy.job_id, deploy.stage, assignment.task, assignment.attempt)
        known = job.tasks.get((deploy.stage, assignment.task))
        if known is not None:
            age = (known.spec.epoch, known.spec.id.attempt)
            if (deploy.epoch, assignment.attempt) == age:
                self.refused["duplicate"] += 1
                if known.report is not None:  # perhaps its report was lost
                    yield _reported(known.report)
                return
            if assignment.attempt <= known.spec.id.attempt:
                self.refused["older attempt"] += 1
                return
            yield from self._retire(job, known)
        spec = TaskSpec(task_id, deploy.epoch, deploy, assignment)
        job.tasks[deploy.stage, assignment.task] = _Task(spec)

    def _retire(self, job: _Job, task: _Task) -> Iterator[Effect]:
        """A newer attempt takes over."""
        if task.phase == "running":
            job.retired[task.spec.id] = task
            yield Cancel(task.spec.id, "a newer attempt of the task was started")

    def _cancel(self, job_id: str, reason: str) -> Iterator[Effect]:
        job = self._jobs.get(job_id)
        if job is None or job.cancelled is not None:
            return
        job.cancelled = reason or "the job was cancelled"
        for task in [*job.tasks.values(), *job.retired.values()]:
            if task.phase == "running":
                yield Cancel(task.spec.id, job.cancelled)
            elif task.phase == "waiting":
                task.phase = "ended"
                task.report = pb.TaskReport(key=task.spec.key, state=pb.TASK_CANCELLED)
                yield _reported(task.report)
        if handles := self._unpublished(job):
            yield AbandonSinks(job_id, handles)

    def _unpublished(self, job: _Job) -> tuple[bytes, ...]:
        reports = [task.report for task in job.tasks.values() if task.report is not None]
        return tuple(
            report.sink_handle
            for report in reports
            if report.sink_handle and report.key.stage not in job.published
        )

    def _release(self, job_id: str) -> Iterator[Effect]:
        self._released[job_id] = None
        self._released.move_to_end(job_id)
        while len(self._released) > RELEASED_MAX:
            self._released.popitem(last=False)
        if (job := self._jobs.get(job_id)) is None:
            yield DropJob(job_id)
            return
        yield from self._cancel(job_id, "the job was released")
        job.released = True
        yield from self._drop_when_quiet(job_id, job)

    def _drop_when_quiet(self, job_id: str, job: _Job) -> Iterator[Effect]:
        busy = any(t.phase == "running" for t in (*job.tasks.values(), *job.retired.values()))
        if job.released and not busy:
            del self._jobs[job_id]
            yield DropJob(job_id)

    def _sink(self, command: pb.SinkCommand) -> Iterator[Effect]:
        job = self._jobs.get(command.job_id)
        if command.publish:
            if job is not None and job.cancelled is not None:
                self.refused["cancelled"] += 1
                return
            if job is not None:
                job.published.add(command.stage)
        yield RunSink(command)

    def _ended(self, report: pb.TaskReport) -> Iterator[Effect]:
        key = report.key
        task_id = TaskId(key.job_id, key.stage, key.task, key.attempt)
        job = self._jobs.get(key.job_id)
        if job is None:
            self.refused["unknown task"] += 1
            return
        if retired := job.retired.pop(task_id, None):
            retired.phase = "ended"
            if report.sink_handle:
                yield AbandonSinks(key.job_id, (report.sink_handle,))
        else:
            task = job.tasks[key.stage, key.task]
            task.phase, task.report = "ended", report
            yield _reported(report)
            if job.cancelled is not None and report.sink_handle:  # it ended before it heard
                yield AbandonSinks(key.job_id, (report.sink_handle,))
        yield from self._drop_when_quiet(key.job_id, job)

    def _admit(self) -> Iterator[Effect]:
        """Start what may start, in the order of arrival."""
        free = self._slots - sum(
            task.phase == "running" and not task.spec.pipelined for task in self._tasks()
        )
        for task in list(self._tasks()):
            if task.phase != "waiting" or (free <= 0 and not task.spec.pipelined):
                continue
            free -= not task.spec.pipelined
            task.phase = "running"
            yield _running(task.spec)
            yield Start(task.spec)

    def _tasks(self) -> Iterator[_Task]:
        for job in self._jobs.values():
            yield from job.tasks.values()
            yield from job.retired.values()


def _reported(report: pb.TaskReport) -> Send:
    return Send(pb.AgentMessage(task=report))


def _running(spec: TaskSpec) -> Send:
    return Send(pb.AgentMessage(task=pb.TaskReport(key=spec.key, state=pb.TASK_RUNNING)))

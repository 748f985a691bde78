"""What an agent decides: a state machine without I/O, threads or clocks.

One job: from what the coordinator says and what tasks report to what is to be done next. It admits
tasks by slots (tasks on a pipelined edge start at once: their region must run together), refuses
duplicates, older attempts and older epochs (and counts them). A broken link changes nothing: tasks
go on, and when the agent attaches again it says what it runs and holds. Only when its lease is over
does it stop them, because somebody else may have been given them.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

from fabric.agent.attempts import JobAttempts, TaskAttempt, TaskSpec
from fabric.agent.events import (
    AbandonSinks,
    Cancel,
    CopyReplica,
    DropJob,
    DropOutput,
    DropPipes,
    Effect,
    Event,
    Fetch,
    Fetched,
    Incoming,
    KeepPartitions,
    LeaseOver,
    OrderTask,
    Outgoing,
    Relocate,
    RunSink,
    Send,
    Start,
    TaskEnd,
)
from fabric.control import control_pb2 as pb
from fabric.ids import TaskId

RELEASED_MAX = 1000
"""Released jobs remembered, so that a late order for one of them is refused."""


class AgentCore:
    """One agent's jobs and tasks; call `handle` from one thread only."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._jobs: OrderedDict[str, JobAttempts] = OrderedDict()
        self._released: OrderedDict[str, None] = OrderedDict()
        self.epoch = 0
        """The highest of any coordinator that was obeyed."""
        self._told_running: set[TaskId] = set()
        self._fenced = False
        """Whether the lease is over: nothing starts until the coordinator is heard again."""
        self._fetching: dict[TaskId, list[int]] = {}
        """Output on its way here, and the numbers under which it was asked for."""
        self.refused: Counter[str] = Counter()
        """How often what was refused: duplicates, older attempts and epochs, ended jobs."""

    @property
    def running(self) -> int:
        """Tasks that have a thread."""
        return sum(task.phase == "running" for task in self._tasks())

    def inventory(self) -> list[pb.TaskReport]:
        """What runs, and how what ran has ended, of jobs that were not released."""
        tasks = [task for job in self._jobs.values() for task in job.tasks.values()]
        self._told_running = {task.id for task in tasks if task.report is None}
        return [t.report or pb.TaskReport(key=t.key, state=pb.TASK_RUNNING) for t in tasks]

    def handle(self, event: Event) -> list[Effect]:
        """Take one event; returns what is to be done, in order."""
        match event:
            case Incoming(message=message):
                effects = list(self._said(message))
            case TaskEnd(report=report):
                effects = list(self._ended(report))
            case Fetched():
                effects = list(self._fetched(event))
            case Outgoing(message=message):
                effects = [Send(message)]
            case LeaseOver(reason=reason):
                self._fenced = True
                effects = [e for job in self._jobs.values() for e in self._stop_all(job, reason)]
        return effects + list(self._admit())

    def _said(self, message: pb.CoordinatorMessage) -> Iterator[Effect]:
        if message.epoch < self.epoch:
            self.refused["older epoch"] += 1
            return
        self.epoch = message.epoch
        match message.WhichOneof("kind"):
            case "welcome":
                self._fenced = False
                yield from self._ended_meanwhile()
            case "heard":
                self._fenced = False
            case "deploy":
                yield from self._deploy(message.deploy)
            case "cancel":
                yield from self._cancel_some(message.cancel)
            case "release":
                yield from self._release(message.release.job_id)
            case "sink":
                yield from self._sink(message.sink)
            case "adopt":
                yield from self._adopt(message.adopt)
            case "replicate":
                yield CopyReplica(message.replicate)
            case "keep":
                yield KeepPartitions(message.keep)
            case "locations":
                yield Relocate(message.locations)
            case _:
                yield from self._said_of_streams(message)

    def _said_of_streams(self, message: pb.CoordinatorMessage) -> Iterator[Effect]:
        match message.WhichOneof("kind"):
            case "trigger":
                yield from self._trigger(message.trigger)
            case "ended":
                yield from self._checkpoint_ended(message.ended)
            case "others":
                yield from self._align_watermarks(message.others)
            case _:
                self.refused["unknown message"] += 1

    def _ended_meanwhile(self) -> Iterator[Effect]:
        """What ended after stock was taken for the hello, and before there was a link to say so."""
        for task in self._tasks():
            if task.report is not None and task.id in self._told_running:
                yield _reported(task.report)
        self._told_running.clear()

    def _deploy(self, deploy: pb.Deploy) -> Iterator[Effect]:
        if deploy.job_id in self._released:
            self.refused["released"] += 1
            return
        job = self._jobs.setdefault(deploy.job_id, JobAttempts(run=deploy.run))
        if deploy.run < job.run:
            self.refused["older run"] += 1
            return
        if deploy.run > job.run:  # somebody restarted it
            job.run, job.cancelled = deploy.run, None
            job.published.discard(deploy.stage)
            if not job.pipes_in_use:  # rows of tasks that finished before others were cancelled
                yield DropPipes(deploy.job_id)
        if job.cancelled is not None:
            self.refused["cancelled"] += 1
            return
        for assignment in deploy.tasks:
            yield from self._assign(job, deploy, assignment)

    def _assign(
        self, job: JobAttempts, deploy: pb.Deploy, assignment: pb.TaskAssignment
    ) -> Iterator[Effect]:
        task_id = TaskId(deploy.job_id, deploy.stage, assignment.task, assignment.attempt)
        known = job.tasks.get((deploy.stage, assignment.task))
        if known is not None:
            if assignment.attempt == known.id.attempt:
                self.refused["duplicate"] += 1
                if known.report is not None:  # perhaps its report was lost
                    yield _reported(known.report)
                return
            if assignment.attempt < known.id.attempt:
                self.refused["older attempt"] += 1
                return
            yield from self._retire(job, known)
        spec = TaskSpec(task_id, deploy.epoch, deploy, assignment)
        edges = tuple(edge.edge for edge in deploy.outputs)
        job.tasks[deploy.stage, assignment.task] = TaskAttempt(
            task_id, deploy.epoch, edges, spec.pipelined, spec
        )

    def _retire(self, job: JobAttempts, task: TaskAttempt) -> Iterator[Effect]:
        """A newer attempt takes over."""
        if task.phase == "running":
            job.retired[task.id] = task
            yield Cancel(task.id, "a newer attempt of the task was started")
        else:
            yield from self._forget(job, task)

    def _forget(self, job: JobAttempts, task: TaskAttempt) -> Iterator[Effect]:
        """Nobody will ask for what an attempt has left."""
        yield DropOutput(task.id, task.edges)
        handle = task.report.sink_handle if task.report is not None else b""
        if handle and task.id.stage not in job.published:
            yield AbandonSinks(task.id.job, (handle,), attempts=True)

    def _cancel_some(self, cancel: pb.CancelTasks) -> Iterator[Effect]:
        job = self._jobs.get(cancel.job_id)
        if job is None:
            return
        if cancel.keys:
            for key in cancel.keys:
                yield from self._cancel_attempt(job, key, cancel)
        elif cancel.run < job.run:
            self.refused["older run"] += 1
        else:
            yield from self._cancel(cancel.job_id, cancel.reason)

    def _cancel_attempt(
        self, job: JobAttempts, key: pb.TaskKey, cancel: pb.CancelTasks
    ) -> Iterator[Effect]:
        """Stop one attempt; one that has ended is forgotten, with its output."""
        task = job.tasks.get((key.stage, key.task))
        if task is None or task.id.attempt != key.attempt:
            self.refused["older attempt"] += 1
            return
        if task.phase != "ended":
            yield from self._stop_task(task, cancel.reason)
            return
        del job.tasks[key.stage, key.task]
        if cancel.moved:  # the attempt is the one that counts: its sink is still to be published
            yield DropOutput(task.id, task.edges)
        else:
            yield from self._forget(job, task)
        if task.pipelined and not job.pipes_in_use:
            yield DropPipes(key.job_id)

    def _cancel(self, job_id: str, reason: str) -> Iterator[Effect]:
        job = self._jobs.get(job_id)
        if job is None or job.cancelled is not None:
            return
        job.cancelled = reason or "the job was cancelled"
        yield from self._stop_all(job, job.cancelled)
        if handles := self._unpublished(job):
            yield AbandonSinks(job_id, handles)

    def _stop_all(self, job: JobAttempts, reason: str) -> Iterator[Effect]:
        for task in [*job.tasks.values(), *job.retired.values()]:
            if task.phase != "ended":
                yield from self._stop_task(task, reason)

    def _stop_task(self, task: TaskAttempt, reason: str) -> Iterator[Effect]:
        if task.phase == "running":
            yield Cancel(task.id, reason)
            return
        task.phase = "ended"
        task.report = pb.TaskReport(key=task.key, state=pb.TASK_CANCELLED)
        yield _reported(task.report)

    def _unpublished(self, job: JobAttempts) -> tuple[bytes, ...]:
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

    def _drop_when_quiet(self, job_id: str, job: JobAttempts) -> Iterator[Effect]:
        busy = any(t.phase == "running" for t in (*job.tasks.values(), *job.retired.values()))
        if job.released and not busy:
            del self._jobs[job_id]
            yield DropJob(job_id)

    def _sink(self, command: pb.SinkCommand) -> Iterator[Effect]:
        job = self._jobs.get(command.job_id)
        if (
            command.HasField("publish") and not command.publish.checkpoint
        ):  # a complete checkpoint's output goes out
            if job is not None and job.cancelled is not None:
                self.refused["cancelled"] += 1
                return
            if job is not None:
                job.published.add(command.stage)
        yield RunSink(command)

    def _trigger(self, trigger: pb.TriggerCheckpoint) -> Iterator[Effect]:
        job = self._jobs.get(trigger.job_id)
        for key in trigger.keys:
            task = job.tasks.get((key.stage, key.task)) if job is not None else None
            if task is None or task.id.attempt != key.attempt or task.phase != "running":
                self.refused["checkpoint"] += 1
            else:
                yield OrderTask(task.id, trigger)

    def _align_watermarks(self, others: pb.SlowestSplit) -> Iterator[Effect]:
        key = others.key
        job = self._jobs.get(key.job_id)
        task = job.tasks.get((key.stage, key.task)) if job is not None else None
        if task is None or task.id.attempt != key.attempt or task.phase != "running":
            self.refused["slowest split"] += 1
        else:
            yield OrderTask(task.id, others)

    def _checkpoint_ended(self, ended: pb.CheckpointEnded) -> Iterator[Effect]:
        job = self._jobs.get(ended.job_id)
        for task in list(job.tasks.values()) if job is not None else ():
            same = task.spec is not None and task.spec.deploy.stream.turn == ended.turn
            if same and task.phase == "running":
                yield OrderTask(task.id, ended)

    def _adopt(self, adopt: pb.Adopt) -> Iterator[Effect]:
        known = self._jobs.get(adopt.job_id)
        task = known.tasks.get((adopt.stage, adopt.task)) if known is not None else None
        if adopt.job_id in self._released or (task and task.id.attempt > adopt.attempt):
            self.refused["adopted"] += 1
        elif task is not None and task.id.attempt == adopt.attempt:  # perhaps our answer was lost
            yield Send(pb.AgentMessage(adopted=pb.Adopted(number=adopt.number)))
        else:
            task_id = TaskId(adopt.job_id, adopt.stage, adopt.task, adopt.attempt)
            if task_id not in self._fetching:
                yield Fetch(adopt)  # once: two at a time would write over each other
            self._fetching.setdefault(task_id, []).append(adopt.number)

    def _fetched(self, event: Fetched) -> Iterator[Effect]:
        adopt = event.adopt
        task_id = TaskId(adopt.job_id, adopt.stage, adopt.task, adopt.attempt)
        numbers = self._fetching.pop(task_id, [adopt.number])
        edges = tuple(edge.edge for edge in adopt.outputs)
        if event.error is None:
            job = self._jobs.setdefault(adopt.job_id, JobAttempts())
            known = job.tasks.get((adopt.stage, adopt.task))
            if adopt.job_id in self._released or (known and known.id.attempt >= adopt.attempt):
                yield DropOutput(task_id, edges)
                return
            task = TaskAttempt(task_id, self.epoch, edges, phase="ended")
            task.report = pb.TaskReport(key=task.key, state=pb.TASK_FINISHED, outputs=event.outputs)
            job.tasks[adopt.stage, adopt.task] = task
        for number in numbers:
            yield Send(pb.AgentMessage(adopted=pb.Adopted(number=number, error=event.error)))

    def _ended(self, report: pb.TaskReport) -> Iterator[Effect]:
        key = report.key
        task_id = TaskId(key.job_id, key.stage, key.task, key.attempt)
        job = self._jobs.get(key.job_id)
        if job is None:
            self.refused["unknown task"] += 1
            return
        if retired := job.retired.pop(task_id, None):
            retired.phase = "ended"
            yield DropOutput(task_id, retired.edges)
            if report.sink_handle:
                yield AbandonSinks(key.job_id, (report.sink_handle,), attempts=True)
            if retired.pipelined and not job.pipes_in_use:
                yield DropPipes(key.job_id)
        else:
            task = job.tasks[key.stage, key.task]
            task.phase, task.report = "ended", report
            if task.pipelined and report.state != pb.TASK_FINISHED and not job.pipes_in_use:
                yield DropPipes(key.job_id)
            yield _reported(report)
            if job.cancelled is not None and report.sink_handle:  # it ended before it heard
                yield AbandonSinks(key.job_id, (report.sink_handle,))
        yield from self._drop_when_quiet(key.job_id, job)

    def _admit(self) -> Iterator[Effect]:
        """Start what may start, in the order of arrival."""
        if self._fenced:
            return
        free = self._slots - sum(
            task.phase == "running" and not task.pipelined for task in self._tasks()
        )
        for task in list(self._tasks()):
            if task.phase != "waiting" or (free <= 0 and not task.pipelined):
                continue
            assert task.spec is not None
            free -= not task.pipelined
            task.phase = "running"
            yield _running(task.spec)
            yield Start(task.spec)

    def _tasks(self) -> Iterator[TaskAttempt]:
        for job in self._jobs.values():
            yield from job.tasks.values()
            yield from job.retired.values()


def _reported(report: pb.TaskReport) -> Send:
    return Send(pb.AgentMessage(task=report))


def _running(spec: TaskSpec) -> Send:
    return Send(pb.AgentMessage(task=pb.TaskReport(key=spec.key, state=pb.TASK_RUNNING)))

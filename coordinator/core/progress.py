"""The jobs of a coordinator: started, followed, ended, forgotten.

One job: everything that moves a job from one state to another. Reports that do not fit are refused
by name (`refuse` counts them), because networks repeat and delay. The first failed task, or the
loss of an agent that has tasks of it, cancels a job everywhere. It ends as failed when its tasks
have ended and what its sinks wrote is removed, or after `stop_s`; other jobs go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from fabric.control import control_pb2 as pb
from fabric.control.errors import from_detail
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.core import records
from fabric.coordinator.core.agents import Agent, Agents
from fabric.coordinator.core.announcer import Announcer
from fabric.coordinator.core.effects import Effect, JobChanged, Note, Persist
from fabric.coordinator.core.events import JobSubmitted
from fabric.coordinator.core.jobs import Job, Stopping, Task
from fabric.coordinator.core.messages import deploys, edge_location, job_status
from fabric.coordinator.core.replan import replan
from fabric.coordinator.metadata.store import Write
from fabric.coordinator.planner.placement import place
from fabric.errors import (
    CancelledError,
    ExternalError,
    FabricError,
    InternalError,
    NotFoundError,
    PeerLostError,
)
from fabric.ids import TaskId

_REPORTED = frozenset((pb.TASK_RUNNING, pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED))


class Progress:
    """All jobs, live and past; `refuse` is told why a report was not taken."""

    def __init__(
        self,
        config: CoordinatorConfig,
        epoch: int,
        agents: Agents,
        announcer: Announcer,
        refuse: Callable[[str], list[Effect]],
    ) -> None:
        self._config, self._epoch, self._agents = config, epoch, agents
        self._announcer, self._refuse = announcer, refuse
        self._jobs: dict[str, Job] = {}
        self._history: dict[str, pb.JobStatus] = {}
        self._keys: dict[str, str] = {}
        self._n_placed = 0

    def status(self, job_id: str, now: float) -> pb.JobStatus:
        """A job's status; `NotFoundError` when it is unknown."""
        if (job := self._jobs.get(job_id)) is not None:
            return job_status(job, now)
        if (past := self._history.get(job_id)) is not None:
            return past
        raise NotFoundError(f"there is no job {job_id[:128]!r}; `fabric jobs` lists them")

    def job_of_key(self, client_key: str) -> str | None:
        """The job that was submitted under a client's key."""
        return self._keys.get(client_key) if client_key else None

    def jobs(self, now: float) -> list[pb.JobStatus]:
        """Every job, oldest first."""
        live = [job_status(job, now) for job in self._jobs.values()]
        return [*self._history.values(), *live]

    def submit(self, event: JobSubmitted, now: float) -> list[Effect]:
        """Place and start a job; nothing happens when its client key is known."""
        if self.job_of_key(event.client_key) is not None:
            return []
        if event.job_id in self._jobs or event.job_id in self._history:
            raise InternalError(f"job id {event.job_id} was given twice")
        job = Job(
            job_id=event.job_id,
            name=event.name,
            client_key=event.client_key,
            graph=event.graph,
            fragments=event.fragments,
            schema=event.schema,
            placement=place(event.graph, self._agents.ids(), self._n_placed),
            submitted_s=event.wall_s,
            now=now,
            adaptive=event.adaptive,
        )
        self._n_placed += 1
        self._jobs[job.job_id] = job
        if event.client_key:
            self._keys[event.client_key] = job.job_id
        job.state = pb.JOB_RUNNING
        effects = [*self._changed(job, now), Note("job started", _about(job))]
        effects += self._announcer.tell(pb.Locations(edges=self._locations(job)))
        return effects + self._advance(job, now)

    def cancel(self, job_id: str, reason: str, now: float) -> list[Effect]:
        """Stop a job, unless it has ended or its output is being published."""
        job = self._jobs.get(job_id)
        if job is None:
            self.status(job_id, now)
            return []
        if not job.active or job.publishing or job.stopping is not None:
            return []
        error = CancelledError(reason or "the job was cancelled", job=job_id)
        return self._stop(job, pb.JOB_CANCELLED, error, now)

    def release(self, job_id: str, now: float) -> list[Effect]:
        """Cancel a job if it runs, and drop its partitions once it has ended."""
        effects = self.cancel(job_id, "the job was released while it ran", now)
        job = self._jobs.get(job_id)
        if job is not None and job.stopping is not None and job.active:
            job.stopping.release = True
        elif job is not None and not job.active:
            effects += self._drop(job, now)
        return effects

    def task_report(self, agent: Agent, report: pb.TaskReport, now: float) -> list[Effect]:
        """Take what an agent says about a task of its own."""
        key = report.key
        job = self._jobs.get(key.job_id)
        if job is None or not job.active or key.epoch != self._epoch:
            return self._late(agent, report, job)
        task = job.tasks.get((key.stage, key.task))
        if task is None:
            return self._refuse("unknown task")
        if (misfit := _misfit(job, task, agent, report)) is not None:
            return self._refuse(misfit)
        task.state = report.state
        if report.state == pb.TASK_RUNNING:
            return [JobChanged(job.job_id, job.state)]
        if job.stopping is not None:
            task.handle = report.sink_handle
            return self._settle(job, job.stopping, now)
        saved = Persist((records.task_record(agent.agent_id, report),))
        if report.state == pb.TASK_FINISHED:
            return [saved, *self._task_finished(job, task, report, now)]
        error = _task_error(job, report, agent.agent_id)
        return [saved, *self._stop(job, pb.JOB_FAILED, error, now)]

    def sink_report(self, agent: Agent, report: pb.SinkReport, now: float) -> list[Effect]:
        """Take what an agent says about a sink it was asked to publish."""
        job = self._jobs.get(report.job_id)
        if job is None:
            return self._refuse("unknown job")
        if not job.active:
            return self._refuse("late")
        if job.stopping is not None:
            return self._abandoned(job, job.stopping, agent, report, now)
        if job.publishing.get(report.stage) != agent.agent_id:
            return self._refuse("sink not asked")
        del job.publishing[report.stage]
        if report.HasField("error"):
            error = from_detail(report.error).at(
                job=job.job_id, node=job.graph.stages[report.stage].path, agent=agent.agent_id
            )
            return self._stop(job, pb.JOB_FAILED, error, now)
        job.published.add(report.stage)
        return self._advance(job, now)

    def edges(self, job_id: str) -> list[pb.EdgeLocation]:
        """Where the listed edges of a job are; `NotFoundError` when unknown or released."""
        if (job := self._jobs.get(job_id)) is None:
            state = pb.JobState.Name(self.status(job_id, 0.0).state)[4:].lower()
            raise NotFoundError(f"the partitions of job {job_id} are gone ({state})")
        return self._locations(job)

    def all_edges(self) -> list[pb.EdgeLocation]:
        """Where every listed edge of every live job is."""
        return [edge for job in self._jobs.values() for edge in self._locations(job)]

    def restore(self, stored: Iterable[pb.JobStatus]) -> list[Write]:
        """Take over the statuses of an earlier coordinator, oldest first."""
        self._history = {status.job_id: status for status in stored}
        return [*map(records.job_record, self._history.values()), *self._prune()]

    def agent_lost(self, agent_id: str, reason: str, now: float) -> list[Effect]:
        """Fail every job with tasks there; one that is being published is published elsewhere."""
        effects: list[Effect] = []
        for job in list(self._jobs.values()):
            involved = {*job.agents(), *job.publishing.values()}
            if not job.active or agent_id not in involved:
                continue
            job.lose(agent_id)
            if job.stopping is not None:
                effects += self._abandon_elsewhere(job, job.stopping, agent_id)
                effects += self._settle(job, job.stopping, now)
            elif job.publishing:
                effects += self._publish_elsewhere(job, agent_id, now)
            else:
                message = f"{reason}; the job had tasks there"
                error = PeerLostError(message, job=job.job_id, agent=agent_id)
                effects += self._stop(job, pb.JOB_FAILED, error, now)
        return effects

    def expire(self, now: float) -> list[Effect]:
        """Release jobs that ended long enough ago; end those that stop for too long."""
        effects: list[Effect] = []
        for job in list(self._jobs.values()):
            if job.active and job.stopping is not None:
                effects += self._settle(job, job.stopping, now)
            if job.ended is not None and now - job.ended >= self._config.retain_s:
                effects += self._drop(job, now)
        return effects

    def _late(self, agent: Agent, report: pb.TaskReport, job: Job | None) -> list[Effect]:
        """Refuse a report of a job that is over; what its sink prepared is abandoned."""
        past = self._history.get(report.key.job_id)
        state = job.state if job is not None else past.state if past is not None else None
        if report.key.epoch != self._epoch:
            effects = self._refuse("old epoch")
        else:
            effects = self._refuse("unknown job" if job is None else "late")
        if report.sink_handle and state in (pb.JOB_FAILED, pb.JOB_CANCELLED):
            command = pb.SinkCommand(
                job_id=report.key.job_id, stage=report.key.stage, handles=[report.sink_handle]
            )
            return [*effects, self._announcer.send(agent, pb.CoordinatorMessage(sink=command))]
        return effects

    def _task_finished(
        self, job: Job, task: Task, report: pb.TaskReport, now: float
    ) -> list[Effect]:
        task.handle, task.rows_out = report.sink_handle, report.rows_out
        task.backpressure_ratio = report.backpressure_ratio
        task.totals = {total.edge: (total.rows, total.bytes) for total in report.outputs}
        task.sizes = {t.edge: tuple(t.partition_bytes) for t in report.outputs if t.partition_bytes}
        edges = [
            edge_location(job, edge, self._config.retain_s)
            for edge in job.graph.outputs[report.key.stage]
        ]
        effects = self._announcer.tell(pb.Locations(edges=edges)) if edges else []
        return effects + self._advance(job, now)

    def _advance(self, job: Job, now: float) -> list[Effect]:
        """Start what may start, publish what is whole, end what is complete."""
        effects: list[Effect] = []
        hellos = {agent.agent_id: agent.hello for agent in self._agents.all()}
        for region in job.ready_regions():
            effects += self._replan(job, region, hellos)
            job.deployed.add(region)
            for stage in job.graph.regions()[region]:
                made = deploys(job, stage, self._epoch, hellos)
                for agent_id, deploy in made.items():
                    effects += self._announcer.send_to(
                        agent_id, pb.CoordinatorMessage(deploy=deploy)
                    )
        for stage_id in job.sinks_to_publish():
            agent_id = job.tasks[stage_id, 0].agent_id
            effects += self._publish(job, stage_id, agent_id)
        if job.complete():
            return effects + self._end(job, pb.JOB_FINISHED, None, now)
        return [*effects, JobChanged(job.job_id, job.state)]

    def _replan(self, job: Job, region: int, hellos: Mapping[str, pb.Hello]) -> list[Effect]:
        """Let the measured sizes of what a stage reads change its tasks, before it starts."""
        (first, *others) = job.graph.regions()[region]
        changed = [] if others else replan(job, first.stage, hellos)
        if not changed and not job.graph.stages[first.stage].adapted:
            return []
        edges = [edge_location(job, edge, self._config.retain_s) for edge in changed]
        why = "; ".join(job.graph.stages[first.stage].adapted)[:1024]
        note = Note(
            "stage planned anew", (("job", job.job_id), ("stage", first.stage), ("why", why))
        )
        return [note, *(self._announcer.tell(pb.Locations(edges=edges)) if edges else [])]

    def _publish(self, job: Job, stage: int, agent_id: str) -> list[Effect]:
        job.publishing[stage] = agent_id
        return self._sink_command(job, stage, agent_id, publish=True)

    def _publish_elsewhere(self, job: Job, gone: str, now: float) -> list[Effect]:
        """Publishing may be repeated, so another agent finishes what a lost one began."""
        effects: list[Effect] = []
        for stage, agent_id in sorted(job.publishing.items()):
            if agent_id != gone:
                continue
            others = self._agents.ids()
            if not others:
                error = PeerLostError(
                    f"agent {gone} was lost while it published the output, and no other is there; "
                    "the output may be complete, in part or not there",
                    job=job.job_id,
                    node=job.graph.stages[stage].path,
                    agent=gone,
                )
                return effects + self._end(job, pb.JOB_FAILED, error, now)
            effects += self._publish(job, stage, others[0])
        return effects

    def _abandon(self, job: Job, asked: dict[int, str]) -> list[Effect]:
        """Have the output of finished sink tasks removed; others remove theirs when cancelled.

        Who was `asked` for which stage is put there.
        """
        effects: list[Effect] = []
        attached = self._agents.ids()
        for stage in job.graph.stages:
            if not attached or not stage.is_sink or not job.handles(stage.stage):
                continue
            first = job.tasks[stage.stage, 0].agent_id
            asked[stage.stage] = agent_id = first if first in attached else attached[0]
            effects += self._sink_command(job, stage.stage, agent_id, publish=False)
        return effects

    def _abandon_elsewhere(self, job: Job, stopping: Stopping, gone: str) -> list[Effect]:
        """Removing may be repeated, so another agent does what a lost one was asked for."""
        if stopping.abandoning is None or gone not in stopping.abandoning.values():
            return []
        stopping.abandoning = {}
        return self._abandon(job, stopping.abandoning)

    def _abandoned(
        self, job: Job, stopping: Stopping, agent: Agent, report: pb.SinkReport, now: float
    ) -> list[Effect]:
        asked = stopping.abandoning or {}
        if asked.get(report.stage) != agent.agent_id:
            return self._refuse("sink not asked")
        del asked[report.stage]
        effects = self._settle(job, stopping, now)
        if report.HasField("error"):
            why = ("error", report.error.message)
            effects.append(Note("output not removed", (*_about(job), why)))
        return effects

    def _sink_command(self, job: Job, stage: int, agent_id: str, *, publish: bool) -> list[Effect]:
        command = pb.SinkCommand(
            job_id=job.job_id, stage=stage, publish=publish, handles=job.handles(stage)
        )
        return self._announcer.send_to(agent_id, pb.CoordinatorMessage(sink=command))

    def _stop(self, job: Job, state: pb.JobState, error: FabricError, now: float) -> list[Effect]:
        effects: list[Effect] = []
        cancel = pb.CancelTasks(job_id=job.job_id, reason=error.message[:1024])
        for agent_id in job.agents():
            effects += self._announcer.send_to(agent_id, pb.CoordinatorMessage(cancel=cancel))
        job.stopping = Stopping(state, error, now + self._config.stop_s)
        return effects + self._settle(job, job.stopping, now)

    def _settle(self, job: Job, stopping: Stopping, now: float) -> list[Effect]:
        """End a job that stops when nothing of it runs and nothing is left, or time is over."""
        effects: list[Effect] = []
        late = now >= stopping.deadline
        if stopping.abandoning is None:
            if job.busy() and not late:
                return effects
            stopping.abandoning = {}
            effects += self._abandon(job, stopping.abandoning)
        if stopping.abandoning and not late:
            return effects
        effects += self._end(job, stopping.state, stopping.error, now)
        return effects + self._drop(job, now) if stopping.release else effects

    def _end(
        self, job: Job, state: pb.JobState, error: FabricError | None, now: float
    ) -> list[Effect]:
        job.state, job.error, job.ended = state, error, now
        why = (("error", str(error)),) if error is not None else ()
        ended = Note(f"job {pb.JobState.Name(state)[4:].lower()}", (*_about(job), *why))
        edges = self._locations(job)
        told = self._announcer.tell(pb.Locations(edges=edges)) if edges else []
        return [*self._changed(job, now), ended, *told]

    def _locations(self, job: Job) -> list[pb.EdgeLocation]:
        return [edge_location(job, edge, self._config.retain_s) for edge in job.graph.edges]

    def _drop(self, job: Job, now: float) -> list[Effect]:
        """Forget partitions and plan; the status stays in the history."""
        status = job_status(job, now)
        if status.state != pb.JOB_FAILED:
            status.state = pb.JOB_RELEASED
        del self._jobs[job.job_id]
        self._history[job.job_id] = status
        tasks = [
            Write("tasks", records.task_key(pb.TaskKey(job_id=job.job_id, stage=s, task=t)), None)
            for s, t in job.tasks
        ]
        effects: list[Effect] = [
            Persist((records.job_record(status), *tasks, *self._prune())),
            JobChanged(job.job_id, status.state),
        ]
        release = pb.CoordinatorMessage(release=pb.ReleaseJob(job_id=job.job_id))
        effects += [self._announcer.send(agent, release) for agent in self._agents.all()]
        return effects + self._announcer.tell(pb.Locations(dropped_jobs=[job.job_id]))

    def _prune(self) -> list[Write]:
        """Keep the history to its length."""
        too_many = max(0, len(self._history) - self._config.jobs_kept_max)
        old = list(self._history)[:too_many]
        for job_id in old:
            del self._history[job_id]
        gone = frozenset(old)
        self._keys = {key: job_id for key, job_id in self._keys.items() if job_id not in gone}
        return [Write("jobs", job_id, None) for job_id in old]

    def _changed(self, job: Job, now: float) -> list[Effect]:
        saved = Persist((records.job_record(job_status(job, now)),))
        return [saved, JobChanged(job.job_id, job.state)]


def _about(job: Job) -> tuple[tuple[str, str | int], ...]:
    return (("job", job.job_id), ("name", job.name), ("tasks", len(job.tasks)))


def _misfit(job: Job, task: Task, agent: Agent, report: pb.TaskReport) -> str | None:
    """Why a report on a task of a running job is not taken, or None."""
    if task.attempt != report.key.attempt:
        return "old attempt"
    if task.agent_id != agent.agent_id:
        return "another agent's task"
    if job.graph.stages[report.key.stage].region not in job.deployed:
        return "task not deployed"
    if report.state not in _REPORTED:
        return "unknown state"
    if task.ended or task.state == report.state:
        return "duplicate"
    return None


def _task_error(job: Job, report: pb.TaskReport, agent_id: str) -> FabricError:
    key = report.key
    task = str(TaskId(job.job_id, key.stage, key.task, key.attempt))
    error: FabricError
    if report.HasField("error"):
        error = from_detail(report.error)
    else:
        error = ExternalError("the agent stopped the task without saying why")
    return error.at(
        job=job.job_id, node=job.graph.stages[key.stage].path, task=task, agent=agent_id
    )

"""The jobs of a coordinator: submitted, followed, restarted.

`Progress` has everything that moves a job forward. Reports that do not fit are refused by name
(`refuse` counts them), because networks repeat and delay. What an attempt ends with is kept; one
that failed for a reason that may pass is followed by another, others stop their job (`retries.py`).
How jobs end is in `endings.py`, who gets a slot in `scheduler.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fabric.control import control_pb2 as pb
from fabric.control.errors import from_detail
from fabric.coordinator.core.agents import validation
from fabric.coordinator.core.agents.agents import Agent, Agents, Announcer
from fabric.coordinator.core.effects import Effect
from fabric.coordinator.core.events import CheckpointAsked, JobReplanned, JobSubmitted, Stored
from fabric.coordinator.core.jobs.endings import Endings, about
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.streams import Streams, check_whole
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.core.scheduling.recovery import lost_with, needed, run_again
from fabric.coordinator.core.scheduling.reruns import Reruns
from fabric.coordinator.core.scheduling.retries import away_for, failure, judge, lost_inputs
from fabric.coordinator.core.scheduling.scheduler import Scheduler
from fabric.coordinator.core.scheduling.slots import check_slots, slots_for
from fabric.coordinator.planner.placement import place
from fabric.coordinator.planner.stages import Key, stages_from
from fabric.errors import CancelledError, ConfigError, InternalError

_TOLD_PARTS = 16
"""How often agents hear how much of an edge is sealed, before it is whole."""


class Progress:
    """All jobs of `registry`; `refuse` is told why a report was not taken."""

    def __init__(
        self,
        registry: JobRegistry,
        agents: Agents,
        announcer: Announcer,
        refuse: Callable[[str], list[Effect]],
    ) -> None:
        self._registry, self._agents, self._announcer = registry, agents, announcer
        self._refuse = refuse
        self.endings = Endings(registry, agents, announcer)
        self.streams = Streams(registry, agents, announcer, self.endings, refuse)
        self.scheduler = Scheduler(registry, agents, announcer, self.endings, self.streams)
        self._reruns = Reruns(registry, announcer, self.endings, self.streams)
        self._n_placed = 0

    # ---- what people ask for

    def submit(self, event: JobSubmitted, now: float) -> list[Effect]:
        """Take a job; nothing happens when its client key is known."""
        registry = self._registry
        if registry.job_of_key(event.client_key) is not None:
            return []
        if event.job_id in registry.jobs or event.job_id in registry.history:
            raise InternalError(f"job id {event.job_id} was given twice")
        slots = {agent.agent_id: agent.hello.slots for agent in self._agents.attached()}
        placement = place(event.graph, slots, self._n_placed, registry.config.placement)
        job = Job(event, placement, now)
        self.streams.add(job)
        if not self._agents.grows:
            check_slots(job, self._agents.n_slots)
        self._n_placed += 1
        registry.add(job)
        if event.stream is not None:
            self.streams.goes_on(job, event.stream)
        effects = registry.changed(job, now)
        effects += registry.note(now, "job submitted", **about(job), **_goes_on(event))
        effects += self.endings.tell_edges(job, job.graph.edges)
        return effects + self.scheduler.schedule(now)

    def cancel(self, job_id: str, reason: str, now: float) -> list[Effect]:
        """Stop a job, unless it has ended or its output is being published."""
        if job_id in self._registry.history:
            return []
        job = self._registry.live(job_id)
        if not job.active or job.publishing or job.stopping is not None:
            return []
        error = CancelledError(reason or "the job was cancelled", job=job_id)
        return self.endings.stop(job, pb.JOB_CANCELLED, error, now)

    def release(self, job_id: str, now: float) -> list[Effect]:
        """Cancel a job if it runs, and drop its partitions once it has ended."""
        effects = self.cancel(job_id, "the job was released while it ran", now)
        job = self._registry.jobs.get(job_id)
        if job is not None and job.stopping is not None and job.active:
            job.stopping.release = True
            effects += self._registry.changed(job, now)
        elif job is not None and not job.active:
            effects += self.endings.drop(job, now)
        return effects + self.scheduler.schedule(now)

    def restart(self, job_id: str, from_path: str, now: float) -> list[Effect]:
        """Run an ended job again: what did not finish, is lost, or follows from a node on."""
        job = self._registry.live(job_id)
        if job.active:
            raise ConfigError(f"job {job_id} still runs; cancel it before you restart it")
        if job.origin is not None:
            raise ConfigError(
                f"job {job_id} is a start of the stream {job.origin.name!r}; run its program "
                "again, and it goes on"
            )
        stages = stages_from(job.graph, from_path) if from_path else frozenset[int]()
        check_whole(job, stages, from_path)
        sinks = {s.stage for s in job.graph.stages if s.is_sink and s.stage not in job.published}
        job.published -= stages
        job.run, job.state, job.error, job.ended = job.run + 1, pb.JOB_QUEUED, None, None
        job.stopped_at = 0
        keys = {k for k, task in job.tasks.items() if k[0] in stages | sinks or not task.finished}
        effects = self._reruns.renew(job, run_again(job, keys), now, cancel=False)
        effects += self._reruns.renew(job, run_again(job, needed(job)), now, cancel=False)
        for key, task in job.tasks.items():
            job.tasks[key] = task._replace(failures=0)
        where = {"from": from_path} if from_path else {}
        effects += self._registry.note(now, "job restarted", **about(job), **where)
        effects += self.endings.tell_edges(job, job.graph.edges)
        effects += self._advance(job, now)  # when all is still there, nothing has to run
        return [*self._registry.changed(job, now), *effects, *self.scheduler.schedule(now)]

    def rescale(self, event: JobReplanned, now: float) -> list[Effect]:
        """Have a stream go on with another number of tasks."""
        job, jobs = self._registry.live(event.job_id), self._registry.active()
        n_slots = slots_for(job, self._agents.attached(), jobs)
        return [*self._reruns.rescale(event, n_slots, now), *self.scheduler.schedule(now)]

    # ---- what agents say

    def task_report(self, agent: Agent, report: pb.TaskReport, now: float) -> list[Effect]:
        """Take what an agent says about a task of its own."""
        key = (report.key.stage, report.key.task)
        job, task = self._registry.find(report.key)
        if job is None or not job.active:
            return self._late(agent, report, job)
        if task is None:
            return self._refuse("unknown task")
        if self._reruns.has_left(job, key, agent, report):
            return [*self._abandon_stale(job, agent, report), *self.scheduler.schedule(now)]
        if (misfit := validation.misfit(job, task, agent.agent_id, report)) is not None:
            return [*self._refuse(misfit), *self._abandon_stale(job, agent, report)]
        if report.state == pb.TASK_RUNNING:
            job.tasks[key] = task.goes_on(report, self._registry.wall_s(now))
            return self._registry.moved(job)
        job.tasks[key] = task.ends(report, self._registry.wall_s(now))
        self._registry.task_changed(job, key)
        if report.state == pb.TASK_FINISHED:
            effects = self.streams.finished(job, report, now)
            effects += self._task_finished(job, key, now) if job.active else []
        elif report.state == pb.TASK_FAILED:
            effects = self._task_failed(job, key, report, now)
        else:  # the agent had to stop it: it had no word from us for too long
            effects = self._reruns.again(job, [key], now) if job.stopping is None else []
        if job.stopping is not None and job.active:
            effects += self.endings.settle(job, job.stopping, now)
        return effects + self.scheduler.schedule(now)

    def checkpointed(self, agent: Agent, report: pb.Checkpointed, now: float) -> list[Effect]:
        """Take what an agent says about a task's part of a checkpoint."""
        effects = self.streams.checkpointed(agent, report, now)
        return self._moved(report.key.job_id, effects, now)

    def checkpoint_asked(self, event: CheckpointAsked, now: float) -> list[Effect]:
        """Have a stream take a checkpoint now."""
        return self._moved(event.job_id, self.streams.ask(event, now), now)

    def stored(self, event: Stored, now: float) -> list[Effect]:
        """Take what the storage says about the files of a checkpoint."""
        return self._moved(event.job_id, self.streams.stored(event, now), now)

    def _moved(self, job_id: str, effects: list[Effect], now: float) -> list[Effect]:
        """What follows when the checkpoints of a job have come further."""
        job = self._registry.jobs.get(job_id)
        if job is not None and job.active and job.stopping is None:
            effects += [*self._advance(job, now), *self._reruns.leave(job, now)]
        return [*effects, *self.scheduler.schedule(now)]

    def sink_report(self, agent: Agent, report: pb.SinkReport, now: float) -> list[Effect]:
        """Take what an agent says about a sink it was asked to publish or to remove."""
        job = self._registry.jobs.get(report.job_id)
        if job is None:
            return self._refuse("unknown job")
        if not job.active:
            return self._refuse("late")
        if report.published.checkpoint or report.HasField("taken_back"):
            return self._moved(job.job_id, self.streams.sink_report(job, report, now), now)
        if not report.HasField("published"):
            return self._abandoned(job, agent, report, now)
        if job.publishing.get(report.stage) != agent.agent_id:
            return self._refuse("sink not asked")
        del job.publishing[report.stage]
        if report.HasField("error"):
            error = from_detail(report.error).at(
                job=job.job_id, node=job.graph.stages[report.stage].path, agent=agent.agent_id
            )
            job.failed(error)
            return self.endings.stop(job, pb.JOB_FAILED, error, now)
        job.published.add(report.stage)
        return [
            *self._registry.changed(job, now),
            *self._advance(job, now),
            *self.scheduler.schedule(now),
        ]

    def attached(self, agent: Agent, held: Iterable[pb.TaskReport], now: float) -> list[Effect]:
        """Make what an agent says it has and what it should have the same."""
        by_task = {(r.key.job_id, r.key.stage, r.key.task, r.key.attempt): r for r in held}
        effects = self.streams.attached(now)
        for job in list(self._registry.jobs.values()):
            lost = self._reconcile(job, agent, by_task)
            if job.active and job.stopping is None:
                effects += self._reruns.lose(job, agent.agent_id, lost, "it is new there", now)
            if job.active:
                effects += self.endings.remind(job, agent, now)
        stale: dict[tuple[str, bool], list[pb.TaskKey]] = {}
        for report in by_task.values():
            task = self._current(agent, report)
            if task is None:
                self._reruns.has_ended(agent, report)
                moved = self._is_newest(report)
                stale.setdefault((report.key.job_id, moved), []).append(report.key)
            elif task.active and report.state != task.state:
                effects += self.task_report(agent, report, now)
        for (job_id, moved), keys in sorted(stale.items()):
            if job_id not in self._registry.jobs:
                release = pb.CoordinatorMessage(release=pb.ReleaseJob(job_id=job_id))
                effects += self._announcer.send(agent.agent_id, release)
                continue
            reason = "another agent has it" if moved else "another attempt took over"
            cancel = pb.CancelTasks(job_id=job_id, reason=reason, keys=keys, moved=moved)
            effects += self._announcer.send(agent.agent_id, pb.CoordinatorMessage(cancel=cancel))
        return effects + self.scheduler.schedule(now)

    def agent_lost(self, agent_id: str, reason: str, now: float) -> list[Effect]:
        """Have done elsewhere what it was at, and what it had that is still to be read."""
        effects: list[Effect] = []
        for job in list(self._registry.jobs.values()):
            keys = lost_with(job, agent_id)
            job.leaving = {k: t for k, t in job.leaving.items() if t.agent_id != agent_id}
            if not job.active:
                continue
            if job.stopping is not None:
                for key in keys:
                    _ends_unheard(job, key)
                effects += self.endings.abandon_elsewhere(job, job.stopping, agent_id)
                effects += self.endings.settle(job, job.stopping, now)
                continue
            effects += self.endings.publish_elsewhere(job, agent_id, now)
            effects += self._reruns.lose(job, agent_id, keys, reason, now)
        return [*effects, *self.streams.agent_lost(now), *self.scheduler.schedule(now)]

    def expire(self, now: float) -> list[Effect]:
        """Let time pass: end, release, and start what has waited long enough."""
        effects = [*self.endings.expire(now), *self.streams.tick(now)]
        effects += [e for job in self._registry.active() for e in self._reruns.leave(job, now)]
        return [*effects, *self.scheduler.schedule(now), *self.scheduler.follow_slots(now)]

    def all_edges(self) -> list[pb.EdgeLocation]:
        """Where every listed edge of every live job is."""
        return [e for job in self._registry.jobs.values() for e in self.endings.locations(job)]

    # ---- forward

    def _task_finished(self, job: Job, key: Key, now: float) -> list[Effect]:
        stage = job.graph.stages[key[0]]
        n_done = job.tasks.of(key[0]).finished
        effects: list[Effect] = []
        if n_done == stage.n_tasks or n_done % max(1, stage.n_tasks // _TOLD_PARTS) == 0:
            effects += self.endings.tell_edges(job, job.graph.outputs[key[0]])
        if job.stopping is not None:
            return effects
        return effects + self._advance(job, now)

    def _advance(self, job: Job, now: float) -> list[Effect]:
        """Publish what is whole, end what is complete."""
        effects: list[Effect] = []
        for stage_id in job.sinks_to_publish():
            agent_id = job.tasks[stage_id, 0].agent_id
            if self._agents.get(agent_id) is None and (others := self._agents.ids()):
                agent_id = others[0]
            effects += self.endings.publish(job, stage_id, agent_id, now)
        if job.complete():
            return effects + self.endings.end(job, pb.JOB_FINISHED, None, now)
        return effects + self._registry.moved(job)

    # ---- again

    def _task_failed(self, job: Job, key: Key, report: pb.TaskReport, now: float) -> list[Effect]:
        error = failure(job, key, report)
        job.tasks[key] = task = job.tasks[key]._replace(error=error)
        self._registry.task_changed(job, key)
        if job.stopping is not None:
            return []
        job.failed(error)
        effects = self._registry.note(
            now, "task failed", job=job.job_id, agent=task.agent_id, task=error.where.task,
            error=str(error),
        )  # fmt: skip
        gone = lost_inputs(job, report, self._agents.ids())
        away_s = away_for(error, task.agent_id, self._agents, now)
        verdict = judge(job.tasks[key], error, gone, away_s, self._registry.config)
        job.tasks[key] = verdict.task
        if verdict.final is not None:
            return effects + self.endings.stop(job, pb.JOB_FAILED, verdict.final, now)
        not_before = now + verdict.pause_s
        return effects + self._reruns.again(job, [key, *needed(job)], now, not_before)

    def _reconcile(
        self, job: Job, agent: Agent, held: dict[tuple[str, int, int, int], pb.TaskReport]
    ) -> list[Key]:
        """Tasks of `agent` that it knows nothing of: they run, or their output lies, nowhere."""
        missing = []
        for key, task in job.tasks.items():
            if task.agent_id != agent.agent_id or not task.given:
                continue
            report = held.get((job.job_id, *key, task.attempt))
            if task.active and report is None:
                if job.stopping is not None:
                    _ends_unheard(job, key)
                missing.append(key)
            elif task.finished:
                lost = report is None or report.state != pb.TASK_FINISHED
                job.tasks[key] = task._replace(lost=lost)
        for key, task in list(job.leaving.items()):
            report = held.get((job.job_id, *key, task.attempt))
            if task.agent_id == agent.agent_id and (
                report is None or report.state != pb.TASK_RUNNING
            ):
                del job.leaving[key]
        return [*missing, *needed(job)] if job.active else []

    def _current(self, agent: Agent, report: pb.TaskReport) -> Task | None:
        """The task whose newest attempt an agent tells of, if that is its own."""
        job, task = self._registry.find(report.key)
        if task is None or not task.given or task.attempt != report.key.attempt:
            return None
        if job is not None and not job.active and report.state == pb.TASK_RUNNING:
            return None  # it missed that the job has ended
        return task if task.agent_id == agent.agent_id else None

    def _is_newest(self, report: pb.TaskReport) -> bool:
        """Whether it tells of output of the newest attempt, which was moved to another agent."""
        _, task = self._registry.find(report.key)
        return task is not None and task.finished and task.attempt == report.key.attempt

    # ---- refused

    def _late(self, agent: Agent, report: pb.TaskReport, job: Job | None) -> list[Effect]:
        """Refuse a report of a job that is over; what its sink prepared is abandoned."""
        self._reruns.has_ended(agent, report)  # or who restarts the job would wait for it
        past = self._registry.history.get(report.key.job_id)
        state = job.state if job is not None else past.state if past is not None else None
        effects = self._refuse("unknown job" if job is None else "late")
        if report.sink_handle and state in (pb.JOB_FAILED, pb.JOB_CANCELLED):
            command = pb.SinkCommand(
                job_id=report.key.job_id, stage=report.key.stage, handles=[report.sink_handle],
                abandon=pb.SinkAbandon(),
            )  # fmt: skip
            message = pb.CoordinatorMessage(sink=command)
            return effects + self._announcer.send(agent.agent_id, message)
        return effects

    def _abandon_stale(self, job: Job, agent: Agent, report: pb.TaskReport) -> list[Effect]:
        """What an attempt prepared that was not the newest any more."""
        task = job.tasks[report.key.stage, report.key.task]
        if not report.sink_handle or report.sink_handle == task.handle:
            return []
        return self.endings.abandon_one(job, report.key.stage, report.sink_handle, agent.agent_id)

    def _abandoned(self, job: Job, agent: Agent, report: pb.SinkReport, now: float) -> list[Effect]:
        effects: list[Effect] = []
        if report.HasField("error"):
            effects += self._registry.note(
                now, "output not removed", job=job.job_id, agent=agent.agent_id,
                error=report.error.message,
            )  # fmt: skip
        asked = (job.stopping.abandoning or {}) if job.stopping is not None else {}
        if job.stopping is None or asked.get(report.stage) != agent.agent_id:
            return effects
        del asked[report.stage]
        return effects + self.endings.settle(job, job.stopping, now) + self.scheduler.schedule(now)


def _ends_unheard(job: Job, key: Key) -> None:
    """Nobody will report the end of an attempt whose job stops."""
    if (task := job.tasks[key]).active:
        job.tasks[key] = task._replace(state=pb.TASK_CANCELLED)


def _goes_on(event: JobSubmitted) -> dict[str, str | int]:
    """What a note says of a stream that has a name."""
    if event.stream is None:
        return {}
    origin = event.stream.origin
    return {"stream": origin.name, "start": origin.start, "checkpoint": origin.checkpoint}

"""How jobs end: published, stopped, forgotten.

One job: from the last task to the last message. A job that fails or is cancelled ends when its
tasks have ended and what its sinks wrote is removed, or after `stop_s`; its partitions are kept for
a while, so that it can be read, or restarted.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.agents.agents import Agent, Agents, Announcer
from fabric.coordinator.core.effects import Effect
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job, Stopping
from fabric.coordinator.core.jobs.messages import edge_location, sink_message
from fabric.coordinator.planner.stages import Edge
from fabric.errors import FabricError


class Endings:
    """The ends of the jobs in `registry`."""

    def __init__(self, registry: JobRegistry, agents: Agents, announcer: Announcer) -> None:
        self._registry, self._agents, self._announcer = registry, agents, announcer
        self.on_stop: Callable[[Job, float], list[Effect]] = _nothing
        """What else is to be done when a job begins to stop."""
        self.on_drop: Callable[[Job, float], list[Effect]] = _nothing
        """What else is to be done when a job is forgotten."""
        self._due: list[tuple[float, str]] = []
        """When ended jobs are released, the next one first; those that are gone stay listed."""

    # ---- publishing

    def publish(self, job: Job, stage: int, agent_id: str, now: float) -> list[Effect]:
        """Have an agent make the output of a sink visible."""
        job.publishing[stage] = agent_id
        effects = self._registry.changed(job, now)
        return effects + self.sink_command(job, stage, agent_id, job.handles(stage), publish=True)

    def publish_elsewhere(self, job: Job, gone: str, now: float) -> list[Effect]:
        """Publishing may be repeated, so another agent finishes what a lost one began.

        Without any agent it waits for the next one that attaches (`remind`).
        """
        others = self._agents.ids()
        stages = [stage for stage, agent_id in sorted(job.publishing.items()) if agent_id == gone]
        return [e for s in stages if others for e in self.publish(job, s, others[0], now)]

    def sink_command(
        self, job: Job, stage: int, agent_id: str, handles: list[bytes], *, publish: bool
    ) -> list[Effect]:
        """Have an agent publish or remove what the stage prepared; again is fine.

        Without a handle somebody may have died while it wrote: all is removed that can be there.
        What a stream has prepared was published with its checkpoints; the rest is brought to an
        end, in either case.
        """
        command = pb.SinkCommand(handles=handles)
        (command.publish if publish else command.abandon).SetInParent()
        if job.is_stream(job.graph.stages[stage].region) or not (handles or publish):
            command.fragment = job.fragments[stage]
        return self._announcer.send(agent_id, sink_message(job, stage, command))

    def abandon_one(self, job: Job, stage: int, handle: bytes, agent_id: str) -> list[Effect]:
        """Have the output of one attempt removed; nobody waits for it."""
        asked = self._agents.attached_or_first(agent_id)
        if not handle or asked is None:
            return []
        command = pb.SinkCommand(handles=[handle], drop=pb.SinkDrop())
        return self._announcer.send(asked, sink_message(job, stage, command))

    def remind(self, job: Job, agent: Agent, now: float) -> list[Effect]:
        """Tell an agent again what to stop, publish or remove: it may not have heard."""
        effects: list[Effect] = []
        for stage, asked_of in sorted(job.publishing.items()):
            if self._agents.get(asked_of) is None:
                job.publishing[stage] = agent.agent_id
                effects += self._registry.changed(job, now)
        asked: dict[int, str] = {}
        if job.stopping is not None:
            message = _cancel(job, job.stopping.error)
            effects += self._announcer.send(agent.agent_id, message)
            asked = job.stopping.abandoning or {}
        for publish, stages in ((True, job.publishing), (False, asked)):
            for stage, asked_of in sorted(stages.items()):
                if asked_of == agent.agent_id:
                    handles = job.handles(stage)
                    effects += self.sink_command(job, stage, asked_of, handles, publish=publish)
        return effects

    # ---- stopping

    def stop_at(self, job: Job, checkpoint: int, now: float) -> list[Effect]:
        """Somebody stopped a stream at a checkpoint that is out, so it ends well."""
        job.stopped_at = checkpoint
        note = self._registry.note(now, "job stops", job=job.job_id, checkpoint=checkpoint)
        return [*note, *self.stop(job, pb.JOB_FINISHED, None, now)]

    def stop(
        self, job: Job, state: pb.JobState, error: FabricError | None, now: float
    ) -> list[Effect]:
        """Cancel its tasks; it ends as `state` when they have."""
        effects = self._announcer.send_all(_cancel(job, error))
        job.stopping = Stopping(state, error, now + self._registry.config.stop_s)
        effects += self.on_stop(job, now)
        return [
            *self._registry.changed(job, now),
            *effects,
            *self.settle(job, job.stopping, now),
        ]

    def settle(self, job: Job, stopping: Stopping, now: float) -> list[Effect]:
        """End a job that stops when nothing of it runs and nothing is left, or time is over."""
        effects: list[Effect] = []
        late = now >= stopping.deadline
        if stopping.abandoning is None:
            if (job.busy() or job.owes()) and not late:
                return effects
            stopping.abandoning = {}
            if job.origin is None or not job.owes():  # else it is published when it goes on
                effects += self._abandon(job, stopping.abandoning)
        if stopping.abandoning and not late:
            return effects
        effects += self.end(job, stopping.state, stopping.error, now)
        return effects + self.drop(job, now) if stopping.release else effects

    def abandon_elsewhere(self, job: Job, stopping: Stopping, gone: str) -> list[Effect]:
        """Removing may be repeated, so another agent does what a lost one was asked for."""
        if stopping.abandoning is None or gone not in stopping.abandoning.values():
            return []
        stopping.abandoning = {}
        return self._abandon(job, stopping.abandoning)

    def _abandon(self, job: Job, asked: dict[int, str]) -> list[Effect]:
        """Have the output of sink tasks removed, that of agents that are gone too.

        Who was `asked` for which stage is put there.
        """
        effects: list[Effect] = []
        for stage in job.graph.stages:
            handles = job.handles(stage.stage)
            begun = any(task.given for task in job.tasks.stage(stage.stage))
            if not stage.is_sink or not begun or stage.stage in job.published:
                continue
            agent_id = self._agents.attached_or_first(job.tasks[stage.stage, 0].agent_id)
            if agent_id is None:
                continue
            asked[stage.stage] = agent_id
            effects += self.sink_command(job, stage.stage, agent_id, handles, publish=False)
        return effects

    # ---- the end

    def end(
        self, job: Job, state: pb.JobState, error: FabricError | None, now: float
    ) -> list[Effect]:
        """It is over; its partitions stay for a while."""
        job.state, job.error, job.ended, job.stopping = state, error, now, None
        job.publishing.clear()
        why = {"error": str(error)} if error is not None else {}
        note = f"job {pb.JobState.Name(state)[4:].lower()}"
        effects = self._registry.note(now, note, **about(job), **why)
        told = self.tell_edges(job, job.graph.edges)
        heapq.heappush(self._due, (self._due_s(job), job.job_id))
        return [*self._registry.changed(job, now), *effects, *told]

    def restored(self) -> None:
        """The registry has jobs that an earlier coordinator knew."""
        self._due = [(self._due_s(job), job.job_id) for job in self._registry.ended()]
        heapq.heapify(self._due)

    def _due_s(self, job: Job) -> float:
        return math.inf if job.ended is None else job.ended + self.kept_s(job)

    def locations(self, job: Job) -> list[pb.EdgeLocation]:
        """Where each edge of a job is."""
        return [edge_location(job, edge, self.kept_s(job)) for edge in job.graph.edges]

    def tell_edges(self, job: Job, edges: Iterable[Edge]) -> list[Effect]:
        """Tell agents where these edges of a job are now."""
        found = [edge_location(job, edge, self.kept_s(job)) for edge in edges]
        return self._announcer.tell(pb.Locations(edges=found)) if found else []

    def kept_s(self, job: Job) -> float:
        """How long the partitions of a job are kept once it has ended."""
        config = self._registry.config
        return config.retain_failed_s if job.state == pb.JOB_FAILED else config.retain_s

    def expire(self, now: float) -> list[Effect]:
        """End jobs that stop for too long; release those that ended long ago, or are too many."""
        effects: list[Effect] = []
        for job in self._registry.active():
            if job.stopping is not None:
                effects += self.settle(job, job.stopping, now)
        while self._due:
            too_many = self._registry.n_ended > self._registry.config.jobs_kept_max
            if self._due[0][0] > now and not too_many:
                break
            due, job_id = heapq.heappop(self._due)
            ended = self._registry.jobs.get(job_id)
            if ended is not None and due == self._due_s(ended):  # not of an earlier run
                effects += self.drop(ended, now)
        return effects

    def drop(self, job: Job, now: float) -> list[Effect]:
        """Forget partitions and plan; the status stays in the history."""
        if job.job_id not in self._registry.jobs:
            return []
        status = self._registry.status(job.job_id, now)
        if status.state != pb.JOB_FAILED:
            status.state = pb.JOB_RELEASED
        job.state = status.state
        effects = self.on_drop(job, now)
        self._registry.drop(job, status)
        effects += self._registry.moved(job)
        release = pb.ReleaseJob(job_id=job.job_id)
        effects += self._announcer.send_all(pb.CoordinatorMessage(release=release))
        return effects + self._announcer.tell(pb.Locations(dropped_jobs=[job.job_id]))


def _nothing(job: Job, now: float) -> list[Effect]:
    return []


def _cancel(job: Job, error: FabricError | None) -> pb.CoordinatorMessage:
    reason = f"it was stopped at checkpoint {job.stopped_at}" if error is None else error.message
    cancel = pb.CancelTasks(job_id=job.job_id, reason=reason[:1024], run=job.run)
    return pb.CoordinatorMessage(cancel=cancel)


def about(job: Job) -> dict[str, str | int]:
    """What a note says of a job."""
    return {"job": job.job_id, "name": job.name, "tasks": len(job.tasks)}

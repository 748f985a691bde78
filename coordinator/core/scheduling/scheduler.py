"""Tasks given to agents: who may start is planned, gets slots, and is deployed.

`Scheduler.schedule` is called after every change: it gives free slots to what may start. Which task
goes where is decided in `slots.py`. A region is planned anew just before it starts for the first
time, from the sizes that were measured (`replan.py`).
"""

from __future__ import annotations

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.agents.agents import Agents, Announcer
from fabric.coordinator.core.effects import Effect, Rescale
from fabric.coordinator.core.jobs.endings import Endings
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.messages import deploys
from fabric.coordinator.core.jobs.streams import Streams
from fabric.coordinator.core.scheduling.replan import replan
from fabric.coordinator.core.scheduling.slots import (
    Assigned,
    assign,
    free_slots,
    slots_for,
    slots_used,
    waiting_for,
)
from fabric.coordinator.planner.regions import materialised


class Scheduler:
    """For all jobs of `registry`."""

    def __init__(
        self,
        registry: JobRegistry,
        agents: Agents,
        announcer: Announcer,
        endings: Endings,
        streams: Streams,
    ) -> None:
        self._registry, self._agents, self._announcer = registry, agents, announcer
        self._endings, self._streams = endings, streams

    def schedule(self, now: float) -> list[Effect]:
        """Give free slots to what may start."""
        effects = self._streams.go_on(now)
        jobs = [job for job in self._registry.active() if job.stopping is None]
        if not any(job.tasks.n_waiting for job in jobs):
            return effects
        effects += self._plan_regions(jobs, now)
        room = free_slots(self._agents.attached(), self._registry.active())
        given: dict[str, dict[int, list[int]]] = {}
        for assigned in list(assign(jobs, room, now, self._registry.config.placement)):
            self._give(assigned)
            for (stage, number), _ in assigned.tasks:
                given.setdefault(assigned.job.job_id, {}).setdefault(stage, []).append(number)
        for job_id, stages in given.items():
            effects += self._deploy(self._registry.jobs[job_id], stages, now)
        return effects + self._say_what_waits(jobs, now)

    def follow_slots(self, now: float) -> list[Effect]:
        """Have streams rescaled that have as many tasks as there are slots."""
        effects: list[Effect] = []
        jobs = self._registry.active()
        for job in jobs:
            follows, stream = job.reactivity, job.stream
            if follows is None or stream is None or job.stopping is not None:
                continue
            if not job.waiting and (stream.phase != "running" or job.rescaling):
                continue
            wanted = follows.decide(
                job.parallelism, slots_for(job, self._agents.attached(), jobs),
                stands_still=bool(job.waiting), now=now,
                pause_s=self._registry.config.rescale_pause_s,
            )  # fmt: skip
            effects += [] if wanted is None else [Rescale(job.job_id, wanted)]
        return effects

    def slots_used(self, agent_id: str) -> int:
        """How many tasks an agent is at."""
        return slots_used(self._registry.active()).get(agent_id, 0)

    def _say_what_waits(self, jobs: list[Job], now: float) -> list[Effect]:
        """A job that streams leave no slots says so: it may wait for ever."""
        effects: list[Effect] = []
        if not (streams := [job for job in jobs if job.stream is not None]):
            return effects
        room = free_slots(self._agents.attached(), self._registry.active())
        n_held = sum(slots_used(streams).values())
        for job in jobs:
            why = waiting_for(job, self._agents.n_slots, room, n_held)
            if why != job.waiting:
                job.waiting = why
                effects += self._registry.changed(job, now)
                if why:
                    effects += self._registry.note(now, "slots are short", job=job.job_id, why=why)
        return effects

    def _plan_regions(self, jobs: list[Job], now: float) -> list[Effect]:
        """Fix the tasks of regions that may start for the first time."""
        effects: list[Effect] = []
        hellos, n_slots = self._agents.hellos(), self._agents.n_slots
        for job in jobs:
            for region in list(job.ready()):
                if job.is_stream(region):
                    continue
                if job.pipelined(region) and job.n_waiting(region) > n_slots > 0:
                    effects += self._materialise(job, region, n_slots, now)
            for region in list(job.ready()):
                if region not in job.planned:
                    job.planned.add(region)
                    if not job.is_stream(region):
                        effects += self._replan(job, region, hellos, now)
        return effects

    def _materialise(self, job: Job, region: int, n_slots: int, now: float) -> list[Effect]:
        """A pipelined region that will never have slots for all of its tasks."""
        n_tasks = job.n_waiting(region)
        job.graph = materialised(job.graph, region)
        self._registry.planned(job)
        return self._registry.note(
            now, "slots are short", job=job.job_id,
            why=f"{n_tasks} tasks would have to run at once, there are {n_slots} slots: "
            "the exchanges between them are materialised",
        )  # fmt: skip

    def _replan(
        self, job: Job, region: int, hellos: dict[str, pb.Hello], now: float
    ) -> list[Effect]:
        """Let the measured sizes of what a stage reads change its tasks, before it starts."""
        (first, *others) = job.graph.regions()[region]
        changed = [] if others else replan(job, first.stage, hellos)
        # as it is now: who comes after a crash must not plan it otherwise
        self._registry.planned(job)
        if not changed and not job.graph.stages[first.stage].adapted:
            return []
        why = "; ".join(job.graph.stages[first.stage].adapted)[:1024]
        note = self._registry.note(
            now, "stage planned anew", job=job.job_id, stage=first.stage, why=why
        )
        return note + self._endings.tell_edges(job, changed)

    def _give(self, assigned: Assigned) -> None:
        for key, agent_id in assigned.tasks:
            tasks = assigned.job.tasks
            tasks[key] = tasks[key].gone_to(agent_id, self._registry.epoch)
            self._registry.task_changed(assigned.job, key)

    def _deploy(self, job: Job, stages: dict[int, list[int]], now: float) -> list[Effect]:
        effects: list[Effect] = []
        hellos = self._agents.hellos()
        for stage, numbers in sorted(stages.items()):
            made = deploys(
                job, job.graph.stages[stage], numbers, self._registry.epoch, hellos,
                stream=self._streams.deploy(job, stage),
            )  # fmt: skip
            for agent_id, deploy in made.items():
                message = pb.CoordinatorMessage(deploy=deploy)
                effects += self._announcer.send(agent_id, message)
        if job.state == pb.JOB_QUEUED:
            job.state = pb.JOB_RUNNING
            effects = self._registry.changed(job, now) + effects
        return effects + self._streams.started(job, now)

"""Attempts that follow other attempts.

One job: what `recovery.run_again` decides made known: the attempts that are over are written down,
their agents told to stop, the listed places of edges mended. The tasks of a pipelined region begin
again when the last of its older attempts has ended, since both would use the same rings.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.agents.agents import Agent, Announcer
from fabric.coordinator.core.effects import Effect
from fabric.coordinator.core.events import JobReplanned
from fabric.coordinator.core.jobs.endings import Endings
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job, Reactivity
from fabric.coordinator.core.jobs.messages import attempt_key
from fabric.coordinator.core.jobs.streams import Streams
from fabric.coordinator.core.scheduling.recovery import Again, run_again
from fabric.coordinator.core.scheduling.rescale import check_fits, check_rescale
from fabric.coordinator.core.scheduling.retries import with_causes
from fabric.coordinator.planner.stages import Key
from fabric.errors import PeerLostError
from fabric.ids import TaskId


class Reruns:
    """The later attempts of the jobs in `registry`."""

    def __init__(
        self, registry: JobRegistry, announcer: Announcer, endings: Endings, streams: Streams
    ) -> None:
        self._registry, self._announcer, self._endings = registry, announcer, endings
        self._streams = streams

    def lose(
        self, job: Job, agent_id: str, keys: list[Key], reason: str, now: float
    ) -> list[Effect]:
        """Tasks of `keys` ended with their agent, or lost their output with it."""
        effects: list[Effect] = []
        for key in keys:
            task = job.tasks[key]
            if not task.active:
                continue
            where = str(TaskId(job.job_id, *key, task.attempt))
            node = job.graph.stages[key[0]].path
            message = f"agent {agent_id} was lost while it ran the task: {reason}"
            error = PeerLostError(message, job=job.job_id, node=node, task=where, agent=agent_id)
            failures = task.failures + 1
            job.tasks[key] = task._replace(error=error, failures=failures)
            job.failed(error)
            if failures >= self._registry.config.attempts_max:
                final = with_causes(error, failures)
                return effects + self._endings.stop(job, pb.JOB_FAILED, final, now)
        if keys:
            effects += self.again(job, keys, now, gone=agent_id)
        return effects

    def again(
        self, job: Job, keys: Iterable[Key], now: float, not_before: float = 0.0, gone: str = ""
    ) -> list[Effect]:
        """The next attempts of `keys`, and of all that follows; agent `gone` need not be told."""
        again = run_again(job, keys, not_before)
        if again.published:
            error = PeerLostError(
                "rows that a published output was made of are lost, and may be others when they "
                "are computed again; the output is complete, other results of the job are not",
                job=job.job_id,
                node=again.published,
            )
            return self._endings.stop(job, pb.JOB_FAILED, error, now)
        effects = self.renew(job, again, now, gone=gone)
        if again.over:
            effects += self._registry.note(
                now, "tasks run again", job=job.job_id, n_tasks=len(again.over),
                tasks=" ".join(f"{s}.{t}" for s, t in sorted(again.over)[:50]),
            )  # fmt: skip
        stages = {stage for stage, _ in again.over}
        edges = [edge for edge in job.graph.edges if edge.producer in stages]
        return effects + self._endings.tell_edges(job, edges)

    def rescale(self, event: JobReplanned, n_slots: int, now: float) -> list[Effect]:
        """Have a stream go on in other stages and tasks, once those that run have left.

        They take a checkpoint before, see `leave`.
        """
        job = self._registry.live(event.job_id)
        check_rescale(job, event.parallelism)
        check_fits(job, event, n_slots)
        if event.reactive != (job.reactivity is not None):
            job.reactivity = Reactivity(now) if event.reactive else None
            self._registry.planned(job)
        if event.parallelism == (job.rescaling or job.parallelism):
            return self._registry.moved(job)
        last = self._streams.take_last(job, now)
        job.replanned, job.rescaling = event, event.parallelism
        effects = self._registry.note(
            now, "rescale asked", job=job.job_id, parallelism=event.parallelism
        )
        effects += last
        if job.stream is None or job.stream.leaving is None:  # they don't run
            effects += self.renew(job, run_again(job, list(job.tasks)), now)
        return [*effects, *self.leave(job, now), *self._registry.moved(job)]

    def leave(self, job: Job, now: float) -> list[Effect]:
        """Have the tasks of a stream leave whose last checkpoint is out, or takes too long."""
        if not self._streams.may_leave(job, now):
            return []
        return self.renew(job, run_again(job, list(job.tasks)), now)

    def renew(
        self, job: Job, again: Again, now: float, *, gone: str = "", cancel: bool = True
    ) -> list[Effect]:
        """Write down what is over, and have its agents stop."""
        effects: list[Effect] = []
        stale: dict[str, list[pb.TaskKey]] = {}
        for key, task in sorted(again.over.items()):
            self._registry.attempt_over(job, key, task, now)
            self._registry.task_changed(job, key)
            effects += self._endings.abandon_one(job, key[0], task.handle, task.agent_id)
            if cancel and task.agent_id != gone:
                stale.setdefault(task.agent_id, []).append(attempt_key(job, key, task))
                if task.active and job.pipelined(job.graph.stages[key[0]].region):
                    job.leaving[key] = task
        for agent_id, keys in sorted(stale.items()):
            message = pb.CancelTasks(
                job_id=job.job_id, reason="rows it reads have to be made again", keys=keys
            )
            effects += self._announcer.send(agent_id, pb.CoordinatorMessage(cancel=message))
        return effects + self._streams.lost(job, again.over, "tasks run again", now)

    def has_ended(self, agent: Agent, report: pb.TaskReport) -> None:
        """An agent tells of an attempt that counts no more: if it is over, nobody waits for it."""
        if (job := self._registry.jobs.get(report.key.job_id)) is not None:
            self.has_left(job, (report.key.stage, report.key.task), agent, report)

    def has_left(self, job: Job, key: Key, agent: Agent, report: pb.TaskReport) -> bool:
        """Whether this ends an attempt that others wait for."""
        left = job.leaving.get(key)
        if left is None or report.state == pb.TASK_RUNNING:
            return False
        if (left.attempt, left.agent_id) != (report.key.attempt, agent.agent_id):
            return False
        del job.leaving[key]
        return True

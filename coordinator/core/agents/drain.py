"""Agents that are to leave: their partitions move first.

One job: have other agents fetch what a draining agent holds of live jobs, a few outputs at a time.
An output that has arrived is read there from then on; until then, and if it does not arrive, the
old place serves. Tasks under way end where they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.agents.agents import Agent, Agents, Announcer
from fabric.coordinator.core.effects import Effect
from fabric.coordinator.core.jobs.job_registry import JobRegistry
from fabric.coordinator.core.jobs.jobs import Job
from fabric.coordinator.core.jobs.messages import edge_location, output
from fabric.coordinator.core.jobs.tasks import Task
from fabric.coordinator.planner.stages import Key

MOVES_MAX = 4
"""Outputs on their way at a time, of all agents together."""


@dataclass(frozen=True, slots=True)
class _Move:
    job_id: str
    key: Key
    attempt: int
    source: str
    target: str


class Draining:
    """The moves of a coordinator."""

    def __init__(self, registry: JobRegistry, agents: Agents, announcer: Announcer) -> None:
        self._registry, self._agents, self._announcer = registry, agents, announcer
        self._moves: dict[int, _Move] = {}
        self._n_moves = 0

    def drain(self, agent_id: str, *, undo: bool, now: float) -> list[Effect]:
        """Give an agent no more tasks, and move what it holds; or end that."""
        agent = self._agents.get(agent_id)
        if agent is None or agent.draining is not undo:
            return []
        agent.draining = not undo
        says = "agent works again" if undo else "agent drains"
        return [*self._registry.note(now, says, agent=agent_id), *self.go_on(now)]

    def is_empty(self, agent_id: str) -> bool:
        """Whether nothing runs there and no output of a live job lies there."""
        return not any(
            task.active or (task.finished and not task.lost)
            for job in self._registry.jobs.values()
            for task in job.tasks.values()
            if task.given and task.agent_id == agent_id
        )

    def go_on(self, now: float) -> list[Effect]:
        """Begin as many moves as may be under way."""
        attached = {agent.agent_id for agent in self._agents.attached()}
        self._moves = {n: m for n, m in self._moves.items() if {m.source, m.target} <= attached}
        targets = [
            a.agent_id for a in self._agents.attached() if a.is_there and not a.beat.overloaded
        ]
        draining = {a.agent_id for a in self._agents.attached() if a.draining}
        if not targets or not draining:
            return []
        effects: list[Effect] = []
        under_way = {(m.job_id, m.key) for m in self._moves.values()}
        for job, key, task in self._outputs(draining):
            if len(self._moves) >= MOVES_MAX:
                break
            if (job.job_id, key) not in under_way:
                target = targets[self._n_moves % len(targets)]
                effects += self._move(job, key, task, target)
        return effects

    def adopted(self, agent: Agent, report: pb.Adopted, now: float) -> list[Effect]:
        """An output has arrived, or could not be fetched."""
        move = self._moves.get(report.number)
        if move is None or move.target != agent.agent_id:
            return []
        del self._moves[report.number]
        if (job := self._registry.jobs.get(move.job_id)) is None:
            return []
        task = job.tasks.get(move.key)
        effects: list[Effect] = []
        if report.HasField("error"):
            effects += self._registry.note(
                now, "output not moved", job=move.job_id, agent=move.source,
                to=move.target, error=report.error.message,
            )  # fmt: skip
        elif task is not None and (task.attempt, task.agent_id) == (move.attempt, move.source):
            job.tasks[move.key] = task._replace(agent_id=move.target)
            self._registry.task_changed(job, move.key)
            edges = [edge_location(job, e, 0.0) for e in job.graph.outputs[move.key[0]]]
            effects += self._announcer.tell(pb.Locations(edges=edges)) if edges else []
        return effects + self.go_on(now)

    def _outputs(self, draining: set[str]) -> Iterator[tuple[Job, Key, Task]]:
        for job in self._registry.jobs.values():
            for key, task in job.tasks.items():
                if task.finished and not task.lost and task.agent_id in draining:
                    yield job, key, task

    def _move(self, job: Job, key: Key, task: Task, target: str) -> list[Effect]:
        self._n_moves += 1
        move = _Move(job.job_id, key, task.attempt, task.agent_id, target)
        self._moves[self._n_moves] = move
        adopt = pb.Adopt(
            job_id=job.job_id,
            stage=key[0],
            task=key[1],
            attempt=task.attempt,
            from_agent=move.source,
            address=self._agents.addresses()[move.source],
            outputs=[output(edge) for edge in job.graph.outputs[key[0]]],
            number=self._n_moves,
        )
        return self._announcer.send(target, pb.CoordinatorMessage(adopt=adopt))

"""Who was given what, as an onlooker counts.

One job: `Slots`: the attempts an agent was told of, that have not ended, nor were followed by
another one, of jobs that have not ended.
"""

from __future__ import annotations

from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.coordinator.core.core import CoordinatorCore
from fabric.errors import NotFoundError
from fabric.ids import TaskId


def task_id(key: pb.TaskKey) -> TaskId:
    """As the agent's core names it."""
    return TaskId(key.job_id, key.stage, key.task, key.attempt)


class Slots:
    """By task, whatever coordinator gave it."""

    def __init__(self) -> None:
        self._given: dict[tuple[str, int, int], tuple[TaskId, str]] = {}

    def given(self, task: TaskId, agent_id: str) -> None:
        """An agent is told of an attempt."""
        self._given[task.job, task.stage, task.task] = (task, agent_id)

    def ended(self, task: TaskId) -> None:
        """A coordinator was told of the end of an attempt."""
        key = (task.job, task.stage, task.task)
        if key in self._given and self._given[key][0] == task:
            del self._given[key]

    def lost(self, agent_id: str) -> None:
        """A coordinator gave an agent up."""
        for key in [key for key, (_, agent) in self._given.items() if agent == agent_id]:
            del self._given[key]

    def attached(self, hello: pb.Hello) -> None:
        """An agent said what it runs; of anything else it knows nothing, or that it has ended."""
        running = {task_id(r.key) for r in hello.tasks if r.state == pb.TASK_RUNNING}
        for key, (task, agent) in list(self._given.items()):
            if agent == hello.agent_id and task not in running:
                del self._given[key]

    def used(self, agent_id: str, core: CoordinatorCore) -> list[str]:
        """The attempts an agent is at, as far as anybody can know."""
        jobs = {task.job for task, agent in self._given.values() if agent == agent_id}
        live = {job for job in sorted(jobs) if _is_live(job, core)}
        return [str(t) for t, a in self._given.values() if a == agent_id and t.job in live]


def _is_live(job_id: str, core: CoordinatorCore) -> bool:
    try:
        return core.registry.status(job_id, 0.0).state not in ENDED
    except NotFoundError:
        return False

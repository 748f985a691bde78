"""What must never happen.

One job: `Invariants`, which watches everything that is told, read, sealed and published, with the
knowledge no process has: what really happened. A violation ends the run. What is judged at the end
is in `judge.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.core.effects import Disconnect, Effect, JobChanged, Note
from fabric.coordinator.core.events import Event, Tick
from fabric.errors import FabricError, NotFoundError
from fabric.ids import TaskId
from tests.support.sim.rows import Partitions, Row
from tests.support.sim.scenario import JobPlan
from tests.support.sim.shelf import Place
from tests.support.sim.slots import Slots, task_id

if TYPE_CHECKING:
    from tests.support.sim.agent import AgentProcess
    from tests.support.sim.coordinator import CoordinatorProcess

_OVER = (pb.TASK_FINISHED, pb.TASK_FAILED, pb.TASK_CANCELLED)


class Violation(AssertionError):
    """An invariant does not hold."""


class Invariants:
    """One run's watcher; `agents` by name are all there are."""

    def __init__(self) -> None:
        self.agents: dict[str, AgentProcess] = {}
        self.coordinators: Sequence[CoordinatorProcess] = ()
        self.plans: dict[str, JobPlan] = {}
        self.deployed: dict[TaskId, str] = {}
        """Every attempt that was told to an agent, and to which."""
        self.n_refused_old = 0
        self.finished: dict[TaskId, None] = {}
        """Attempts that a coordinator knows to have finished."""
        self._newest: dict[tuple[str, int, int], int] = {}
        self._slots = Slots()
        self._epoch = 0
        self._truth: dict[Place, Partitions] = {}
        self._jobs: dict[str, str] = {}
        self._states: dict[tuple[str, int], pb.JobState] = {}

    def violation(self, what: str) -> Violation:
        """To be raised."""
        return Violation(what)

    def check(self, holds: bool, what: str) -> None:
        """End the run unless `holds`."""
        if not holds:
            raise Violation(what)

    def plan(self, job_id: str) -> JobPlan:
        """What the job of that id was submitted as."""
        return self.plans[job_id]

    # ---- coordinators

    def epoch_begins(self, name: str, epoch: int) -> None:
        """Epochs rise, whoever takes one."""
        self.check(epoch > self._epoch, f"{name} began epoch {epoch} after {self._epoch}")
        self._epoch = epoch

    def job_begins(self, job_id: str, plan: JobPlan) -> None:
        """A coordinator is about to take a job."""
        self.check(job_id not in self.plans, f"job {job_id} was begun twice")
        self.plans[job_id] = plan

    def attached(self, hello: pb.Hello) -> None:
        """A coordinator takes an agent, and what it says it has."""
        self._slots.attached(hello)
        for report in hello.tasks:
            if report.state == pb.TASK_FINISHED:
                self.finished[task_id(report.key)] = None

    def decides(self, who: CoordinatorProcess, event: Event, effects: Sequence[Effect]) -> None:
        """Who is given up for its silence has stopped its tasks by then: its lease is over.

        What is counted of a job's tasks is what its tasks say.
        """
        for effect in effects:
            match effect:
                case Disconnect(agent_id=agent_id) if isinstance(event, Tick):
                    self._given_up(who, agent_id)
                case Note(event="agent lost", fields=fields):
                    agent_id = str(dict(fields)["agent"])
                    if not who.has_met(agent_id):  # an earlier coordinator knew it
                        self._given_up(who, agent_id)
                    self._slots.lost(agent_id)
                case JobChanged(job_id=job_id):
                    assert who.core is not None
                    self._counted(who.core, job_id)

    def _counted(self, core: CoordinatorCore, job_id: str) -> None:
        try:
            tasks, status = core.registry.tasks(job_id), core.registry.status(job_id, 0.0)
        except NotFoundError:  # released
            return
        newest = {(task.stage, task.task): task for task in tasks}  # in the order of attempts
        for stage in status.stages:
            states = [t.state for (number, _), t in newest.items() if number == stage.stage]
            found = (states.count(pb.TASK_RUNNING), states.count(pb.TASK_FINISHED))
            told = (stage.running, stage.finished)
            self.check(found == told, f"{job_id} has {found} tasks and counts {told} in {stage}")

    def _given_up(self, who: CoordinatorProcess, agent_id: str) -> None:
        agent = self.agents[agent_id]
        heard_s = [c.heard_s.get(agent_id, 0.0) for c in self.coordinators if c is not who]
        elsewhere = any(at_s >= who.leads_since_s for at_s in heard_s)  # a leader who was deposed
        if agent.alive and not agent.paused and not elsewhere:
            still = [str(task) for task, worker in agent.workers.items() if worker.goes_on]
            self.check(not still, f"{who.name} gave up {agent_id}, which goes on with {still}")

    def tells(self, who: CoordinatorProcess, agent_id: str, message: pb.CoordinatorMessage) -> None:
        """Of an attempt one agent only is told, and no older one afterwards."""
        kind = message.WhichOneof("kind")
        if kind == "cancel":
            for key in message.cancel.keys:
                self._slots.ended(task_id(key))
        if kind != "deploy":
            return
        deploy = message.deploy
        for assigned in deploy.tasks:
            task = TaskId(deploy.job_id, deploy.stage, assigned.task, assigned.attempt)
            other = self.deployed.setdefault(task, agent_id)
            self.check(other == agent_id, f"{task} was told to {other} and to {agent_id}")
            newest = self._newest.setdefault(task_of(task), assigned.attempt)
            self.check(newest <= assigned.attempt, f"{task} was told after attempt {newest}")
            self._newest[task_of(task)] = assigned.attempt
            self._slots.given(task, agent_id)
        assert who.core is not None
        used, slots = self._slots.used(agent_id, who.core), self.agents[agent_id].slots
        self.check(len(used) <= slots, f"{agent_id} has {slots} slots and was given {used}")

    def before_report(self, core: CoordinatorCore) -> int:
        """What `after_report` wants to know."""
        return core.refused.total()

    def after_report(self, core: CoordinatorCore, report: pb.TaskReport, before: int) -> None:
        """A report of an older attempt is refused and counted."""
        task = task_id(report.key)
        refused = core.refused.total() > before
        if task.attempt < self._newest.get(task_of(task), 0):
            self.n_refused_old += 1
            newest = self._newest[task_of(task)]
            self.check(refused, f"a report of {task} counted after attempt {newest}")
        if report.state in _OVER:
            self._slots.ended(task)
            if report.state == pb.TASK_FINISHED and not refused:
                self.finished[task] = None

    # ---- agents

    def sealed(self, place: Place, partitions: Partitions) -> None:
        """A task attempt sealed its output; the same attempt always holds the same."""
        truth = self._truth.setdefault(place, partitions)
        self.check(truth == partitions, f"{place} was sealed twice with different rows")

    def takes(self, who: TaskId | str, place: Place, partition: int, rows: Sequence[Row]) -> None:
        """A reader has rows: those of a sealed output, all of them."""
        truth = self._truth.get(place)
        self.check(truth is not None, f"{who} read {place}, which nobody sealed")
        assert truth is not None
        self.check(
            Counter(rows) == Counter(truth[partition]),
            f"{who} read {len(rows)} of {len(truth[partition])} rows of {place}:{partition}",
        )

    def moved(self, agent: AgentProcess) -> None:
        """After every event of an agent: no more tasks at once than it has slots."""
        if len(agent.workers) > agent.slots:
            alone = [str(task) for task, worker in agent.workers.items() if not worker.pipelined]
            self.check(len(alone) <= agent.slots, f"{agent.name} runs {alone} at once")

    def published(self, agent_id: str, handles: Sequence[bytes]) -> None:
        """Output is made visible: of the newest attempts only."""
        for handle in handles:
            job, _, rest = handle.decode().partition("@")[0].rpartition("/")
            numbers, _, attempt = rest.partition("#")
            stage, _, task = numbers.partition(".")
            newest = self._newest.get((job, int(stage), int(task)))
            self.check(
                newest == int(attempt),
                f"{agent_id} published {handle.decode()} of attempt {attempt}, newest is {newest}",
            )

    # ---- clients

    def acknowledged(self, key: str, job_id: str) -> None:
        """A client was told that its key has that job: for ever."""
        known = self._jobs.setdefault(key, job_id)
        self.check(known == job_id, f"key {key} has job {known} and job {job_id}")

    def told(self, status: pb.JobStatus) -> None:
        """A run of a job that has ended stays so."""
        run = (status.job_id, status.run)
        before = self._states.get(run)
        self._states[run] = status.state
        if before in ENDED and status.state not in (before, pb.JOB_RELEASED):
            names = pb.JobState.Name(before or 0), pb.JobState.Name(status.state)
            raise Violation(f"job {status.job_id} was {names[0]} and is {names[1]}")

    def refused(self, key: str, job_id: str, error: FabricError) -> None:
        """A client's call was refused: a job that was acknowledged is not forgotten."""
        forgotten = isinstance(error, NotFoundError) and job_id and "no job" in error.message
        self.check(not forgotten, f"job {job_id} of {key} is forgotten: {error.message}")


def task_of(task: TaskId) -> tuple[str, int, int]:
    """The task without its attempt."""
    return task.job, task.stage, task.task

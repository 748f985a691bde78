"""The simulator finds what is wrong: each bug planted here shows in one of the first 200 seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from fabric.agent.core import AgentCore
from fabric.agent.events import Effect, Event, Incoming, LeaseOver, RunSink
from fabric.agent.heartbeat import Lease
from fabric.control import control_pb2 as pb
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.core.effects import Persist
from fabric.coordinator.core.effects import Send as OrderTask
from fabric.coordinator.core.events import AgentSaid
from fabric.coordinator.election.election import Election
from fabric.coordinator.metadata.store import Table
from tests.support.sim import Parts, simulate
from tests.support.sim.database import SharedStore
from tests.support.sim.shelf import Shelf
from tests.support.sim.storage import LogStore
from tests.support.sim.worker import Worker

SEEDS_MAX = 200
SHOWN_BY = {
    "no fencing": 20, "lease off by one": 20, "abandoned output published": 101,
    "a deposed leader writes": 11,
}  # fmt: skip
"""Seeds that are tried first: they showed it the last time that somebody looked."""


class AcksBeforeWrite(LogStore):
    """Says that it has written, and leaves the rest to the disk."""

    def _sync(self) -> None:
        return


class ServesUnsealed(Shelf):
    """Gives away what is there, sealed or not."""

    def readable(self, output: object) -> bool:
        return True


class ReportsEarly(Worker):
    """Says that it has finished before its last rows are written."""

    def _end(self) -> None:
        self._prepare()
        self._agent.after(0.3, self._write_late)
        self._tell_success()

    def _write_late(self) -> None:
        self._append(last=True)
        self._seal()


class NoFence(AgentCore):
    """Goes on with its tasks when its lease is over."""

    def handle(self, event: Event) -> list[Effect]:
        return [] if isinstance(event, LeaseOver) else super().handle(event)


class LongLease(Lease):
    """Off by one: a heartbeat more than the coordinator waits."""

    def begin(self, seconds: float, now: float) -> None:
        super().begin(seconds + 1.0, now)


class TakesOldReports(CoordinatorCore):
    """What an older attempt says counts for the newest."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._newest: dict[tuple[str, int, int], tuple[int, int, str, int]] = {}

    def handle(self, event: Any, now: float) -> Any:
        if isinstance(event, AgentSaid) and event.message.WhichOneof("kind") == "task":
            message = pb.AgentMessage()
            message.CopyFrom(event.message)
            key = message.task.key
            known = self._newest.get((key.job_id, key.stage, key.task))
            if known is not None:
                key.attempt, key.epoch, agent_id, session = known
                event = replace(event, message=message, agent_id=agent_id, session=session)
        effects = super().handle(event, now)
        for effect in effects:
            if isinstance(effect, OrderTask) and effect.message.WhichOneof("kind") == "deploy":
                deploy = effect.message.deploy
                for task in deploy.tasks:
                    place = (deploy.job_id, deploy.stage, task.task)
                    who = (effect.agent_id, effect.session)
                    self._newest[place] = (task.attempt, deploy.epoch, *who)
        return effects


class Forgetful(CoordinatorCore):
    """Does not write down what it should of one table."""

    table: Table

    def handle(self, event: Any, now: float) -> Any:
        return [self._less(effect) for effect in super().handle(event, now)]

    def _less(self, effect: Any) -> Any:
        if not isinstance(effect, Persist):
            return effect
        return Persist(tuple(write for write in effect.writes if write.table != self.table))


class ForgetsAttempts(Forgetful):
    """Tells agents of attempts that it has not written down."""

    table = "tasks"


class ForgetsJobs(Forgetful):
    """Acknowledges jobs that it has not written down."""

    table = "jobs"


class ObeysAnybody(AgentCore):
    """Takes an older attempt for a newer one."""

    def _assign(self, job: Any, deploy: pb.Deploy, assignment: pb.TaskAssignment) -> Any:
        job.tasks.pop((deploy.stage, assignment.task), None)
        return super()._assign(job, deploy, assignment)


class PublishesAll(AgentCore):
    """Publishes what it was told to abandon."""

    def handle(self, event: Event) -> list[Effect]:
        return [self._turned(effect) for effect in super().handle(event)]

    def _turned(self, effect: Effect) -> Effect:
        if not isinstance(effect, RunSink):
            return effect
        command = pb.SinkCommand()
        command.CopyFrom(effect.command)
        command.publish.SetInParent()
        return RunSink(command)


class LosesRelease(AgentCore):
    """Keeps the partitions of released jobs."""

    def handle(self, event: Event) -> list[Effect]:
        kind = event.message.WhichOneof("kind") if isinstance(event, Incoming) else ""
        return [] if kind == "release" else super().handle(event)


class GivesTooMuch(CoordinatorCore):
    """Counts a slot more than each agent has."""

    def handle(self, event: Any, now: float) -> Sequence[Any]:
        known = [agent.hello for agent in self._agents.all()]
        for hello in known:
            hello.slots += 1
        effects = super().handle(event, now)
        for hello in known:
            hello.slots -= 1
        return effects


class TakesOldTerms(SharedStore):
    """Lets a deposed leader write."""

    def fence(self) -> None:
        return


class EndlessTerm(Election):
    """Leads for ever, once it led."""

    def leads(self, now: float) -> int:
        self._good_until = now
        return super().leads(now)

    def deposed(self, epoch: int) -> None:
        return


PLANTS = {
    "no fencing": Parts(agent_core=NoFence),
    "ack before write": Parts(store=AcksBeforeWrite),
    "forgotten attempt": Parts(coordinator_core=ForgetsAttempts),
    "lease off by one": Parts(lease=LongLease),
    "unsealed partition served": Parts(shelf=ServesUnsealed, worker=ReportsEarly),
    "older attempts count": Parts(coordinator_core=TakesOldReports),
    "job acknowledged and forgotten": Parts(coordinator_core=ForgetsJobs),
    "abandoned output published": Parts(agent_core=PublishesAll),
    "released partitions kept": Parts(agent_core=LosesRelease),
    "a slot too many": Parts(coordinator_core=GivesTooMuch),
    "a deposed leader writes": Parts(shared=TakesOldTerms, election=EndlessTerm),
    "a task started twice": Parts(agent_core=ObeysAnybody),
}


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str) -> None:
    for seed in (SHOWN_BY.get(name, 0), *range(SEEDS_MAX)):
        if simulate(seed, PLANTS[name]).violation:
            return
    pytest.fail(f"{SEEDS_MAX} seeds did not find: {name}")

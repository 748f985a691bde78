"""All parties of a run, and what joins them.

One job: `World`, built from a scenario.
"""

from __future__ import annotations

from dataclasses import replace

from fabric.coordinator.config import CoordinatorConfig
from tests.support.sim.agent import AgentProcess
from tests.support.sim.client import Client
from tests.support.sim.coordinator import Ask, CoordinatorProcess
from tests.support.sim.database import Database
from tests.support.sim.disk import File
from tests.support.sim.elected import ElectedCoordinator
from tests.support.sim.faults import Faults
from tests.support.sim.invariants import Invariants
from tests.support.sim.network import Network
from tests.support.sim.outside import Outside
from tests.support.sim.parts import Parts
from tests.support.sim.party import Party
from tests.support.sim.scenario import Scenario
from tests.support.sim.scheduler import Scheduler
from tests.support.sim.trace import Trace
from tests.support.sim.worker import Trouble

STOP_S = 5.0
GRACE_S = 6.0
RETAIN_S = 1e6
"""Clients release their jobs themselves."""


class World:
    """One run's parties, started."""

    def __init__(self, scenario: Scenario, parts: Parts) -> None:
        self.scenario, self._last_s = scenario, scenario.last_s
        self.scheduler = Scheduler(scenario.seed)
        self.trace, self.invariants, self.outside = Trace(), Invariants(), Outside()
        self.network = Network(self.scheduler, scenario.keepalive_s)
        self.network.weather = replace(scenario.weather)
        self.disk = File()
        self.database = Database(self.network, self.trace)
        self.coordinators = [self._coordinator(name, parts) for name in scenario.coordinators]
        self.trouble = Trouble()
        self.agents = [self._agent(name, parts) for name in scenario.agents]
        for agent in self.agents:
            agent.overloaded = scenario.overloaded
        self.invariants.coordinators = self.coordinators
        self.invariants.agents = {agent.name: agent for agent in self.agents}
        self.clients = [
            Client(
                plan,
                self.network,
                self.trace,
                coordinators=[c.name for c in self.coordinators],
                invariants=self.invariants,
            )
            for plan in scenario.jobs
        ]
        for party in self.parties():
            self.network.add(party)
            party.start()
        self.faults = Faults(self)

    def parties(self) -> list[Party]:
        """Everybody; the database only where it is used."""
        shared = [self.database] if len(self.coordinators) > 1 else []
        return [*shared, *self.coordinators, *self.agents, *self.clients]

    def reset(self, agent_id: str) -> None:
        """Break the link of an agent."""
        for agent in self.agents:
            if agent.name == agent_id and agent.alive and agent.session is not None:
                agent.session.reset()

    def drain(self, agent_id: str, lasts_s: float) -> None:
        """Somebody has an agent drained, and lets it work again later."""
        asker = self.clients[0]
        again = Ask("work again", agent_id)
        asker.ask_aside(
            Ask("drain", agent_id),
            lambda: self.scheduler.after(lasts_s, lambda: asker.ask_aside(again, lambda: None)),
        )

    def settled(self) -> bool:
        """Whether every client is done with its job."""
        return all(client.settled for client in self.clients)

    def over(self) -> bool:
        """Whether nothing more can happen to a job."""
        return self.scheduler.now > self._last_s and self.settled()

    def released(self) -> bool:
        """Whether every client's job was released."""
        return all(client.released for client in self.clients)

    def _coordinator(self, name: str, parts: Parts) -> CoordinatorProcess:
        config = CoordinatorConfig(
            heartbeat_s=self.scenario.heartbeat_s,
            timeout_s=self.scenario.timeout_s,
            stop_s=STOP_S,
            retain_s=RETAIN_S,
            lease_s=self.scenario.timeout_s,
            lease_grace_s=GRACE_S,
        )
        if len(self.scenario.coordinators) > 1:
            return ElectedCoordinator(
                name,
                self.network,
                self.trace,
                config=config,
                parts=parts,
                database=self.database,
                invariants=self.invariants,
            )
        return CoordinatorProcess(
            name,
            self.scheduler,
            self.trace,
            config=config,
            parts=parts,
            disk=self.disk,
            invariants=self.invariants,
        )

    def _agent(self, name: str, parts: Parts) -> AgentProcess:
        return AgentProcess(
            name,
            self.network,
            self.trace,
            slots=self.scenario.slots,
            coordinators=self.coordinators,
            parts=parts,
            outside=self.outside,
            invariants=self.invariants,
            trouble=self.trouble,
        )

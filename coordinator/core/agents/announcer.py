"""What all or some agents are told.

One job: messages to attached agents, each with the coordinator's epoch, and the versions of
location changes. A version holds the epoch in its upper half, so that it rises across restarts.
"""

from __future__ import annotations

from collections.abc import Iterable

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.agents.agents import Agent, Agents
from fabric.coordinator.core.effects import Effect, Send


class Announcer:
    """Makes `Send` effects; whoever is not attached is told nothing."""

    def __init__(self, agents: Agents, epoch: int) -> None:
        self._agents = agents
        self._epoch = epoch
        self._n_changes = 0

    @property
    def version(self) -> int:
        """The version of the location table that agents have been sent."""
        return (self._epoch << 32) + self._n_changes

    def number(self, n: int) -> int:
        """The n-th order of this coordinator, told from those of any other one."""
        return (self._epoch << 32) + n

    def send(self, agent: Agent, message: pb.CoordinatorMessage) -> list[Effect]:
        """One message on the agent's session; nothing while its link is broken."""
        if agent.session is None:
            return []
        message.epoch = self._epoch
        return [Send(agent.agent_id, agent.session, message)]

    def send_to(self, agent_id: str, message: pb.CoordinatorMessage) -> list[Effect]:
        """One message to an agent if it is attached."""
        agent = self._agents.get(agent_id)
        return self.send(agent, message) if agent is not None else []

    def tell(self, change: pb.Locations, agents: Iterable[Agent] | None = None) -> list[Effect]:
        """A location change, under the next version, to `agents` (None: everybody)."""
        self._n_changes += 1
        change.version = self.version
        message = pb.CoordinatorMessage(locations=change)
        told = self._agents.attached() if agents is None else agents
        return [effect for agent in told for effect in self.send(agent, message)]

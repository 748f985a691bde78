"""What people are told of agents."""

from __future__ import annotations

from collections.abc import Callable

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.agents.agents import Agent, Agents
from fabric.coordinator.core.agents.drain import Draining
from fabric.coordinator.core.agents.replication import Replication
from fabric.errors import NotFoundError


class AgentStatuses:
    """Of `agents`; `slots_used` says how many tasks one is at."""

    def __init__(
        self,
        agents: Agents,
        drain: Draining,
        replication: Replication,
        slots_used: Callable[[str], int],
    ) -> None:
        self._agents, self._draining, self._replication = agents, drain, replication
        self._slots_used = slots_used

    def all(self, now: float, *, lost: bool = False) -> list[pb.AgentStatus]:
        """Every agent, by id; with `lost` those that were lost lately, too."""
        found = [*self._agents.all(), *(self._agents.lost() if lost else ())]
        return [self.of(agent, now) for agent in sorted(found, key=lambda agent: agent.agent_id)]

    def one(self, agent_id: str, now: float) -> pb.AgentStatus:
        """One of them; `NotFoundError` when there is none."""
        for status in self.all(now):
            if status.agent_id == agent_id:
                return status
        known = ", ".join(self._agents.ids()) or "none is attached"
        raise NotFoundError(f"there is no agent {agent_id[:128]!r}; agents: {known}")

    def of(self, agent: Agent, now: float) -> pb.AgentStatus:
        """One agent, also one that is lost."""
        return pb.AgentStatus(
            agent_id=agent.agent_id,
            address=agent.hello.address,
            state=self._state_of(agent),
            slots=agent.hello.slots,
            running_tasks=agent.beat.running_tasks,
            stored_bytes=agent.beat.stored_bytes,
            rss_bytes=agent.beat.rss_bytes,
            seen_s_ago=max(0.0, now - agent.seen),
            version=agent.hello.version,
            memory_bytes=agent.hello.memory_bytes,
            host=agent.hello.host,
        )

    def _state_of(self, agent: Agent) -> str:
        """Where it is in its life, as the lists of agents show it."""
        if self._agents.get(agent.agent_id) is not agent:
            return "failed"
        if agent.session is None:
            return "starting"
        if agent.draining:
            is_empty = self._draining.is_empty(agent.agent_id)
            holds = not is_empty or self._replication.holds(agent.agent_id)
            return "draining" if holds else "drained"
        used = self._slots_used(agent.agent_id)
        return "busy" if agent.beat.overloaded or used >= agent.hello.slots else "active"

"""The agents that are attached.

One job: who is there, on which session, and who has been silent for too long. A coordinator that
was itself stopped for a while (a suspended machine, a stalled process) does not blame the agents.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fabric.control import control_pb2 as pb


@dataclass(slots=True)
class Agent:
    """One attached agent; `seen` is on the core's monotonic clock."""

    session: int
    hello: pb.Hello
    seen: float
    beat: pb.Heartbeat = field(default_factory=pb.Heartbeat)

    @property
    def agent_id(self) -> str:
        """Its id, which lives in its folder."""
        return self.hello.agent_id


class Agents:
    """Attached agents by id. `timeout_s` None means that silence is no sign of loss (embedded)."""

    def __init__(self, timeout_s: float | None) -> None:
        self._timeout_s = timeout_s
        self._agents: dict[str, Agent] = {}
        self._ticked: float | None = None

    def add(self, agent: Agent) -> None:
        """Attach; whoever had the id before is replaced."""
        self._agents[agent.agent_id] = agent

    def remove(self, agent_id: str) -> Agent:
        """Detach."""
        return self._agents.pop(agent_id)

    def get(self, agent_id: str) -> Agent | None:
        """The attached agent of that id."""
        return self._agents.get(agent_id)

    def on_session(self, agent_id: str, session: int) -> Agent | None:
        """The agent if it is attached by this very session."""
        agent = self._agents.get(agent_id)
        return agent if agent is not None and agent.session == session else None

    def all(self) -> list[Agent]:
        """Everybody, by id."""
        return [self._agents[agent_id] for agent_id in sorted(self._agents)]

    def ids(self) -> list[str]:
        """Everybody's id, in order."""
        return sorted(self._agents)

    def addresses(self) -> dict[str, str]:
        """Flight address by agent id."""
        return {agent.agent_id: agent.hello.address for agent in self.all()}

    def sockets(self) -> dict[str, pb.UnixSocket]:
        """Unix socket by agent id, of those that have one."""
        return {a.agent_id: a.hello.socket for a in self.all() if a.hello.HasField("socket")}

    def silent(self, now: float) -> list[tuple[Agent, float]]:
        """Whom nobody heard for longer than the timeout, and for how long; called at every tick."""
        if self._timeout_s is None:
            return []
        gap = now - self._ticked if self._ticked is not None else 0.0
        self._ticked = now
        if gap > self._timeout_s / 2:  # it was us who slept
            for agent in self.all():
                agent.seen = min(now, agent.seen + gap)
        return [(a, now - a.seen) for a in self.all() if now - a.seen > self._timeout_s]

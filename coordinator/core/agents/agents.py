"""The agents of a fabric: attached, waited for, lost; and the messages to them.

`Agents` knows who is there, on which session, and who has been away for too long. An agent whose
link broke may attach again for a moment, one that an earlier coordinator knew for the whole
timeout; its tasks go on meanwhile. A coordinator that was itself stopped for a while (a suspended
machine, a stalled process) does not blame the agents.

`Announcer` makes messages to attached agents, each with the coordinator's epoch, and numbers the
changes of locations. Such a version holds the epoch in its upper half, so that it rises across
restarts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from fabric.control import control_pb2 as pb
from fabric.coordinator.core.effects import Effect, Send

LOST_KEPT = 100
"""Lost agents that are still listed, as failed."""
PAST_KEPT = 200
"""Agents that are gone, of which the record is kept."""


@dataclass(slots=True)
class Agent:
    """One agent; `seen` and `until` are on the core's monotonic clock.

    Without a `session` its link is broken, and it is waited for `until` then.
    """

    session: int | None
    hello: pb.Hello
    seen: float
    until: float = 0.0
    draining: bool = False
    beat: pb.Heartbeat = field(default_factory=pb.Heartbeat)

    @property
    def agent_id(self) -> str:
        """Its id, which lives in its folder."""
        return self.hello.agent_id

    @property
    def is_there(self) -> bool:
        """Whether it is reached and is to stay."""
        return self.session is not None and not self.draining

    def takes_tasks(self, n_running: int) -> bool:
        """Whether it may be given more to do beside the tasks it has.

        Overloaded is said of the tasks of that heartbeat: it says nothing about an agent whose
        tasks have ended since.
        """
        return self.is_there and not (self.beat.overloaded and n_running > 0)


class Agents:
    """Agents by id. `timeout_s` None means that silence is no sign of loss (embedded)."""

    def __init__(self, timeout_s: float | None, reattach_s: float) -> None:
        self._timeout_s, self._reattach_s = timeout_s, reattach_s
        self._agents: dict[str, Agent] = {}
        self._lost: OrderedDict[str, Agent] = OrderedDict()
        self._past: OrderedDict[str, float] = OrderedDict()
        self._ticked: float | None = None

    @property
    def grows(self) -> bool:
        """Whether further agents may come: not where they are part of a session."""
        return self._timeout_s is not None

    @property
    def n_slots(self) -> int:
        """Of all attached agents that don't drain."""
        return sum(max(1, agent.hello.slots) for agent in self.attached() if not agent.draining)

    def attach(self, session: int, hello: pb.Hello, now: float) -> Agent:
        """The agent on its new session; whether it drains outlives its link."""
        before = self._agents.get(hello.agent_id)
        draining = before.draining if before is not None else False
        agent = Agent(session, hello, now, draining=draining)
        self._agents[agent.agent_id] = agent
        self._lost.pop(agent.agent_id, None)
        self._past.pop(agent.agent_id, None)
        return agent

    def expect(self, hello: pb.Hello, draining: bool, now: float) -> None:
        """Wait for an agent that an earlier coordinator knew."""
        wait_s = self._timeout_s or 0.0
        self._agents[hello.agent_id] = Agent(None, hello, now, now + wait_s, draining)

    def unlink(self, agent: Agent, now: float) -> None:
        """Its link is broken: it may attach again for a moment."""
        agent.session, agent.until = None, now + self._reattach_s

    def remove(self, agent_id: str, now: float, *, left: bool = False) -> Agent:
        """It is lost; or it `left`, and is not listed any more."""
        agent = self._agents.pop(agent_id)
        agent.session = None
        self._past[agent_id] = now
        if left:
            return agent
        self._lost[agent_id] = agent
        while len(self._lost) > LOST_KEPT:
            self._lost.popitem(last=False)
        return agent

    def remember(self, agent_id: str, now: float) -> None:
        """It was gone before this coordinator began; the longest ago first."""
        self._past[agent_id] = now

    def forget(self) -> list[str]:
        """Agents that were gone before so many others that nobody asks for their records."""
        n = max(0, len(self._past) - PAST_KEPT)
        return [self._past.popitem(last=False)[0] for _ in range(n)]

    def get(self, agent_id: str) -> Agent | None:
        """The agent of that id, unless it is lost."""
        return self._agents.get(agent_id)

    def away_s(self, agent_id: str, now: float) -> float | None:
        """For how long it has been away and may come back; None when it is here, or never was."""
        agent = self._agents.get(agent_id)
        if agent is not None:
            return None if agent.session is not None else 0.0
        gone = self._past.get(agent_id) if self.grows else None
        return None if gone is None else now - gone

    def on_session(self, agent_id: str, session: int) -> Agent | None:
        """The agent if it is attached by this very session."""
        agent = self._agents.get(agent_id)
        return agent if agent is not None and agent.session == session else None

    def all(self) -> list[Agent]:
        """Everybody who is not lost, by id."""
        return [self._agents[agent_id] for agent_id in sorted(self._agents)]

    def lost(self) -> list[Agent]:
        """Those that were lost, the last ones, by id."""
        return [self._lost[agent_id] for agent_id in sorted(self._lost)]

    def attached(self) -> list[Agent]:
        """Everybody with a link, by id."""
        return [agent for agent in self.all() if agent.session is not None]

    def ids(self) -> list[str]:
        """The id of everybody with a link, in order."""
        return [agent.agent_id for agent in self.attached()]

    def attached_or_first(self, agent_id: str) -> str | None:
        """An agent with a link: `agent_id` if it has one, else the first; None: nobody has one."""
        attached = self.ids()
        return agent_id if agent_id in attached else next(iter(attached), None)

    def hellos(self) -> dict[str, pb.Hello]:
        """What everybody said of itself, by id."""
        return {agent.agent_id: agent.hello for agent in self.all()}

    def addresses(self) -> dict[str, str]:
        """Flight address by agent id."""
        return {agent.agent_id: agent.hello.address for agent in self.all()}

    def sockets(self) -> dict[str, pb.UnixSocket]:
        """Unix socket by agent id, of those that have one."""
        return {a.agent_id: a.hello.socket for a in self.all() if a.hello.HasField("socket")}

    def is_used(self, hello: pb.Hello, now: float) -> bool:
        """Whether another process with this id is attached, and alive as far as one can tell."""
        agent = self._agents.get(hello.agent_id)
        if agent is None or agent.session is None or self._timeout_s is None:
            return False
        return agent.hello.address != hello.address and now - agent.seen < self._timeout_s

    def overdue(self, now: float) -> list[tuple[Agent, str]]:
        """Whom to wait for no longer, and why; called at every tick."""
        if self._timeout_s is None:
            return [(a, "its link broke") for a in self.all() if _late(a, now)]
        gap = now - self._ticked if self._ticked is not None else 0.0
        self._ticked = now
        if gap > self._timeout_s / 2:  # it was us who slept
            for agent in self.all():
                agent.seen, agent.until = min(now, agent.seen + gap), agent.until + gap
        found = [
            (a, "its link broke, and it did not come back") for a in self.all() if _late(a, now)
        ]
        for agent in self.attached():
            if (silence := now - agent.seen) > self._timeout_s:
                found.append((agent, f"it sent no heartbeat for {silence:.1f} s"))
        return found


def same_release(one: str, other: str) -> bool:
    """Whether processes of two versions understand each other; of what says none, nobody knows.

    >>> same_release("0.1.0", "0.1.3"), same_release("0.1.0", "0.2.0"), same_release("", "0.2.0")
    (True, False, True)
    """
    numbers = [version.split(".")[:2] for version in (one, other) if version[:1].isdigit()]
    return len(numbers) < 2 or numbers[0] == numbers[1]


def _late(agent: Agent, now: float) -> bool:
    return agent.session is None and now >= agent.until


class Announcer:
    """Makes `Send` effects; whoever is not attached is told nothing."""

    def __init__(self, agents: Agents, epoch: int) -> None:
        self._agents = agents
        self._epoch = epoch
        self._n_changes = 0
        self.outdated = False
        """Whether agents list edges that a job has no more: they are to be sent the whole table."""

    @property
    def version(self) -> int:
        """The version of the location table that agents have been sent."""
        return (self._epoch << 32) + self._n_changes

    def number(self, n: int) -> int:
        """The n-th order of this coordinator, told from those of any other one."""
        return (self._epoch << 32) + n

    def send(self, agent_id: str, message: pb.CoordinatorMessage) -> list[Effect]:
        """One message to an agent if it is attached."""
        agent = self._agents.get(agent_id)
        if agent is None or agent.session is None:
            return []
        message.epoch = self._epoch
        return [Send(agent_id, agent.session, message)]

    def send_all(
        self, message: pb.CoordinatorMessage, agents: Iterable[Agent] | None = None
    ) -> list[Effect]:
        """One message to `agents` (None: everybody)."""
        told = self._agents.attached() if agents is None else agents
        return [effect for agent in told for effect in self.send(agent.agent_id, message)]

    def tell(self, change: pb.Locations, agents: Iterable[Agent] | None = None) -> list[Effect]:
        """A location change, under the next version, to `agents` (None: everybody)."""
        self._n_changes += 1
        change.version = self.version
        return self.send_all(pb.CoordinatorMessage(locations=change), agents)

"""How a coordinator reaches its agents.

`Line` is the link of one session, `AgentLinks` has the newest of each agent. Messages pass
failpoints on their way.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from fabric import failpoints
from fabric.control import control_pb2 as pb
from fabric.control.link import OnMessage

OnDisconnect = Callable[[str], None]
"""Told why the coordinator gives a link up."""


@dataclass(frozen=True, slots=True)
class Line:
    """The link of one session."""

    session: int
    send: OnMessage
    disconnect: OnDisconnect


class AgentLinks:
    """The newest link of each agent; any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[str, Line] = {}

    def put(self, agent_id: str, line: Line) -> Line | None:
        """Have a link take the place of an agent's older one, which is returned."""
        with self._lock:
            old, self._lines[agent_id] = self._lines.get(agent_id), line
        return old

    def session(self, agent_id: str) -> int:
        """The number of an agent's newest session; -1: it has none."""
        with self._lock:
            line = self._lines.get(agent_id)
        return line.session if line is not None else -1

    def get(self, agent_id: str, session: int) -> Line | None:
        """The link of a session, if it is the agent's newest."""
        with self._lock:
            line = self._lines.get(agent_id)
        return line if line is not None and line.session == session else None

    def take(self, agent_id: str, session: int) -> Line | None:
        """Forget the link of a session, if it is the agent's newest, and return it."""
        with self._lock:
            line = self._lines.get(agent_id)
            return self._lines.pop(agent_id) if line and line.session == session else None

    def all(self) -> list[Line]:
        """Every link."""
        with self._lock:
            return list(self._lines.values())

    def send(self, agent_id: str, session: int, message: pb.CoordinatorMessage) -> Exception | None:
        """Send on the link of a session, if it is there; why that failed."""
        if (line := self.get(agent_id, session)) is None:
            return None
        reach_sending(message)
        try:
            line.send(message)
        except Exception as error:  # a link's fault must not stop the others
            return error
        return None


def forget(reason: str) -> None:
    """The `disconnect` of a link that has none."""


def reach_sending(message: pb.CoordinatorMessage) -> None:
    """The failpoint of what is about to be sent, if it has one."""
    match message.WhichOneof("kind"):
        case "deploy":
            failpoints.reach("coordinator.sending")
        case "trigger":
            failpoints.reach("checkpoint.begun")
        case "ended" if message.ended.complete:
            failpoints.reach("checkpoint.complete")
        case "sink" if message.sink.publish.checkpoint:
            failpoints.reach("checkpoint.publishing")


def reach_received(message: pb.AgentMessage) -> None:
    """The failpoint of what has come, if it has one."""
    sink = message.sink
    if sink.published.checkpoint or sink.taken_back.checkpoint:
        failpoints.reach("checkpoint.published")

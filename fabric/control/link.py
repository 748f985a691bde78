"""The way between one agent and its coordinator, as the agent sees it.

One job: the `AgentLink` protocol, and `LocalLink`, which joins the two inside one process. The
network link is `fabric.control.grpc_link.GrpcLink`. An agent opens its link with a hello, then
sends reports whenever it likes; what the coordinator says comes to `on_message` in one thread, in
order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from fabric.control import control_pb2 as pb
from fabric.errors import FabricError, PeerLostError

OnMessage = Callable[[pb.CoordinatorMessage], None]
"""Takes what the coordinator says; must not block, since heartbeats' answers wait behind it."""

OnLost = Callable[[FabricError], None]
"""Told once when the link is gone; after that the link may be opened again."""

Beat = Callable[[], pb.Heartbeat]
"""What a heartbeat says now, with its number; must not block. It is sent at once."""


def idle_beat() -> pb.Heartbeat:
    """A heartbeat that says nothing but "alive"."""
    return pb.Heartbeat()


class AgentLink(Protocol):
    """One agent's line to the coordinator."""

    def open(
        self, hello: pb.Hello, on_message: OnMessage, on_lost: OnLost, beat: Beat = idle_beat
    ) -> None:
        """Say hello; the first message that comes back is `Welcome`, the second all `Locations`.

        Raises `PeerLostError` or `AuthError` when the coordinator can't be reached or refuses.
        """

    def send(self, message: pb.AgentMessage) -> None:
        """Send without waiting, in order; on a lost link the message is dropped."""

    def close(self) -> None:
        """Say goodbye and stop; `on_lost` is not told."""


class AgentPort(Protocol):
    """The side of a coordinator that links plug into; `CoordinatorRuntime` has it."""

    def attach(self, agent_id: str, hello: pb.Hello, send: OnMessage) -> int:
        """Register an agent; `send` must not block. Returns the number of this session."""

    def receive(self, agent_id: str, message: pb.AgentMessage, session: int | None = None) -> None:
        """Take a message of an agent; one of an older session is refused and counted."""

    def detach(self, agent_id: str, reason: str, session: int | None = None) -> None:
        """The agent's link is gone."""


class LocalLink:
    """A link inside one process: no sockets, no heartbeats (an embedded agent can't be lost)."""

    def __init__(self, port: AgentPort) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._open: tuple[str, int] | None = None

    def open(
        self, hello: pb.Hello, on_message: OnMessage, on_lost: OnLost, beat: Beat = idle_beat
    ) -> None:
        """See `AgentLink.open`; `on_lost` is never told."""
        session = self._port.attach(hello.agent_id, hello, on_message)
        with self._lock:
            self._open = (hello.agent_id, session)

    def send(self, message: pb.AgentMessage) -> None:
        """See `AgentLink.send`."""
        with self._lock:
            current = self._open
        if current is None:
            raise PeerLostError("the link to the coordinator is not open; open it first")
        agent_id, session = current
        self._port.receive(agent_id, message, session)

    def close(self) -> None:
        """See `AgentLink.close`."""
        with self._lock:
            current, self._open = self._open, None
        if current is not None:
            agent_id, session = current
            goodbye = pb.AgentMessage(goodbye=pb.Goodbye(reason="the agent was closed"))
            self._port.receive(agent_id, goodbye, session)
            self._port.detach(agent_id, "the agent was closed", session)

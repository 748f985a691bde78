"""How a coordinator reaches an agent.

One job: `Line`, one for each session, and the failpoints that messages pass on their way.
"""

from __future__ import annotations

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
        case "sink" if message.sink.publish and message.sink.checkpoint:
            failpoints.reach("checkpoint.publishing")


def reach_received(message: pb.AgentMessage) -> None:
    """The failpoint of what has come, if it has one."""
    if message.WhichOneof("kind") == "sink" and message.sink.checkpoint:
        failpoints.reach("checkpoint.published")

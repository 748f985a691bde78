"""How a coordinator reaches an agent.

One job: `Line`, one for each session.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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

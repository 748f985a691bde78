"""Processes of a local fabric that came by a failpoint, and how they are brought back.

One job: `hit_agent` and `hit_coordinator`, who came by, and `overcome`, a coordinator again.
"""

from __future__ import annotations

import signal

from tests.support.local import LocalFabric
from tests.support.wait import wait_until


def hit_agent(running: LocalFabric, name: str) -> int | None:
    """The agent that came by the failpoint."""
    for i, agent in enumerate(running.agents):
        if agent.said(f"failpoint {name}:") is not None:
            return i
    return None


def wait_hit(running: LocalFabric, name: str, within_s: float) -> int:
    """The agent that comes by the failpoint, once it has."""
    wait_until(lambda: hit_agent(running, name) is not None, within_s)
    victim = hit_agent(running, name)
    assert victim is not None
    return victim


def hit_coordinator(running: LocalFabric, name: str) -> bool:
    """Whether the coordinator came by the failpoint."""
    assert running.coordinator is not None
    return running.coordinator.said(f"failpoint {name}:") is not None


def overcome(running: LocalFabric, action: str) -> None:
    """Start a dead coordinator anew; wake a frozen one once no agent believes in it any more."""
    coordinator = running.coordinator
    assert coordinator is not None
    if action == "exit":
        assert coordinator.process.wait(60) == 137
        running.kill_coordinator()
        running.start_coordinator()
    else:
        wait_until(lambda: all("lease over" in a.log.read_text() for a in running.agents), 60.0)
        coordinator.process.send_signal(signal.SIGCONT)

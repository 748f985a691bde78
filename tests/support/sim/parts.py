"""What a simulated fabric is made of.

One job: `Parts`, the classes that processes are built from. Tests put a broken one in the place of
a sound one, to see that it is found out.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.agent.core import AgentCore
from fabric.agent.heartbeat import Lease
from fabric.coordinator.core.core import CoordinatorCore
from fabric.coordinator.election.election import Election
from tests.support.sim.database import SharedStore
from tests.support.sim.shelf import Shelf
from tests.support.sim.storage import LogStore
from tests.support.sim.worker import Worker


@dataclass(frozen=True, slots=True)
class Parts:
    """The real cores, and the simulated things around them."""

    coordinator_core: type[CoordinatorCore] = CoordinatorCore
    agent_core: type[AgentCore] = AgentCore
    store: type[LogStore] = LogStore
    shared: type[SharedStore] = SharedStore
    shelf: type[Shelf] = Shelf
    worker: type[Worker] = Worker
    lease: type[Lease] = Lease
    election: type[Election] = Election

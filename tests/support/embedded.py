"""A whole fabric in this process, of real parts, without sockets.

One job: `embedded_pair`: one coordinator and n agents that read each other's partitions through
the in-process transport. Leaving the block stops every thread and removes every file.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from fabric._cython.shuffle.store.store import Store
from fabric.agent.engine import Engine, Services
from fabric.agent.runtime import AgentRuntime
from fabric.agent.slot.pool import SlotPool
from fabric.clock import Clock, SystemClock
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.control.link import LocalLink
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.flight.backend import Backend
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.locations import LocationTable
from fabric.io.dataset.access import DatasetAccess, DatasetFiles
from fabric.plan.nodes import Node, NodeConfig
from fabric.security.tokens import Signer
from tests.support import running


@dataclass(frozen=True, slots=True)
class EmbeddedFabric:
    """What `embedded_pair` yields."""

    control: CoordinatorRuntime
    agents: list[AgentRuntime]
    transport: InProcessTransport

    def submit(
        self,
        root: Node,
        *,
        parallelism: int = 0,
        config: dict[str, NodeConfig] | None = None,
        adaptive: pb.Adaptive | None = None,
    ) -> str:
        """Start a plan; `parallelism` 0 is the number of agents. Returns the job's id."""
        n = parallelism or len(self.agents)
        return running.submit(self.control, root, n, config, adaptive)

    def wait(self, job_id: str) -> pb.JobStatus:
        """The status in which a job ended; its error is raised."""
        return running.wait(self.control, job_id)

    def collect(
        self, root: Node, *, parallelism: int = 0, config: dict[str, NodeConfig] | None = None
    ) -> pa.Table:
        """Run a plan, take its rows, release the job."""
        job_id = self.submit(root, parallelism=parallelism, config=config)
        try:
            self.wait(job_id)
            return running.result(self.control, self.transport, job_id)
        finally:
            self.control.release(pb.JobRequest(job_id=job_id))


@contextmanager
def embedded_pair(
    n_agents: int = 2,
    *,
    slots: int = 2,
    clock: Clock | None = None,
    engine: Engine | None = None,
    pool: SlotPool | None = None,
    config: CoordinatorConfig | None = None,
) -> Iterator[EmbeddedFabric]:
    """A coordinator and `n_agents` agents of `slots` slots in this process.

    With a `pool`, which the caller closes, tasks with Python functions have processes of their own.
    """
    signer = Signer(secrets.token_bytes(32))
    clock, engine = clock or SystemClock(), engine or Engine(signer)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fabric-test-")))
        config = config or CoordinatorConfig(
            checkpoint=CheckpointConfig(folder=str(folder / "checkpoints"))
        )
        control = stack.enter_context(
            CoordinatorRuntime(clock=clock, embedded=True, signer=signer, config=config)
        )
        transport = InProcessTransport()
        stack.callback(transport.close)
        agents = []
        for number in range(n_agents):
            backend = _backend(f"agent-{number}", folder, control, transport)
            agent = stack.enter_context(_agent(backend, slots, clock, engine, pool))
            agents.append(agent)
            agent.attach()
        yield EmbeddedFabric(control, agents, transport)


def _backend(
    agent_id: str, folder: Path, control: CoordinatorRuntime, transport: InProcessTransport
) -> Backend:
    backend = Backend(
        agent_id=agent_id,
        source=Store(agent_id),
        locations=LocationTable(),
        datasets=DatasetFiles(folder / agent_id, agent_id),
        control=control,
        transport=transport,
    )
    transport.register(f"local:{agent_id}", backend.source, backend.datasets, backend.exchanges)
    return backend


def _agent(
    backend: Backend, slots: int, clock: Clock, engine: Engine, pool: SlotPool | None
) -> AgentRuntime:
    agent_id = backend.agent_id
    assert isinstance(backend.source, Store)
    assert isinstance(backend.control, CoordinatorRuntime)
    assert isinstance(backend.datasets, DatasetFiles)
    return AgentRuntime(
        hello=pb.Hello(agent_id=agent_id, address=f"local:{agent_id}", slots=slots, cpus=1),
        link=LocalLink(backend.control),
        services=Services(
            agent_id=agent_id,
            store=backend.source,
            transport=backend.transport,
            engine=engine,
            clock=clock,
            slots=pool,
        ),
        locations=backend.locations,
        datasets=backend.datasets,
        served=backend.exchanges,
        access=DatasetAccess(
            control=backend.control,
            transport=backend.transport,
            locations=backend.locations,
            agent_id=backend.agent_id,
            views=backend.datasets.views,
        ),
    )

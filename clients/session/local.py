"""A coordinator and an agent in this process: the default session.

One job: put the parts together, without sockets, and take them apart again. This is the one module
of `clients/` that imports `agent` and `coordinator`, and it is imported when the first embedded
session starts.
"""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from fabric._cython.shuffle.store.store import Store
from fabric.agent.engine import Engine, Services
from fabric.agent.kept_states import kept_states_of, serve_states
from fabric.agent.runtime import AgentRuntime
from fabric.agent.state_cuts import Cut
from fabric.clients.dataframe.durations import Length
from fabric.clients.job.dry_run import may_run
from fabric.clients.job.host import LOSSLESS, Partition, partitions_of
from fabric.clients.job.stream_name import Parallelism, StreamName
from fabric.clients.session.kept_state import StateFacts, StatePath
from fabric.clients.session.session import Session
from fabric.clock import SystemClock
from fabric.config import FabricHome
from fabric.control import control_pb2 as pb
from fabric.control.link import LocalLink
from fabric.coordinator.config import CoordinatorConfig
from fabric.coordinator.runtime.log import say
from fabric.coordinator.runtime.runtime import CoordinatorRuntime
from fabric.errors import ConfigError, FabricError, NotFoundError, StorageError
from fabric.flight.backend import Backend
from fabric.flight.inprocess import InProcessTransport, read_result
from fabric.flight.locations import LocationTable
from fabric.ids import new_id
from fabric.io import places
from fabric.io.dataset.access import DatasetAccess, DatasetFiles
from fabric.io.sinks.live import Feed, opened
from fabric.object_urls import is_object_url
from fabric.plan.nodes import Plan
from fabric.plan.stream_facts import is_endless
from fabric.plan.targets import LiveTarget
from fabric.security.secret import check_folder
from fabric.security.tokens import Signer
from fabric.telemetry.logs import logger

if TYPE_CHECKING:
    from fabric.clients.dataframe.frame import DataFrame
    from fabric.clients.job.job import Job

_log = logger("fabric.session")

_TOKEN_S = 30 * 24 * 3600.0
_NOT_SERVED = "this session serves no Flight clients; open it with fabric.connect(serve=True)"


class EmbeddedSession(Session):
    """Everything in this process; with `serve` also a Flight server on a free local port."""

    def __init__(
        self,
        *,
        serve: bool = False,
        parallelism: int | None = None,
        latency: Length | None = None,
    ) -> None:
        with ExitStack() as stack:
            self._signer = Signer(secrets.token_bytes(32))
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="fabric-"))
            self._config = CoordinatorConfig()
            stack.enter_context(places.guarding(self._config.guarded(Path(folder))))
            runtime = CoordinatorRuntime(
                embedded=True, signer=self._signer, config=self._config, log=say
            )
            coordinator = stack.enter_context(runtime)
            self._transport = InProcessTransport()
            stack.callback(self._transport.close)
            agent_id = new_id("agent")
            backend = _backend(agent_id, coordinator, self._transport, Path(folder))
            assert isinstance(backend.datasets, DatasetFiles)
            self._views, self._kept_states = backend.datasets.views, kept_states_of(backend)
            self._url = self._serve(backend, stack) if serve else ""
            address = self._url or f"local:{agent_id}"
            self._transport.register(address, backend.source, backend.datasets)
            slots = max(os.cpu_count() or 1, parallelism or 1)
            agent = _agent(backend, coordinator, address, slots, self._signer)
            stack.enter_context(agent).attach()
            self._streams: set[str] = set()
            super().__init__(coordinator, parallelism=parallelism, latency=latency)
            self._parts = stack.pop_all()

    def _serve(self, backend: Backend, stack: ExitStack) -> str:
        from fabric.flight.server import FabricFlightServer

        server = FabricFlightServer(backend, self._signer)
        stack.callback(server.stop)
        return f"grpc+tcp://127.0.0.1:{server.port}"

    def submit(
        self,
        plan: Plan | DataFrame,
        name: str = "",
        *,
        parallelism: Parallelism | None = None,
        latency: Length | None = None,
        stream: StreamName | None = None,
    ) -> Job:
        """See `Session`; there is a place for the checkpoints of a stream before it starts."""
        given = plan if isinstance(plan, Plan) else plan.plan
        endless = is_endless(given.root)
        if endless:
            may_run(given, self, stream)
            _make_room(self._config.checkpointing(self._checkpoint).folder)
        job = super().submit(given, name, parallelism=parallelism, latency=latency, stream=stream)
        if endless and stream is None:
            self._streams.add(job.id)
        return job

    def result_batches(self, status: pb.JobStatus) -> Iterator[pa.RecordBatch]:
        """See `Session`; read straight from the agent's memory."""
        located = self.control.locate(pb.LocateRequest(job_id=status.job_id))
        yield from read_result(located, status.job_id, self._transport)

    def view_rows(
        self, address: str, name: str, partition: int, keys: pa.Table, *, live: bool
    ) -> pa.Table:
        """See `Session`; straight from the task."""
        schema, rows = self._views.get(name, partition, keys, live=live)
        return pa.Table.from_batches(rows, schema)

    def state_facts(self, path: StatePath) -> StateFacts:
        """See `Session`."""
        return self._kept_states.cuts.read(path[1:], _facts)

    def states(self, job: str = "") -> list[StateFacts]:
        """See `Session`."""
        return [_facts(cut) for cut in self._kept_states.cuts.all(job)]

    def state_rows(self, path: StatePath, limit: int = 0) -> pa.Table:
        """See `Session`; straight from the files of the checkpoint."""
        return self._kept_states.table(*path[1:], limit)

    def state_rows_of(self, path: StatePath, keys: pa.Table) -> pa.Table:
        """See `Session`."""
        schema, rows = self._kept_states.get(*path[1:], keys)
        return pa.Table.from_batches(rows, schema)

    def partitions(self, status: pb.JobStatus, node_path: str, lossless: bool) -> list[Partition]:
        """See `Session`; `NotFoundError` when this session does not serve."""
        from fabric.flight.client import Client

        path = ("job", status.job_id, node_path)
        with Client(self.flight_url, self.token) as client:
            info = client.info(path, headers=[LOSSLESS] if lossless else ())
            return list(partitions_of(info, path))

    @property
    def flight_url(self) -> str:
        """See `Session`."""
        if not self._url:
            raise NotFoundError(_NOT_SERVED)
        return self._url

    @property
    def token(self) -> str:
        """See `Session`."""
        if not self._url:
            raise NotFoundError(_NOT_SERVED)
        return self._signer.token("submit", "embedded", _TOKEN_S, SystemClock().wall_s())

    def live(self, feed: Feed) -> AbstractContextManager[LiveTarget]:
        """See `Session`; straight from the tasks."""
        return opened(feed)

    def _prepared(self, plan: Plan) -> Plan:
        """Agents of this process read its tables where they are."""
        return plan

    def leaving(self) -> None:
        """See `Session`; jobs here end with the program."""
        asked = pb.ListRequest(states=[pb.JOB_QUEUED, pb.JOB_RUNNING])
        for job in self.control.list_jobs(asked).jobs:
            _log.warning(
                "the program ends, and a job that runs with it", job=job.job_id, name=job.name,
                hint="job.wait() waits for its end",
            )  # fmt: skip

    def _stop(self) -> None:
        """Nobody goes on from the checkpoints of a stream that ended well and has no name."""
        ended = pb.ListRequest(states=[pb.JOB_FINISHED, pb.JOB_CANCELLED])
        with suppress(FabricError):  # they stay then
            for job in self.control.list_jobs(ended).jobs if self._streams else ():
                if job.job_id in self._streams:
                    self.control.release(pb.JobRequest(job_id=job.job_id))
        self._parts.close()

    def __repr__(self) -> str:
        return f"Session(embedded{', at ' + self._url if self._url else ''})"


def _facts(cut: Cut) -> StateFacts:
    return StateFacts(cut.path, cut.state.schema, cut.state.keys, cut.checkpoint)


def _make_room(folder: str) -> None:
    """Have the folder of checkpoints there, or say why it can't be."""
    if is_object_url(folder):
        return  # its tasks say why it can't be reached
    path, home = Path(folder), FabricHome()
    other = "name another: session.checkpoints(folder=...), or set FABRIC_HOME"
    if path.parent == home.root:
        try:
            check_folder(home.create().root)
        except StorageError as error:
            raise StorageError(f"{error.message}; checkpoints lie there, {other}") from error
    if not path.parent.is_dir():
        raise NotFoundError(
            f"there is no folder {path.parent}, and checkpoints are to lie in {path}; create it, "
            f"or {other}"
        )
    if path.exists() and not path.is_dir():
        raise ConfigError(f"checkpoints lie in a folder, and {path} is a file; {other}")
    if not os.access(path if path.is_dir() else path.parent, os.W_OK):
        raise StorageError(f"checkpoints can't be written to {path} by this user; {other}")
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise StorageError(f"can't make the folder {path}: {error.strerror}; {other}") from error


def _backend(
    agent_id: str, coordinator: CoordinatorRuntime, transport: InProcessTransport, folder: Path
) -> Backend:
    """What the one agent holds; its datasets live as long as the session."""
    return Backend(
        agent_id=agent_id,
        source=Store(agent_id),
        locations=LocationTable(),
        datasets=(datasets := DatasetFiles(folder, agent_id)),
        control=coordinator,
        transport=transport,
        states=serve_states(coordinator, datasets, agent_id, folder / "states"),
    )


def _agent(
    backend: Backend, coordinator: CoordinatorRuntime, address: str, slots: int, signer: Signer
) -> AgentRuntime:
    """The agent over `backend`."""
    hello = pb.Hello(
        agent_id=backend.agent_id,
        address=address,
        host=socket.gethostname(),
        slots=slots,
        cpus=os.cpu_count() or 1,
    )
    assert isinstance(backend.source, Store)
    assert isinstance(backend.datasets, DatasetFiles)
    return AgentRuntime(
        hello=hello,
        link=LocalLink(coordinator),
        services=Services(
            agent_id=backend.agent_id,
            store=backend.source,
            transport=backend.transport,
            engine=Engine(signer),
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

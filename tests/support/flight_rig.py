"""Flight servers of several agents without agents: for tests of everything that speaks Flight.

One job: `FlightRig`, n real servers on loopback that share one catalogue and one location table
each, with partitions given as tables. No coordinator process, no tasks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa

from fabric._cython.shuffle.checksum import batch_crc32c
from fabric._cython.shuffle.exchange.exchanges import JobPipes
from fabric._cython.shuffle.store.store import Store
from fabric._cython.shuffle.wire import headers
from fabric.clock import Clock, SystemClock
from fabric.config import Limits
from fabric.control import control_pb2 as pb
from fabric.coordinator.catalog.catalogue import Catalogue
from fabric.errors import FabricError, NotFoundError, PartitionLostError
from fabric.flight.backend import Backend
from fabric.flight.client import Client
from fabric.flight.header import EdgeHeader, Event
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.locations import LocationTable
from fabric.flight.remote import FlightTransport
from fabric.flight.server import FabricFlightServer
from fabric.ids import EdgeId, PartitionId, new_id
from fabric.io.dataset.access import DatasetAccess, DatasetFiles
from fabric.security.tokens import Scope, Signer

SECRET = b"a secret of thirty-two bytes...."


class TableSource:
    """A `PartitionSource` over tables: ``{(job, edge, partition, (task, attempt)): table}``."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, int, int, tuple[int, int]], pa.Table] = {}
        self.batch_rows = 1000

    def edge_schema(self, job: str, edge: int) -> pa.Schema:
        """The schema of any of the edge's tables."""
        for key, table in self.tables.items():
            if key[:2] == (job, edge):
                return table.schema
        raise NotFoundError(f"edge {edge} has no partitions on this agent", job=job)

    def open(
        self,
        job: str,
        edge: int,
        partition: int,
        producers: Sequence[tuple[int, int]],
        checksums: bool = True,
    ) -> Messages:
        """See `PartitionSource.open`."""
        return Messages(self.read(job, edge, partition, producers, checksums=checksums))

    def read(
        self,
        job: str,
        edge: int,
        partition: int,
        producers: Sequence[tuple[int, int]],
        *,
        checksums: bool = True,
    ) -> Iterator[tuple[bytes, pa.RecordBatch]]:
        """Messages with headers, as the protocol says."""
        for producer in producers:
            table = self.tables.get((job, edge, partition, producer))
            if table is None:
                raise PartitionLostError(f"partition {partition} is not here", job=job)
            of = PartitionId(EdgeId(job, edge), *producer, partition)
            batches = table.to_batches(max_chunksize=self.batch_rows)
            for sequence, batch in enumerate(batches):
                yield rows_header(of, sequence, batch, checksum=checksums), batch
            yield (
                end_header(of, len(batches), table.num_rows, table.nbytes),
                pa.RecordBatch.from_pylist([], table.schema),
            )


class Messages:
    """Messages one at a time, as a `MessageStream`."""

    def __init__(self, messages: Iterator[tuple[bytes, pa.RecordBatch]]) -> None:
        self._messages = messages

    def take(self) -> list[tuple[bytes, pa.RecordBatch]]:
        """The next one."""
        return [found] if (found := next(self._messages, None)) is not None else []


class RigControl:
    """The coordinator's part: the dataset catalogue and the edges, pushed to every agent."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.catalogue = Catalogue()
        self.tables: dict[str, LocationTable] = {}
        self.addresses: dict[str, str] = {}
        self.edges: list[pb.EdgeLocation] = []
        self.jobs = pb.JobList()
        self.version = 0
        self.n_located = 0
        self.fails: FabricError | None = None

    def push(self, **changes: object) -> None:
        """Tell every agent."""
        with self.lock:
            self.version += 1
            message = pb.Locations(version=self.version, addresses=self.addresses)
            message.MergeFrom(pb.Locations(**changes))  # type: ignore[arg-type]
            for table in self.tables.values():
                table.apply(message)

    def locate(self, request: pb.LocateRequest) -> pb.Locations:
        """See `FlightControl.locate`."""
        with self.lock:
            self.n_located += 1
            if self.fails:
                raise self.fails
            if request.job_id:
                found = [edge for edge in self.edges if edge.job_id == request.job_id]
                if not found:
                    raise NotFoundError(f"there is no job {request.job_id}")
                return pb.Locations(edges=found, addresses=self.addresses)
            location = self.catalogue.locate(request.dataset)
            return pb.Locations(datasets=[location], addresses=self.addresses)

    def dataset(self, request: pb.DatasetRequest) -> pb.DatasetReply:
        """See `FlightControl.dataset`."""
        with self.lock:
            if self.fails:
                raise self.fails
            match request.WhichOneof("kind"):
                case "begin":
                    begun, _ = self.catalogue.begin(
                        request.begin, new_id("tx"), sorted(self.addresses), 0.0
                    )
                    return pb.DatasetReply(
                        transaction=begun.transaction,
                        location=begun.location(),
                        addresses=self.addresses,
                    )
                case "commit":
                    location, _, changed = self.catalogue.commit(request.commit)
                    if changed is not None:
                        self.push(datasets=[location])
                    return pb.DatasetReply(location=location, addresses=self.addresses)
                case "take_back":
                    _, without = self.catalogue.take_back(request.take_back.transaction)
                    if without is not None:
                        self.push(datasets=[without])
                case "abort":
                    self.catalogue.abort(request.abort.transaction)
                case "drop":
                    self.catalogue.drop(request.drop.name)
                    self.push(dropped_datasets=[request.drop.name])
                case _:
                    return pb.DatasetReply(datasets=self.catalogue.all(), addresses=self.addresses)
            return pb.DatasetReply()

    def cancel(self, request: pb.JobRequest) -> pb.JobStatus:
        """See `FlightControl.cancel`."""
        with self.lock:
            for job in self.jobs.jobs:
                if job.job_id == request.job_id:
                    job.state = pb.JOB_CANCELLED if job.state <= pb.JOB_RUNNING else job.state
                    return job
            raise NotFoundError(f"there is no job {request.job_id}")

    def list_jobs(self, request: pb.ListRequest) -> pb.JobList:
        """See `FlightControl.list_jobs`."""
        return self.jobs


class FlightRig:
    """Servers of agents ``a0``, ``a1``, ... with files below `folder`; use it in a `with`.

    An agent with one of `stores` serves that, others serve their `sources`.
    """

    def __init__(
        self,
        folder: Path,
        n_agents: int = 2,
        *,
        clock: Clock | None = None,
        idle_s: float = 30.0,
        tap_idle_s: float = 30.0,
        stores: Mapping[str, Store] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.signer = Signer(SECRET)
        self.clock = clock or SystemClock()
        self.control = RigControl()
        self._tap_idle_s, self._limits = tap_idle_s, limits
        self.local = InProcessTransport()
        self.sources = {f"a{n}": TableSource() for n in range(n_agents)}
        self.files = {a: DatasetFiles(folder / a, a) for a in self.sources}
        self.exchanges = {a: JobPipes() for a in self.sources}
        self.transports = {
            a: FlightTransport(self.signer, agent_id=a, clock=self.clock, idle_s=idle_s)
            for a in self.sources
        }
        self._stores = stores or {}
        self.servers = {a: self._server(a) for a in self.sources}
        self.control.addresses = {
            a: f"grpc+tcp://127.0.0.1:{server.port}" for a, server in self.servers.items()
        }
        self.control.push()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for transport in self.transports.values():
            transport.close()
        for agent in list(self.servers):
            self.stop(agent)

    def stop(self, agent: str) -> bool:
        """Stop one agent's server; whether it ended in time."""
        return self.servers.pop(agent).stop(5.0)

    def address(self, agent: str = "a0") -> str:
        """Where an agent's server listens."""
        return self.control.addresses[agent]

    def token(self, scope: Scope = "read", subject: str = "test") -> str:
        """A token that holds for an hour."""
        return self.signer.token(scope, subject, 3600.0, self.clock.wall_s())

    def client(self, scope: Scope = "write", agent: str = "a0") -> Client:
        """A client of one agent; close it."""
        return Client(self.address(agent), self.token(scope), idle_s=30.0)

    def access(self, agent: str = "a0") -> DatasetAccess:
        """What a task on `agent` would reach datasets through."""
        return DatasetAccess(
            control=self.control,
            transport=self.transports[agent],
            locations=self.control.tables[agent],
            agent_id=agent,
            views=self.files[agent].views,
        )

    def add_edge(
        self, job: str, node_path: str, rows: Mapping[tuple[str, int, int], pa.Table], edge: int = 0
    ) -> None:
        """Hold `rows` ({(agent, producer task, partition): table}) as a complete exchange."""
        schema = next(iter(rows.values())).schema
        producers = {}
        for (agent, task, partition), table in rows.items():
            self.sources[agent].tables[job, edge, partition, (task, 0)] = table
            producers[task] = pb.Producer(task=task, attempt=0, agent_id=agent)
        location = pb.EdgeLocation(
            job_id=job,
            node_path=node_path,
            edge=edge,
            schema=schema.serialize().to_pybytes(),
            n_partitions=1 + max(partition for _, _, partition in rows),
            kind=pb.EDGE_HASH,
            mode=pb.MODE_MATERIALISED,
            producers=[producers[task] for task in sorted(producers)],
            complete=True,
            rows=sum(table.num_rows for table in rows.values()),
            bytes=sum(table.nbytes for table in rows.values()),
        )
        self.control.edges.append(location)
        self.control.push(edges=[location])

    def _server(self, agent: str) -> FabricFlightServer:
        table = self.control.tables[agent] = LocationTable()
        backend = Backend(
            agent_id=agent,
            source=self._stores.get(agent, self.sources[agent]),
            locations=table,
            datasets=self.files[agent],
            control=self.control,
            exchanges=self.exchanges[agent],
            transport=self.transports[agent],
        )
        return FabricFlightServer(
            backend,
            self.signer,
            clock=self.clock,
            version="test",
            idle_s=self._tap_idle_s,
            limits=self._limits,
        )


def encode_header(header: EdgeHeader) -> bytes:
    """`header` as it travels."""
    return headers.encode(**{each.name: getattr(header, each.name) for each in fields(header)})


def rows_header(
    source: PartitionId, sequence: int, batch: pa.RecordBatch, *, checksum: bool = True
) -> bytes:
    """The header of one message of rows of one partition, checksum included but where not read."""
    return encode_header(
        EdgeHeader(
            job=source.edge.job,
            edge=source.edge.edge,
            producer=source.producer,
            attempt=source.attempt,
            sequence=sequence,
            partitions=((source.partition, batch.num_rows),),
            crc32c=batch_crc32c(batch) if checksum else 0,
        )
    )


def end_header(source: PartitionId, sequence: int, rows: int, n_bytes: int) -> bytes:
    """The header of the END event of one producer's partition, with its totals."""
    return encode_header(
        EdgeHeader(
            job=source.edge.job,
            edge=source.edge.edge,
            producer=source.producer,
            attempt=source.attempt,
            sequence=sequence,
            partitions=((source.partition, 0),),
            event=Event.END,
            total_rows=rows,
            total_bytes=n_bytes,
        )
    )

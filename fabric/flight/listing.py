"""What there is to read, as FlightInfos (design 4.3).

One job: locations to FlightInfo. One endpoint per (partition, producing agent), the partition
number as text in the endpoint's app_metadata; locations are the agent's advertised address and then
``arrow-flight-reuse-connection://?``, because every agent also passes on what others hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.flight as fl

from fabric.clock import Clock
from fabric.control import control_pb2 as pb
from fabric.errors import NotFoundError
from fabric.flight.backend import Backend
from fabric.flight.descriptor import FORMS, AnyPath, DatasetPath, JobPath, parse
from fabric.flight.directory import Directory
from fabric.flight.ticket import AnyRequest, DatasetRequest, Part, PartitionRequest, make_ticket
from fabric.security.tokens import Signer

REUSE = "arrow-flight-reuse-connection://?"


class Listing:
    """Answers ListFlights, GetFlightInfo and GetSchema; tickets hold for `ticket_s`."""

    def __init__(self, backend: Backend, signer: Signer, clock: Clock, ticket_s: float) -> None:
        self._backend, self._signer = backend, signer
        self._clock, self._ticket_s = clock, ticket_s
        self._directory = Directory(backend)

    def info(self, descriptor: fl.FlightDescriptor) -> fl.FlightInfo:
        """All endpoints of what a descriptor names."""
        match path_of(descriptor):
            case DatasetPath(name):
                return self._dataset(self._directory.dataset(name))
            case JobPath(job, node_path, partition):
                return self._edge(self._directory.edge(job, node_path), partition)
            case _:
                raise NotFoundError("this descriptor can't be read; it names a put or a state")

    def schema(self, descriptor: fl.FlightDescriptor) -> pa.Schema:
        """The schema of what a descriptor names."""
        match path_of(descriptor):
            case DatasetPath(name):
                return _schema(self._directory.dataset(name).schema)
            case JobPath(job, node_path, _):
                return _schema(self._directory.edge(job, node_path).schema)
            case _:
                raise NotFoundError("this descriptor can't be read; it names a put or a state")

    def all(self, criteria: bytes) -> Iterator[fl.FlightInfo]:
        """Everything whose path begins with `criteria`: elements joined by ``/``, empty for all.

        For example ``dataset``, ``dataset/flights``, ``job/job-1a2b`` or ``job/job-1a2b/enrich``.
        """
        wanted = [e for e in criteria.decode("utf-8", "replace").split("/") if e]
        for dataset in self._backend.locations.datasets():
            if _begins(["dataset", dataset.name], wanted):
                yield self._dataset(dataset)
        for edge in self._backend.locations.edges():
            path = ["job", edge.job_id, *edge.node_path.split("/")]
            if edge.mode != pb.MODE_PIPELINED and _begins(path, wanted):
                yield self._edge(edge, None)

    def _dataset(self, location: pb.DatasetLocation) -> fl.FlightInfo:
        parts = tuple(Part(p.transaction, p.writer, p.attempt) for p in location.parts)
        endpoints = [
            self._endpoint(
                DatasetRequest(
                    name=location.name,
                    version=location.version,
                    partition=partition,
                    parts=parts,
                ),
                owner,
            )
            for partition, owner in enumerate(location.owners)
        ]
        about = {"version": location.version, "keys": list(location.keys)}
        path = DatasetPath(location.name).path
        return _info(location.schema, path, endpoints, (location.rows, -1), about)

    def _edge(self, location: pb.EdgeLocation, partition: int | None) -> fl.FlightInfo:
        # Every partition of a broadcast holds the same rows: reading one is reading all.
        n_partitions = 1 if location.kind == pb.EDGE_BROADCAST else location.n_partitions
        if partition is not None and partition >= n_partitions:
            raise NotFoundError(
                f"the exchange has partitions 0 to {n_partitions - 1}, not {partition}",
                job=location.job_id,
                node=location.node_path,
            )
        wanted = range(n_partitions) if partition is None else [partition]
        by_agent: dict[str, list[tuple[int, int]]] = {}
        for producer in location.producers:
            by_agent.setdefault(producer.agent_id, []).append((producer.task, producer.attempt))
        endpoints = [
            self._endpoint(
                PartitionRequest(
                    job=location.job_id,
                    edge=location.edge,
                    node_path=location.node_path,
                    partition=p,
                    producers=tuple(sorted(producers)),
                ),
                agent_id,
            )
            for p in wanted
            for agent_id, producers in sorted(by_agent.items())
        ]
        known = location.complete and partition is None
        path = JobPath(location.job_id, location.node_path, partition).path
        about = {"complete": location.complete, "result": location.is_result}
        sizes = (location.rows, location.bytes) if known else (-1, -1)
        return _info(location.schema, path, endpoints, sizes, about)

    def _endpoint(self, request: AnyRequest, agent_id: str) -> fl.FlightEndpoint:
        expires_s = self._clock.wall_s() + self._ticket_s
        address = self._backend.locations.address(agent_id) or ""
        return fl.FlightEndpoint(
            make_ticket(self._signer, request, expires_s),
            [address, REUSE] if address.startswith("grpc") else [REUSE],
            pa.scalar(datetime.fromtimestamp(expires_s, UTC), pa.timestamp("ns", "UTC")),
            str(request.partition).encode(),
        )


def path_of(descriptor: fl.FlightDescriptor) -> AnyPath:
    """The parsed path of a descriptor; a command is none."""
    if descriptor.descriptor_type != fl.DescriptorType.PATH or descriptor.path is None:
        raise NotFoundError(f"commands are not understood here; use a path: {FORMS}")
    return parse(descriptor.path)


def _info(
    schema: bytes,
    path: Iterable[str],
    endpoints: list[fl.FlightEndpoint],
    sizes: tuple[int, int],
    about: Mapping[str, object],
) -> fl.FlightInfo:
    """`sizes` are rows and bytes, -1 when unknown; `about` travels as JSON in app_metadata."""
    return fl.FlightInfo(
        _schema(schema),
        fl.FlightDescriptor.for_path(*path),
        endpoints,
        *sizes,
        False,
        json.dumps(about).encode(),
    )


def _begins(path: list[str], wanted: list[str]) -> bool:
    return path[: len(wanted)] == wanted


def _schema(data: bytes) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(data))

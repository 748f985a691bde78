"""A fabric of agents elsewhere: plans travel by gRPC, rows by Flight.

One job: the network kind of session. Tables of this process are uploaded as datasets of the fabric
before a plan that reads them is submitted, and dropped when nobody can use them any more.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

from fabric.clients.dataframe.durations import Length
from fabric.clients.job.host import LOSSLESS, Partition, partitions_of
from fabric.clients.session.kept_state import StateFacts, StatePath, first_rows
from fabric.clients.session.session import Session
from fabric.config import TLS
from fabric.control import control_pb2 as pb
from fabric.control.client import GrpcControl
from fabric.errors import (
    FabricError,
    NotFoundError,
    PartitionLostError,
    PeerLostError,
    PlanError,
)
from fabric.flight.client import Client
from fabric.flight.descriptor import PutPath
from fabric.flight.owners import patiently
from fabric.ids import new_id
from fabric.io.sinks.live import Feed
from fabric.io.sources.memory import table_of
from fabric.plan.nodes import Node, Plan, Scan, Sink, StreamScan
from fabric.plan.schema import schema_of
from fabric.plan.sources import DatasetSource, MemorySource, ReplayStream
from fabric.plan.targets import DatasetTarget, StreamTarget
from fabric.plan.walk import rewrite, walk
from fabric.values import is_loopback

_READERS = 4
_SEALED_S = 10.0
_POLL_S = 0.005
_STATE_TRIES = 3
"""Retries when the checkpoint is removed during a read."""


class RemoteSession(Session):
    """A session on the coordinator at `address`; see `fabric.control.rpc.open_channel`."""

    def __init__(
        self,
        address: str,
        token: str,
        *,
        parallelism: int | None = None,
        latency: Length | None = None,
        tls_roots: bytes | None = None,
        insecure: bool = False,
    ) -> None:
        self._address, self._token, self._tls_roots = address, token, tls_roots
        self._insecure = insecure
        self._uploads: dict[str, tuple[weakref.ref[MemorySource | DatasetSource], str]] = {}
        self._clients: dict[str, Client] = {}
        self._state_url = ""
        self._lock = threading.Lock()
        self._grpc = GrpcControl(address, token, tls_roots=tls_roots, insecure=insecure)
        try:
            self._grpc.list_agents(pb.ListRequest())  # a wrong address or token is told here
        except BaseException:
            self._grpc.close()
            raise
        super().__init__(self._grpc, parallelism=parallelism, latency=latency)

    def live(self, feed: Feed) -> AbstractContextManager[StreamTarget]:
        """See `Session`; agents of this host put them to it."""
        host = self._address.removeprefix(TLS).rpartition(":")[0].strip("[]")
        if not is_loopback(host):
            raise PlanError(
                f"the agents of {self._address} can't put rows to this process; write them where "
                '.write_stream(…) can, or tap an exchange of a running job: job.partitions("node")'
            )
        return super().live(feed)

    def result_batches(self, status: pb.JobStatus) -> Iterator[pa.RecordBatch]:
        """See `Session`; several endpoints are read at once, rows come in their order."""
        client = self._client()
        info = self._sealed(client, ("job", status.job_id, status.result_path))
        with ThreadPoolExecutor(_READERS, "fabric-read") as pool:
            ahead: deque[Future[list[pa.RecordBatch]]] = deque()
            for endpoint in info.endpoints:
                ahead.append(pool.submit(_read, client, endpoint))
                if len(ahead) >= _READERS:
                    yield from ahead.popleft().result()
            while ahead:
                yield from ahead.popleft().result()

    def view_rows(
        self, address: str, name: str, partition: int, keys: pa.Table, *, live: bool
    ) -> pa.Table:
        """See `Session`."""
        if not address:
            raise PeerLostError(f"partition {partition} of view {name!r} has no agent now")
        answer = self._client(address).action(
            "view.get", name=name, partition=partition, live=int(live), keys=_packed(keys)
        )
        return pa.ipc.open_stream(base64.b64decode(answer["rows"])).read_all()

    def state_facts(self, path: StatePath) -> StateFacts:
        """See `Session`."""
        return _facts(path, self._client().info(path))

    def states(self, job: str = "") -> list[StateFacts]:
        """See `Session`."""
        found = self._client().flights(f"state/{job}".encode())
        return [_facts(_state_path(info), info) for info in found]

    def state_rows(self, path: StatePath, limit: int = 0) -> pa.Table:
        """See `Session`; of the newest checkpoint, if one is removed while it is read."""
        client = self._client()
        for left in reversed(range(_STATE_TRIES)):
            info = client.info(path)
            try:
                rows = first_rows(client.read(info), limit)
                return pa.Table.from_batches(list(rows), info.schema)
            except NotFoundError:
                if not left:
                    raise
        raise AssertionError("a try returns or raises")

    def state_rows_of(self, path: StatePath, keys: pa.Table) -> pa.Table:
        """See `Session`; by the agent that answered last, for it has the checkpoint open."""
        asked = {"job": path[1], "path": path[2], "state": path[3], "keys": _packed(keys)}
        url, self._state_url = self._state_url or self.flight_url, ""
        try:
            answer = self._client(url).action("state.get", **asked)
        except PeerLostError:
            url = self.flight_url  # of one that is attached now
            answer = self._client(url).action("state.get", **asked)
        self._state_url = url
        return pa.ipc.open_stream(base64.b64decode(answer["rows"])).read_all()

    def partitions(self, status: pb.JobStatus, node_path: str, lossless: bool) -> list[Partition]:
        """See `Session`."""
        path, client = ("job", status.job_id, node_path), self._client()
        finished = status.state == pb.JOB_FINISHED
        headers = [LOSSLESS] if lossless else ()
        info = self._sealed(client, path) if finished else client.info(path, headers=headers)
        return list(partitions_of(info, path))

    def logs(self, job_id: str) -> list[dict[str, Any]]:
        """See `Session`; an agent that does not answer says nothing but that."""
        lines: list[dict[str, Any]] = []
        for agent in self.agents():
            try:
                lines += self._client(agent.address).action("job.logs", job=job_id)["lines"]
            except PeerLostError as error:
                lines.append({"event": error.message, "agent": agent.agent_id, "level": "warning"})
        return sorted(lines, key=lambda line: str(line.get("timestamp", "")))

    @property
    def flight_url(self) -> str:
        """See `Session`."""
        for agent in sorted(self.agents(), key=lambda agent: agent.state == "starting"):
            if agent.address.startswith("grpc"):  # one whose link is broken may be gone
                return str(agent.address)
        raise NotFoundError(
            f"no agent is attached to {self._address}; start one: "
            f"fabric agent --coordinator {self._address}"
        )

    @property
    def token(self) -> str:
        """See `Session`."""
        return self._token

    @property
    def tls_roots(self) -> bytes | None:
        """See `Session`."""
        return self._tls_roots

    @property
    def insecure(self) -> bool:
        """See `Session`."""
        return self._insecure

    def _client(self, url: str = "") -> Client:
        """Calls an attached agent; its connections stay open as long as the session."""
        url = url or self.flight_url
        with self._lock:
            if url not in self._clients:
                self._clients[url] = Client(
                    url, self._token, tls_roots=self._tls_roots, insecure=self._insecure
                )
            return self._clients[url]

    def _sealed(self, client: Client, path: tuple[str, ...]) -> fl.FlightInfo:
        """The endpoints of a finished job's result; agents learn of its end a moment later."""
        end_s = time.monotonic() + _SEALED_S
        while True:
            info = client.info(path)
            said = json.loads(info.app_metadata or b"{}")
            if said.get("complete", True) and not said.get("tap"):
                return info
            if time.monotonic() > end_s:
                raise PartitionLostError(
                    "a part of what the job made is gone with the agent that held it, or an agent "
                    "does not hear that the job has ended; job.restart() makes again what is gone",
                    job=path[1],
                )
            time.sleep(_POLL_S)

    def cached(self, plan: Plan) -> Scan:
        """See `Session`; the rows stay with the agents, as a dataset of this session's."""
        self._drop_unused()
        name = new_id("cache")
        source = DatasetSource(name)
        with self.submit(Plan(Sink(plan.root, DatasetTarget(name)), plan.config), name=name) as job:
            job.wait()
        self._uploads[name] = (weakref.ref(source), name)
        return Scan(source, schema_of(plan.root))

    # ---- tables of this process
    def _prepared(self, plan: Plan) -> Plan:
        """Memory scans become scans of uploaded datasets."""
        self._drop_unused()

        def uploaded(node: Node) -> Node:
            if isinstance(node, StreamScan) and isinstance(node.source, ReplayStream):
                return self._replayed(node, node.source)
            if not isinstance(node, Scan) or not isinstance(node.source, MemorySource):
                return node
            name = self._upload(node.source)
            return Scan(
                DatasetSource(name), node.schema, node.columns, node.predicate, path=node.path
            )

        return Plan(rewrite(plan.root, uploaded), plan.config)

    def _replayed(self, node: StreamScan, replay: ReplayStream) -> Node:
        """A replay of a table of this process as one of an uploaded dataset."""
        if not isinstance(replay.source, MemorySource):
            return node
        table = DatasetSource(self._upload(replay.source))
        return dataclasses.replace(node, source=dataclasses.replace(replay, source=table))

    def _upload(self, source: MemorySource) -> str:
        """The dataset that holds the table of `source`; written once."""
        if source.token in self._uploads:
            return self._uploads[source.token][1]
        table, name = table_of(source), new_id("upload")
        schema = table.schema.serialize().to_pybytes()
        begin = pb.DatasetBegin(name=name, schema=schema, mode="create", idempotency_key=name)
        transaction = self.control.dataset(pb.DatasetRequest(begin=begin)).transaction
        put = PutPath(name, transaction, "client", 0)
        patiently(lambda: self._send(put, table))
        part = pb.CommittedPart(
            transaction=transaction, writer=put.writer, attempt=put.attempt, rows=table.num_rows
        )
        commit = pb.DatasetCommit(transaction=transaction, parts=[part])
        self.control.dataset(pb.DatasetRequest(commit=commit))
        self._uploads[source.token] = (weakref.ref(source), name)
        return name

    def _send(self, put: PutPath, table: pa.Table) -> None:
        """By whichever agent is there: one that was started again has another address."""
        try:
            client = self._client()
        except NotFoundError as error:
            raise PeerLostError(error.message) from error
        client.put_once(put.path, table.schema, table.to_batches())

    def _drop_unused(self) -> None:
        """Drop uploads whose table is gone here; a running job's plan keeps its tables."""
        for token in [token for token, (source, _) in self._uploads.items() if source() is None]:
            self.drop_dataset(self._uploads.pop(token)[1])

    def _stop(self) -> None:
        """Drop what was uploaded; what a running job still reads stays in the fabric."""
        self._grpc.wait_no_more()
        try:
            read = {token for plan in self.running_plans() for token in _tables_of(plan)}
            for token, (_, name) in self._uploads.items():
                if token not in read:
                    self._grpc.dataset(pb.DatasetRequest(drop=pb.DatasetDrop(name=name)))
        except FabricError:
            return  # the fabric is gone, and what was uploaded with it
        finally:
            self._uploads.clear()
            for client in self._clients.values():
                client.close()
            self._grpc.close()

    def __repr__(self) -> str:
        return f"Session(fabric://{self._address})"


def _tables_of(plan: Plan) -> Iterator[str]:
    """Tokens of the tables of this process that a plan reads, and names of datasets."""
    for node in walk(plan.root):
        source = node.source if isinstance(node, Scan | StreamScan) else None
        table = source.source if isinstance(source, ReplayStream) else source
        if isinstance(table, MemorySource):
            yield table.token
        elif isinstance(table, DatasetSource):
            yield table.name


def _read(client: Client, endpoint: fl.FlightEndpoint) -> list[pa.RecordBatch]:
    """All rows of one endpoint."""
    locations = [location.uri.decode() for location in endpoint.locations]
    return list(client.read_endpoint(endpoint.ticket.ticket, locations))


def _packed(keys: pa.Table) -> str:
    """Keys as actions take them."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, keys.schema) as writer:
        writer.write_table(keys)
    return base64.b64encode(sink.getvalue()).decode()


def _facts(path: StatePath, info: fl.FlightInfo) -> StateFacts:
    """Of a state whose info an agent gave."""
    told = json.loads(info.app_metadata)
    return StateFacts(path, info.schema, tuple(told["keys"]), told["version"])


def _state_path(info: fl.FlightInfo) -> StatePath:
    kind, job, node, state = (element.decode() for element in info.descriptor.path)
    return kind, job, node, state

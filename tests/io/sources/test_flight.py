"""Flight servers as sources and targets: Fabric's own, and one that knows nothing of it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric.errors import (
    AuthError,
    DataError,
    ExternalError,
    FabricError,
    NotFoundError,
    PeerLostError,
    PlanError,
)
from fabric.ids import TaskId
from fabric.io import sinks, sources
from fabric.io.places import Places, guarding
from fabric.io.sinks import flight as flight_sink
from fabric.io.sources.flight import ENDPOINTS_MAX, asked
from fabric.plan.sources import FlightSource
from fabric.plan.targets import FlightTarget
from fabric.plan_rules import PlanRules
from fabric.values import Names
from tests.support.flight_rig import FlightRig

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])


def table(begin: int, n: int) -> pa.Table:
    return pa.table({"k": range(begin, begin + n), "v": ["x"] * n}, SCHEMA)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[FlightRig]:
    with FlightRig(tmp_path) as rig:
        yield rig


class Plain(fl.FlightServerBase):  # type: ignore[misc]
    """A server of somebody else: no auth, no actions, no acknowledgements."""

    def __init__(self) -> None:
        super().__init__("grpc+tcp://127.0.0.1:0")
        self.taken: list[pa.Table] = []
        self.locations: list[str] = []
        self.schema = SCHEMA

    def get_flight_info(self, context: Any, descriptor: fl.FlightDescriptor) -> fl.FlightInfo:
        if descriptor.command == b"bad":
            raise fl.FlightServerError("no such query")
        ends = [fl.FlightEndpoint(ticket, self.locations) for ticket in (b"0", b"1")]
        return fl.FlightInfo(self.schema, descriptor, ends, 20, -1)

    def do_get(self, context: Any, ticket: fl.Ticket) -> fl.RecordBatchStream:
        return fl.RecordBatchStream(table(10 * int(ticket.ticket), 10))

    def do_put(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        rows = reader.read_all()
        if descriptor.path == [b"full"]:
            raise fl.FlightServerError("no room")
        self.taken.append(rows)

    @property
    def uri(self) -> str:
        return f"grpc+tcp://127.0.0.1:{self.port}"


@pytest.fixture
def plain() -> Iterator[Plain]:
    server = Plain()
    yield server
    server.shutdown()


def read(source: FlightSource, columns: list[str] | None = None) -> pa.Table:
    schema = sources.source_schema(source)
    splits = sources.enumerate_splits(source, 9)
    batches = [b for s in splits for b in sources.read_split(source, schema, s, columns)]
    return pa.Table.from_batches(batches)


def test_reads_any_server_one_split_an_endpoint(plain: Plain) -> None:
    source = FlightSource(plain.uri, command=b"query")
    assert read(source) == table(0, 20)
    assert read(source, ["v"]) == table(0, 20).select(["v"])
    assert [s.n_rows for s in sources.enumerate_splits(source, 1)] == [10, 10]
    with pytest.raises(ExternalError, match="no such query"):
        read(FlightSource(plain.uri, command=b"bad"))


def test_takes_the_first_location_that_answers(plain: Plain) -> None:
    plain.locations = ["grpc+tcp://127.0.0.1:1", "arrow-flight-reuse-connection://?"]
    assert read(FlightSource(plain.uri, ("t",))) == table(0, 20)
    plain.locations = ["grpc+tcp://127.0.0.1:1"]
    with pytest.raises(PeerLostError):
        read(FlightSource(plain.uri, ("t",)))


def test_a_server_names_no_host_that_is_not_allowed(plain: Plain) -> None:
    source = FlightSource(plain.uri, ("t",))
    with guarding(Places(PlanRules(allowed_hosts=Names("127.0.0.1")))):
        plain.locations = [plain.uri, "arrow-flight-reuse-connection://?"]
        assert read(source) == table(0, 20)
        plain.locations = [plain.uri, "grpc+tcp://localhost:1"]
        with pytest.raises(PlanError, match="may not call localhost:1"):
            sources.enumerate_splits(source, 1)


def test_other_rows_than_promised_are_refused(plain: Plain) -> None:
    plain.schema = pa.schema([("k", pa.int64())])
    with pytest.raises(DataError, match="sent columns k: int64, v: string, it promised k: int64"):
        read(FlightSource(plain.uri, ("t",)))


def test_puts_to_any_server(plain: Plain) -> None:
    target = FlightTarget(plain.uri, ("t",))
    handles = []
    for n in range(2):
        sink = sinks.open_sink(target, SCHEMA, TaskId("job-1", 1, n), 2)
        sink.write(table(10 * n, 10).to_batches()[0])
        handles.append(sink.prepare())
    sinks.publish(handles)
    assert sorted(t["k"][0].as_py() for t in plain.taken) == [0, 10]
    sinks.abandon(handles)  # nothing that could be taken back
    full = sinks.open_sink(FlightTarget(plain.uri, ("full",)), SCHEMA, TaskId("job-1", 1, 0), 1)
    full.write(table(0, 1).to_batches()[0])
    with pytest.raises(ExternalError, match="no room"):
        full.prepare()


def test_reads_and_writes_a_fabric(rig: FlightRig) -> None:
    token = rig.token("write")
    target = FlightTarget(rig.address(), ("dataset", "d"), token)
    handles = []
    for n in range(3):
        sink = sinks.open_sink(target, SCHEMA, TaskId("job-1", 1, n), 3)
        for batch in table(100 * n, 100).to_batches(30):
            sink.write(batch)
        handles.append(sink.prepare())
    source = FlightSource(rig.address("a1"), ("dataset", "d"), token=token)
    with pytest.raises(NotFoundError):
        read(source)
    sinks.publish(handles)
    sinks.publish(handles)
    assert read(source).sort_by("k") == table(0, 300)
    with pytest.raises(AuthError, match="token"):
        read(FlightSource(rig.address(), ("dataset", "d"), token="nonsense"))


def test_abandoning_at_a_fabric_leaves_nothing(rig: FlightRig) -> None:
    target = FlightTarget(rig.address(), ("dataset", "d"), rig.token("write"))
    done = sinks.open_sink(target, SCHEMA, TaskId("job-1", 1, 0), 2)
    done.write(table(0, 10).to_batches()[0])
    handle = done.prepare()
    half = sinks.open_sink(target, SCHEMA, TaskId("job-1", 1, 1), 2)
    half.write(table(0, 10).to_batches()[0])
    half.abandon()
    sinks.abandon([handle])
    sinks.abandon([handle])
    assert rig.control.catalogue.all() == []


def test_a_read_token_cannot_write(rig: FlightRig) -> None:
    target = FlightTarget(rig.address(), ("dataset", "d"), rig.token("read"))
    with pytest.raises(AuthError, match="scope 'write'"):
        sinks.open_sink(target, SCHEMA, TaskId("job-1", 1, 0), 1).prepare()


def test_nobody_there_is_said(rig: FlightRig) -> None:
    with pytest.raises(PeerLostError):
        read(FlightSource("grpc+tcp://127.0.0.1:1", ("dataset", "d")))


class Endless(Plain):
    """A server whose answer to a question is as large as it may be, or larger."""

    def get_flight_info(self, context: Any, descriptor: fl.FlightDescriptor) -> fl.FlightInfo:
        if descriptor.command == b"bytes":
            ends = [fl.FlightEndpoint(b"x" * (17 << 20), [])]
        else:
            ends = [fl.FlightEndpoint(b"0", [])] * (ENDPOINTS_MAX + 1)
        return fl.FlightInfo(SCHEMA, descriptor, ends, -1, -1)


def test_what_a_server_says_it_has_is_bounded() -> None:
    with Endless() as server:
        uri = f"grpc+tcp://127.0.0.1:{server.port}"
        with pytest.raises(FabricError, match="larger than max"):
            sources.enumerate_splits(FlightSource(uri, command=b"bytes"), 1)
        with pytest.raises(DataError, match="has 100001 endpoints for it, at most 100000"):
            sources.enumerate_splits(FlightSource(uri, command=b"many"), 1)


def test_what_is_at_a_port_is_not_told_to_who_writes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused, or silent: the same words after the same time, where plans are somebody else's."""
    monkeypatch.setattr(flight_sink, "WITHIN_S", 0.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as gone:
        refused = gone.getsockname()[1]
    errors = []
    with closing(socket.create_server(("127.0.0.1", 0))) as silent, guarding(Places(PlanRules())):
        for port in (refused, silent.getsockname()[1]):
            target = FlightTarget(f"grpc+tcp://127.0.0.1:{port}", ("x",))
            with pytest.raises(PeerLostError) as caught:
                sinks.open_sink(target, SCHEMA, TaskId("job-1", 1, 0), 1)
            errors.append(str(caught.value).replace(f":{port} ", ":PORT "))
    assert set(errors) == {
        "no Flight server at grpc+tcp://127.0.0.1:PORT answered within 0.5 s; check the address, "
        "and that the agent's machine may reach it (the agent's log says what happened)"
    }


def test_what_a_fabric_says_itself_is_told(rig: FlightRig) -> None:
    source = FlightSource(rig.address(), ("dataset", "none"), token=rig.token("write"))
    with pytest.raises(NotFoundError, match="none"):
        asked(source.uri, lambda: sources.enumerate_splits(source, 1), 60.0)

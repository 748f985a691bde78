"""Crowds without a token keep nobody out: at REST, at gRPC and Flight, and at the metrics port.

Each comes while a job runs. The job ends, ``/healthz`` answers, and a new client with a token gets
in and has a job done; what has shown no token is disconnected, what has one is not.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pyarrow as pa
import pytest

import fabric
from fabric.control import control_pb2 as pb
from fabric.plan.nodes import Scan
from fabric.plan.sources import FlightSource
from tests.support import by_hand
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

GUARD_S = 90.0
HANDSHAKE_S = 4
ENVIRON = {
    "FABRIC_COORDINATOR_REST_PORT": "0",
    "FABRIC_COORDINATOR_METRICS_PORT": "0",
    "FABRIC_COORDINATOR_HANDSHAKE_S": str(HANDSHAKE_S),
    "FABRIC_AGENT_HANDSHAKE_S": str(HANDSHAKE_S),
    "FABRIC_COORDINATOR_ASK_S": "5",
}
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
"""As much of HTTP/2 as makes a connection one: the preface, and settings that say nothing."""
HALF_HEADERS = b"GET /api/v1/jobs HTTP/1.1\r\nHost: fabric\r\nX-Slow: "
LIST_AGENTS = "/fabric.control.v1.Control/ListAgents"
DO_ACTION = "/arrow.flight.protocol.FlightService/DoAction"
pytestmark = pytest.mark.timeout(600)


@dataclass
class Town:
    """A fabric with open doors."""

    local: LocalFabric
    rest: str
    metrics: str
    flight: str

    def pid(self) -> int:
        assert self.local.coordinator is not None
        return self.local.coordinator.process.pid

    @property
    def bearer(self) -> tuple[str, str]:
        return ("authorization", f"Bearer {self.local.token}")

    def ask(self, channel: grpc.Channel, address: str) -> None:
        """A call with a token."""
        options: dict[str, Any] = {"metadata": [self.bearer], "timeout": GUARD_S}
        if address == self.local.address:
            asked = pb.ListRequest().SerializeToString()
            channel.unary_unary(LIST_AGENTS)(asked, wait_for_ready=True, **options)
        else:
            action = by_hand.field(1, b"healthcheck")
            list(channel.unary_stream(DO_ACTION)(action, wait_for_ready=True, **options))

    def newcomer(self, address: str) -> None:
        """Somebody whom the server has never seen gets in."""
        with own_channel(address) as channel:
            self.ask(channel, address)

    def serves(self) -> None:
        """All that is promised, whatever strangers do."""
        assert httpx.get(f"{self.rest}/healthz", timeout=GUARD_S).json() == {"status": "ok"}
        headers = dict([self.bearer])
        httpx.get(f"{self.rest}/api/v1/jobs", headers=headers, timeout=GUARD_S).raise_for_status()
        assert "fabric_jobs" in httpx.get(self.metrics, timeout=GUARD_S).text
        for address in (self.local.address, self.flight):
            self.newcomer(address)
        with fabric.connect(f"fabric://{self.local.address}", token=self.local.token) as session:
            rows = session.read_arrow({"k": [1, 1, 2]}).group_by("k").count().to_arrow().to_pylist()
        assert sorted(row["k"] for row in rows) == [1, 2]


@pytest.fixture(scope="module")
def town() -> Iterator[Town]:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with local_fabric(1, environ=ENVIRON) as local:
        assert local.coordinator is not None
        said = local.coordinator.log.read_text().splitlines()
        urls = {
            one["event"]: one["url"]
            for one in (json.loads(line) for line in said if line.startswith("{"))
            if "url" in one
        }
        flight = local.attached()[0].address.removeprefix("grpc+tcp://")
        yield Town(local, urls["REST and pages"], urls["metrics"], flight)
        local.agents[0].check()


@contextmanager
def working(town: Town) -> Iterator[None]:
    """Jobs run, one after the other, while the context is open; all of them end well."""
    over, failures, done = threading.Event(), [], []

    def work() -> None:
        frame = session.read_arrow({"k": list(range(1000))}).exchange("k", n_partitions=4)
        while not over.is_set() and not failures:
            try:
                done.append(frame.group_by("k").count().to_arrow().num_rows)
            except fabric.errors.FabricError as error:
                failures.append(error)

    with fabric.connect(f"fabric://{town.local.address}", token=town.local.token) as session:
        thread = threading.Thread(target=work)
        thread.start()
        wait_until(lambda: done or failures, GUARD_S)
        before = len(done)
        try:
            yield
            wait_until(lambda: len(done) > before or failures, GUARD_S)
        finally:
            over.set()
            thread.join(GUARD_S)
    assert not failures
    assert not thread.is_alive()
    assert set(done) == {1000}


@contextmanager
def crowd(address: str, n: int, greeting: bytes) -> Iterator[list[socket.socket]]:
    """`n` connections that have said `greeting` and nothing more."""
    host, port = address.split(":")
    with ExitStack() as stack:
        found = []
        for _ in range(n):
            one = stack.enter_context(socket.create_connection((host, int(port)), GUARD_S))
            with suppress(OSError):  # it may be disconnected already
                one.sendall(greeting)
            found.append(one)
        yield found


def all_over(sockets: list[socket.socket]) -> bool:
    """Whether the other side has ended every one of them."""
    poll = select.poll()
    for one in sockets:
        poll.register(one, select.POLLRDHUP)
    return len(poll.poll(0)) == len(sockets)


def own_channel(address: str) -> grpc.Channel:
    """A connection that no other channel shares."""
    return grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])


def test_505_half_headers(town: Town) -> None:
    address = town.rest.removeprefix("http://")
    with working(town), crowd(address, 505, HALF_HEADERS) as there:
        town.serves()
        wait_until(lambda: all_over(there), GUARD_S)  # the time for a header is over


@pytest.mark.parametrize("door", ["coordinator", "agent"])
def test_4096_idle_connections(town: Town, door: str) -> None:
    address = town.local.address if door == "coordinator" else town.flight
    with working(town), own_channel(address) as channel:
        states: list[grpc.ChannelConnectivity] = []
        town.ask(channel, address)
        channel.subscribe(states.append)
        with crowd(address, 4096, GREETING) as there:
            town.serves()
            wait_until(lambda: all_over(there), GUARD_S)
        town.ask(channel, address)
        lost = {grpc.ChannelConnectivity.IDLE, grpc.ChannelConnectivity.TRANSIENT_FAILURE}
        assert not lost & set(states)  # who has a token stays
    attached = town.local.attached()
    assert [agent.state for agent in attached] != []
    assert town.local.coordinator is not None
    assert "its link broke" not in town.local.coordinator.log.read_text()


def test_400_metrics_connections(town: Town) -> None:
    address = town.metrics.removeprefix("http://").removesuffix("/metrics")
    threads = Path(f"/proc/{town.pid()}/task")
    before = len(list(threads.iterdir()))
    with working(town), crowd(address, 400, b"GET /metrics HTTP/1.1\r\n") as there:
        town.serves()
        assert len(list(threads.iterdir())) < before + 100
        assert any(all_over([one]) for one in there)  # those that are too many


def test_16_silent_flight_servers(town: Town) -> None:
    """Plans that read from hosts which take every connection, and never say a word."""
    failures: list[fabric.errors.FabricError] = []

    def ask(port: int) -> None:
        source = FlightSource(f"grpc://127.0.0.1:{port}", ("rows",))
        try:
            town.local.submit(Scan(source, pa.schema({"k": pa.int64()}), path="scan"))
        except fabric.errors.FabricError as error:
            failures.append(error)

    with working(town), ExitStack() as stack:
        silent = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(16)]
        askers = [threading.Thread(target=ask, args=(s.getsockname()[1],)) for s in silent]
        for asker in askers:
            asker.start()
        for one in silent:
            one.settimeout(GUARD_S)
            stack.enter_context(one.accept()[0])  # it was asked
        town.serves()
        for asker in askers:
            asker.join(GUARD_S)
    assert len(failures) == 16


def test_a_stranger_is_refused_before_it_is_read(town: Town) -> None:
    """The coordinator reads no message of a call without a token: this one never sends any."""
    over = threading.Event()

    def nothing() -> Iterator[bytes]:
        over.wait(GUARD_S)
        yield b""

    with own_channel(town.local.address) as channel:
        call = channel.stream_stream("/fabric.control.v1.Control/Submit")(nothing())
        refused = threading.Thread(target=call.code)
        refused.start()
        refused.join(GUARD_S / 2)
        answered = not refused.is_alive()
        over.set()
        assert answered
        assert call.code() is grpc.StatusCode.UNAUTHENTICATED

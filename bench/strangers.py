"""How long a new client's whole job takes while crowds without a token are at the doors.

Connect, group three rows on one agent, take them, leave: `quiet`, and with so many connections that
say nothing more, opened anew where they were ended: `half headers` (505 at REST), `idle gRPC` and
`idle Flight` (4,096 each), `metrics` (400); `silent servers`: 16 plans at a time read from hosts
that take every connection and never answer. `p99_ms` is of all jobs of a case.
"""

from __future__ import annotations

import json
import resource
import select
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

import pyarrow as pa

import fabric
from bench.harness import Answer, Benchmark, Case, Engine
from fabric.errors import FabricError
from fabric.plan.nodes import Scan
from fabric.plan.sources import FlightSource
from tests.support.local import LocalFabric, local_fabric

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
HALF_HEADERS = b"GET /api/v1/jobs HTTP/1.1\r\nHost: fabric\r\nX-Slow: "
CROWDS = {
    "quiet": ("", 0, b""),
    "half headers": ("REST and pages", 505, HALF_HEADERS),
    "idle gRPC": ("gRPC", 4096, GREETING),
    "idle Flight": ("Flight", 4096, GREETING),
    "metrics": ("metrics", 400, b"GET /metrics HTTP/1.1\r\n"),
    "silent servers": ("plans", 16, b""),
}
ENVIRON = {"FABRIC_COORDINATOR_REST_PORT": "0", "FABRIC_COORDINATOR_METRICS_PORT": "0"}


class Crowd:
    """`n` connections that say `greeting`; those that were ended come again, until `close`."""

    def __init__(self, address: str, n: int, greeting: bytes) -> None:
        host, _, port = address.rpartition(":")
        self._at, self._greeting = (host, int(port)), greeting
        self._over = threading.Event()
        self._there = [self._come() for _ in range(n)]
        self._thread = threading.Thread(target=self._stay, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """All go."""
        self._over.set()
        self._thread.join()
        for one in self._there:
            one.close()

    def _come(self) -> socket.socket:
        one = socket.create_connection(self._at, 30)
        with suppress(OSError):
            one.sendall(self._greeting)
        return one

    def _stay(self) -> None:
        while not self._over.wait(1.0):
            poll = select.poll()
            for one in self._there:
                poll.register(one, select.POLLRDHUP)
            ended = {descriptor for descriptor, _ in poll.poll(0)}
            gone = [one for one in self._there if one.fileno() in ended]
            self._there = [one for one in self._there if one.fileno() not in ended]
            for one in gone:
                one.close()
                self._there.append(self._come())


class Plans:
    """`n` plans at a time that read from a host which never answers, until `close`."""

    def __init__(self, running: LocalFabric, n: int) -> None:
        self._running, self._over = running, threading.Event()
        self._silent = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self._threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(n)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """No more are asked; each waits for its own end."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._silent.close()

    def _ask(self) -> None:
        source = FlightSource(f"grpc://127.0.0.1:{self._silent.getsockname()[1]}", ("rows",))
        while not self._over.is_set():
            with suppress(FabricError):
                self._running.submit(Scan(source, pa.schema({"k": pa.int64()}), path="scan"))


class NewClients:
    """One after the other."""

    def __init__(self, case: Case) -> None:
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        self._stack, self._seconds = ExitStack(), list[float]()
        self._running = self._stack.enter_context(local_fabric(1, environ=ENVIRON))
        door, n, greeting = CROWDS[case.name]
        self.work()
        self._seconds.clear()
        if door == "plans":
            self._stack.callback(Plans(self._running, n).close)
        elif door:
            self._stack.callback(Crowd(self._address(door), n, greeting).close)

    def work(self) -> object:
        """A client that nobody has seen, and its job."""
        began = time.perf_counter()
        address = f"fabric://{self._running.address}"
        with fabric.connect(address, token=self._running.token) as session:
            rows = session.read_arrow({"k": [1, 1, 2]}).group_by("k").count().to_arrow()
        self._seconds.append(time.perf_counter() - began)
        return rows

    def answer(self) -> Answer:
        """The job's rows are right, and the tail of their times."""
        rows = self.work()
        assert isinstance(rows, pa.Table)
        pairs = sorted(zip(*rows.to_pydict().values(), strict=True))
        tail = sorted(self._seconds)[int(0.99 * (len(self._seconds) - 1))]
        return Answer(rows.num_rows, str(pairs), {"p99_ms": round(1000 * tail, 1)})

    def close(self) -> None:
        """Everybody goes."""
        self._stack.close()

    def _address(self, door: str) -> str:
        if door == "gRPC":
            return self._running.address
        if door == "Flight":
            return self._running.attached()[0].address.removeprefix("grpc+tcp://")
        assert self._running.coordinator is not None
        lines = self._running.coordinator.log.read_text().splitlines()
        said = (json.loads(line) for line in lines if line.startswith("{"))
        url: str = next(one["url"] for one in said if one["event"] == door)
        return url.removeprefix("http://").removesuffix("/metrics")


def clients(case: Case) -> NewClients:
    """Ours."""
    return NewClients(case)


def cases(_quick: bool) -> Sequence[Case]:
    """Every crowd."""
    return [Case(name, 3, 24) for name in CROWDS]


def engines(_case: Case) -> Sequence[Engine]:
    """Nobody else has these doors."""
    return [Engine(None, "bench.strangers:clients")]


BENCHMARK = Benchmark(
    "strangers",
    "a new client's whole job, quiet and in crowds without a token",
    cases,
    engines,
    round_s=1.0,
    quick_rounds=3,
)

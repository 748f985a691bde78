"""What only a native server can: answer while Python is busy, end waits, leave nothing behind."""

from __future__ import annotations

import gc
import mmap
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric._cython.shuffle.store.store import Store
from fabric.control import control_pb2 as pb
from fabric.errors import AuthError, FabricError
from fabric.flight.backend import Backend
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.locations import LocationTable
from fabric.flight.server import FabricFlightServer
from fabric.flight.ticket import PartitionRequest
from fabric.io.dataset.access import DatasetFiles
from fabric.security.tokens import Signer
from fabric.testing import ManualClock
from tests.support.flight_rig import FlightRig, RigControl, TableSource
from tests.support.wait import wait_until

ROWS = pa.table({"k": list(range(100))})
N_CALLS, HELD_S = 6, 30.0

CLIENT = """
import mmap, sys
import grpc
import pyarrow.flight as fl

address, token, verb, shared, n_calls = *sys.argv[1:5], int(sys.argv[5])
header = (b"authorization", b"Bearer " + token.encode())
options = fl.FlightCallOptions(timeout=60, headers=[header])
client = fl.connect(address)
path = fl.FlightDescriptor.for_path("job", "j", "n")
ticket = client.get_flight_info(path, options).endpoints[0].ticket
channel = grpc.insecure_channel(address.removeprefix("grpc+tcp://"))
poll = channel.unary_unary("/arrow.flight.protocol.FlightService/PollFlightInfo")
metadata = [("authorization", "Bearer " + token)]
call = {
    "list": lambda: list(client.list_flights(b"", options)),
    "info": lambda: client.get_flight_info(path, options),
    "schema": lambda: client.get_schema(path, options),
    "poll": lambda: poll(path.serialize(), metadata=metadata, timeout=60),
    "get": lambda: client.do_get(ticket, options).read_all(),
}[verb]
call()
with open(shared, "r+b") as file:
    n_answered = mmap.mmap(file.fileno(), 1)
print("ready", flush=True)
sys.stdin.readline()
for n in range(1, n_calls + 1):
    call()
    n_answered[0] = n
"""


class Filled(dict[tuple[str, int, int, tuple[int, int]], pa.Table]):
    """Writes what is set into a store."""

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def __setitem__(self, key: tuple[str, int, int, tuple[int, int]], table: pa.Table) -> None:
        job, number, _, (task, attempt) = key
        self._store.begin(job, number, table.schema, 1, task, attempt)
        for batch in table.to_batches():
            self._store.append(job, number, task, attempt, batch, None)
        self._store.seal(job, number, task, attempt)


@pytest.mark.parametrize("verb", ["list", "info", "schema", "poll", "get"])
def test_answers_while_python_is_busy(verb: str, tmp_path: Path) -> None:
    store = Store()
    with FlightRig(tmp_path, stores={"a0": store}) as rig:
        rig.sources["a0"].tables = Filled(store)
        rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
        assert answered_meanwhile(rig, verb, tmp_path / "shared") == N_CALLS


def answered_meanwhile(rig: FlightRig, verb: str, shared: Path) -> int:
    """Of `N_CALLS` of another process, those that had an answer while this one held the GIL."""
    shared.write_bytes(bytes(1))
    client = subprocess.Popen(
        [
            sys.executable, "-c", textwrap.dedent(CLIENT),
            rig.address(), rig.token(), verb, str(shared), str(N_CALLS),
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert client.stdin is not None
    assert client.stdout is not None
    with shared.open("r+b") as file:
        n_answered = mmap.mmap(file.fileno(), 1)
    assert client.stdout.readline() == "ready\n"
    interval = sys.getswitchinterval()
    sys.setswitchinterval(60)  # whoever asks for the GIL waits until the loop below is over
    try:
        client.stdin.write("go\n")
        client.stdin.flush()
        end = time.monotonic() + HELD_S
        while n_answered[0] < N_CALLS and time.monotonic() < end:
            pass
        return n_answered[0]
    finally:
        sys.setswitchinterval(interval)
        client.communicate()


def test_a_token_is_shown_to_python_once(timed: FlightRig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    verify = Signer.verify

    def counting(self: Signer, token: str, *rest: Any) -> Any:
        seen.append(token)
        return verify(self, token, *rest)

    monkeypatch.setattr(Signer, "verify", counting)
    with timed.client("read") as one, timed.client("read") as two:
        for _ in range(5):
            one.flights()
            two.flights()
        assert len(seen) == len(set(seen)) == 2
        assert isinstance(timed.clock, ManualClock)
        timed.clock.advance(3661)
        for _ in range(2):
            with pytest.raises(AuthError, match="expired"):
                one.flights()
        assert len(seen) == 4


class StuckSource(TableSource):
    """Sits in Python after the first message, until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.free, self.reached = threading.Event(), threading.Event()

    def read(
        self, job: str, edge: int, partition: int, producers: Sequence[tuple[int, int]], *,
        checksums: bool = True,
    ) -> Iterator[tuple[bytes, pa.RecordBatch]]:  # fmt: skip
        messages = super().read(job, edge, partition, producers, checksums=checksums)
        yield next(messages)
        self.reached.set()
        self.free.wait()
        yield from messages


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlightRig]:
    monkeypatch.setattr("tests.support.flight_rig.TableSource", StuckSource)
    with FlightRig(tmp_path) as rig:
        yield rig
        for source in rig.sources.values():
            source.free.set()  # type: ignore[attr-defined]


def waiting_get(rig: FlightRig) -> Any:
    rig.add_edge("j", "n", {("a0", 0, 0): ROWS})
    client = rig.client("read")
    (endpoint,) = client.info(["job", "j", "n"]).endpoints
    token = (b"authorization", f"Bearer {rig.token()}".encode())
    reader = fl.connect(rig.address()).do_get(
        endpoint.ticket, fl.FlightCallOptions(timeout=60, headers=[token])
    )
    assert reader.read_chunk().data.num_rows == 100
    assert rig.sources["a0"].reached.wait(60)  # type: ignore[attr-defined]
    client.close()
    return reader


def test_a_cancelled_stream_ends_while_it_waits(stuck: FlightRig) -> None:
    reader = waiting_get(stuck)
    assert stuck.servers["a0"].n_open == 1
    reader.cancel()
    wait_until(lambda: stuck.servers["a0"].n_open == 0)


def test_stopping_does_not_wait_for_a_stuck_source(stuck: FlightRig) -> None:
    reader = waiting_get(stuck)
    begun_s = time.monotonic()
    assert stuck.servers.pop("a0").stop(5.0)
    assert time.monotonic() - begun_s < 30
    with pytest.raises((pa.ArrowException, OSError), match=r"(?i)shutting down|unavailable"):
        list(reader)


def test_dictionaries_travel_and_change(rig: FlightRig) -> None:
    dtype = pa.dictionary(pa.int8(), pa.string())
    nested = pa.list_(pa.dictionary(pa.int32(), pa.large_string()))
    words = [["a", "b", None], ["c"], [], ["c"], ["b", "a"]]
    chunks = [pa.array(part, pa.string()).dictionary_encode().cast(dtype) for part in words]
    lists = [pa.array([part, None], pa.list_(pa.large_string())) for part in words]
    lists = [part[: len(chunk)] for part, chunk in zip(lists, chunks, strict=True)]
    lists = [
        pa.concat_arrays([part, pa.nulls(len(chunk) - len(part), part.type)]).cast(nested)
        for part, chunk in zip(lists, chunks, strict=True)
    ]
    rows = pa.table({"w": pa.chunked_array(chunks, dtype), "l": pa.chunked_array(lists, nested)})
    empty = rows.schema.empty_table()
    rig.add_edge("j", "n", {("a0", 0, 0): rows, ("a1", 1, 0): rows, ("a0", 2, 0): empty})
    for agent in ("a0", "a1"):
        with rig.client("read", agent) as client:
            info = client.info(["job", "j", "n"])
            here = [b for e in info.endpoints for b in client.read_endpoint(e.ticket.ticket)]
        got = pa.Table.from_batches(here, rows.schema)
        assert got.to_pydict() == {k: v + v for k, v in rows.to_pydict().items()}
    for agent, other in (("a0", "a1"), ("a1", "a0")):
        task = {"a0": 0, "a1": 1}[other]
        request = PartitionRequest(
            job="j", edge=0, node_path="n", partition=0, producers=((task, 0),)
        )
        stream = rig.transports[agent].fetch(rig.address(other), request)
        batches = [batch for _, batch in stream if batch is not None]
        assert pa.Table.from_batches(batches, rows.schema).to_pydict() == rows.to_pydict()


N_STARTS = 40
LEAK_BYTES = 300_000
"""Of a server that left something behind."""


class Server:
    """One server and what it serves, to be started and stopped often."""

    def __init__(self, folder: Path) -> None:
        control = RigControl()
        self.signer = Signer(b"a secret of thirty-two bytes....")
        backend = Backend(
            agent_id="a", source=TableSource(), locations=LocationTable(),
            datasets=DatasetFiles(folder, "a"), control=control, transport=InProcessTransport(),
        )  # fmt: skip
        self.server = FabricFlightServer(backend, self.signer)
        self.alive = weakref.ref(control)

    def call(self) -> None:
        token = self.signer.token("read", "x", 60, time.time())
        header = (b"authorization", f"Bearer {token}".encode())
        with fl.connect(f"grpc+tcp://127.0.0.1:{self.server.port}") as client:
            options = fl.FlightCallOptions(timeout=30, headers=[header])
            assert list(client.list_flights(b"", options)) == []


def test_starts_and_stops_leave_nothing(tmp_path: Path) -> None:
    """In a process of its own: each search for garbage looks at all that other tests left in this
    one, which takes a second, and their threads take memory meanwhile."""
    code = f"from {__name__} import start_and_stop; start_and_stop({str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr


def start_and_stop(folder: str) -> None:
    """Many servers, of which none leaves threads, files or memory behind."""

    def once() -> None:
        server = Server(Path(folder))
        server.call()
        assert server.server.stop(5.0)
        alive = server.alive
        del server
        gc.collect()
        assert alive() is None

    for _ in range(5):
        once()
    grown = list[int]()
    for _ in range(3):  # allocators may take memory once; a leak takes it each time
        before = usage()
        for _ in range(N_STARTS):
            once()
        wait_until(lambda now=before: usage()[0] <= now[0] + 4 and usage()[1] <= now[1] + 4)
        grown.append(usage()[2] - before[2])
        if grown[-1] < N_STARTS * LEAK_BYTES:
            return
    pytest.fail(f"{N_STARTS} servers took {grown} bytes")


def test_a_server_that_is_forgotten_ends(tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.call()
    port, alive = server.server.port, server.alive
    del server
    gc.collect()
    wait_until(lambda: alive() is None)
    with fl.connect(f"grpc+tcp://127.0.0.1:{port}") as client, pytest.raises(pa.ArrowException):
        list(client.list_flights(b"", fl.FlightCallOptions(timeout=5)))


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    one = Server(tmp_path)
    backend = Backend(
        agent_id="b", source=TableSource(), locations=LocationTable(),
        datasets=DatasetFiles(tmp_path, "b"), control=RigControl(), transport=InProcessTransport(),
    )  # fmt: skip
    with pytest.raises((FabricError, OSError)):
        FabricFlightServer(backend, one.signer, f"grpc+tcp://127.0.0.1:{one.server.port}")
    assert one.server.stop(5.0)


def test_pushed_changes_are_seen_at_once(rig: FlightRig) -> None:
    with rig.client("read") as client:
        for n in range(20):
            rig.control.push(edges=[pb.EdgeLocation(job_id="j", node_path=f"n{n}")])
            assert len(client.flights(b"job/j")) == n + 1
    assert rig.control.n_located == 0


def usage() -> tuple[int, int, int]:
    """Threads, open files and resident bytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return (
        len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")),
        pages * os.sysconf("SC_PAGE_SIZE"),
    )  # fmt: skip


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[FlightRig]:
    with FlightRig(tmp_path, clock=ManualClock()) as rig:
        yield rig

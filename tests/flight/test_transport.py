"""Agents reading each other over real sockets: right, damaged, dead and frozen peers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fabric.errors import ConfigError, NotFoundError, PartitionLostError, PeerLostError
from fabric.flight.connections import PER_ADDRESS_MAX, Connections, connect
from fabric.flight.descriptor import PutPath
from fabric.flight.header import EdgeHeader, Event, decode_header
from fabric.flight.inprocess import InProcessTransport
from fabric.flight.remote import FlightTransport
from fabric.flight.ticket import DatasetRequest, Part, PartitionRequest
from fabric.flight.transport import PutWriter
from fabric.io.dataset.access import DatasetFiles
from fabric.security.tokens import Signer
from tests.support.flight_rig import SECRET, FlightRig, TableSource, encode_header
from tests.support.wait import wait_until

ROWS = pa.table({"k": range(2500), "v": ["x" * (n % 40) for n in range(2500)]})
DICTIONARIES = pa.table({"d": pa.array(["a", "b", None, "a"]).dictionary_encode()})


def request(*producers: tuple[int, int], partition: int = 0) -> PartitionRequest:
    return PartitionRequest(
        job="job-1", edge=4, node_path="join", partition=partition, producers=producers
    )


def rows_of(messages: Iterator[tuple[EdgeHeader, pa.RecordBatch | None]]) -> pa.Table:
    return pa.Table.from_batches([batch for _, batch in messages if batch is not None])


@pytest.mark.parametrize("table", [ROWS, DICTIONARIES], ids=["plain", "dictionaries"])
@pytest.mark.parametrize("way", ["flight", "local"])
def test_fetches_rows_and_events(rig: FlightRig, table: pa.Table, way: str) -> None:
    empty = table.slice(0, 0)
    rows = {("a1", 0, 0): table, ("a1", 3, 0): empty, ("a1", 0, 1): empty, ("a1", 3, 1): table}
    rig.add_edge("job-1", "join", rows, edge=4)
    transport: Any = rig.transports["a0"]
    if way == "local":
        transport = InProcessTransport()
        transport.register(rig.address("a1"), rig.sources["a1"], rig.files["a1"])
    messages = list(transport.fetch(rig.address("a1"), request((0, 0), (3, 0))))
    assert rows_of(iter(messages)).equals(table)
    ends = [h for h, batch in messages if batch is None]
    assert [(h.producer, h.event, h.total_rows) for h in ends] == [
        (0, Event.END, table.num_rows), (3, Event.END, 0),
    ]  # fmt: skip
    other = list(transport.fetch(rig.address("a1"), request((0, 0), partition=1)))
    assert [header.event for header, _ in other] == [Event.END]


class Damaged(TableSource):
    """Gives what a table source gives, with one thing wrong."""

    damage = ""

    def read(
        self,
        job: str,
        edge: int,
        partition: int,
        producers: Sequence[tuple[int, int]],
        *,
        checksums: bool = True,
    ) -> Iterator[tuple[bytes, pa.RecordBatch]]:
        for data, batch in super().read(job, edge, partition, producers, checksums=checksums):
            header = decode_header(data)
            match self.damage, header.sequence:
                case "attempt", _:
                    yield encode_header(replace(header, attempt=0)), batch
                case "crc", 1:
                    yield encode_header(replace(header, crc32c=header.crc32c ^ 1)), batch
                case "rows", 1:
                    yield data, batch.slice(1)
                case "gap", 1:
                    continue
                case "twice", 1:
                    yield data, batch
                    yield data, batch
                case "no end", _ if header.event is Event.END:
                    return
                case "totals", _ if header.event is Event.END:
                    yield encode_header(replace(header, total_rows=7)), batch
                case _:
                    yield data, batch


@pytest.mark.parametrize(
    ("damage", "words"),
    [("attempt", "an older attempt than 2"), ("crc", "checksum differs"),
     ("rows", "other rows than its header"), ("gap", "1 messages are missing"),
     ("no end", "ended before its rows did"), ("totals", "2500 of 7 rows")],
)  # fmt: skip
def test_damage_names_agent_task_and_partition(rig: FlightRig, damage: str, words: str) -> None:
    source = Damaged()
    source.tables["job-1", 4, 0, (3, 2)] = ROWS
    source.damage = damage
    rig.sources["a1"].read = source.read  # type: ignore[method-assign]
    rig.sources["a1"].edge_schema = source.edge_schema  # type: ignore[method-assign]
    with pytest.raises(PartitionLostError, match=words) as caught:
        list(rig.transports["a0"].fetch(rig.address("a1"), request((3, 2))))
    where = caught.value.where
    assert (where.job, where.node, where.agent) == ("job-1", "join", rig.address("a1"))
    assert where.task.startswith("3#")
    assert "partition 0 of edge 4" in caught.value.message


def test_a_message_sent_twice_is_dropped(rig: FlightRig) -> None:
    source = Damaged()
    source.tables["job-1", 4, 0, (3, 2)] = ROWS
    source.damage = "twice"
    rig.sources["a1"].read = source.read  # type: ignore[method-assign]
    rig.sources["a1"].edge_schema = source.edge_schema  # type: ignore[method-assign]
    got = rows_of(rig.transports["a0"].fetch(rig.address("a1"), request((3, 2))))
    assert got.equals(ROWS)


def test_what_is_not_there_is_said(rig: FlightRig) -> None:
    rig.add_edge("job-1", "join", {("a1", 0, 0): ROWS}, edge=4)
    fetch = rig.transports["a0"].fetch
    with pytest.raises(PartitionLostError, match="partition 9 is not here") as caught:
        list(fetch(rig.address("a1"), request((0, 0), partition=9)))
    assert caught.value.where.node == "join"
    with pytest.raises(NotFoundError, match="edge 4 has no partitions"):
        list(fetch(rig.address("a0"), request((0, 0))))
    with pytest.raises(PeerLostError, match="no agent answers at 'local:gone'"):
        list(InProcessTransport().fetch("local:gone", request((0, 0))))
    with pytest.raises(ConfigError, match="is no Flight address"):
        list(fetch("local:gone", request((0, 0))))


def test_early_close_frees_the_peer(rig: FlightRig) -> None:
    rig.sources["a1"].batch_rows = 1
    rig.add_edge("job-1", "join", {("a1", 0, 0): pa.table({"s": ["x" * 1_000_000] * 50})}, edge=4)
    stream = rig.transports["a0"].fetch(rig.address("a1"), request((0, 0)))
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    wait_until(lambda: rig.servers["a1"].n_open == 0)
    wait_until(lambda: rig.transports["a0"]._connections.n_calls == 0)


def test_a_dead_peer_is_known_at_once(rig: FlightRig) -> None:
    address = rig.address("a1")
    rig.stop("a1")
    begun_s = time.monotonic()
    with pytest.raises(PeerLostError, match="is the agent still running") as caught:
        list(rig.transports["a0"].fetch(address, request((0, 0))))
    assert caught.value.where.agent == address
    assert time.monotonic() - begun_s < 15  # what waits for an answer does so for 20 s at least


def test_a_listener_that_never_answers_ends_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"grpc+tcp://127.0.0.1:{silent.getsockname()[1]}"
        transport = FlightTransport(_signer(), idle_s=0.3)
        with pytest.raises(PeerLostError, match=r"nothing for 0.3 s"):
            list(transport.fetch(address, request((0, 0))))
        put = transport.open_put(address, PutPath("d", "t", "w", 0), ROWS.schema)
        with pytest.raises(PeerLostError, match=r"nothing for 0.3 s"):
            put.seal()
        with pytest.raises(PeerLostError, match="no answer"):
            transport.discard(address, "d", "t")
        transport.close()


FROZEN = """
import sys, threading
import pyarrow as pa
from pathlib import Path
from tests.support.flight_rig import FlightRig
with FlightRig(Path(sys.argv[1]), 1) as rig:
    rig.sources["a0"].batch_rows = 1
    rows = pa.table({"s": ["x" * 1_000_000] * 200})
    rig.add_edge("job-1", "join", {("a0", 0, 0): rows}, edge=4)
    print(rig.address(), flush=True)
    sys.stdin.read()
"""


def test_a_frozen_peer_ends_in_time_and_a_thawed_one_serves_again(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", FROZEN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin
    assert child.stdout
    transport = FlightTransport(_signer(), idle_s=3.0)
    try:
        address = child.stdout.readline().strip()
        stream = transport.fetch(address, request((0, 0)))
        next(stream)
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(PeerLostError, match=r"nothing for 3 s|no answer"):
            list(stream)
        put = transport.open_put(address, PutPath("d", "t", "w", 0), ROWS.schema)
        with pytest.raises(PeerLostError, match=r"nothing for 3 s|no answer"):
            write_often(put, pa.record_batch({"k": range(2_000_000)}))
        os.kill(child.pid, signal.SIGCONT)
        assert rows_of(transport.fetch(address, request((0, 0)))).num_rows == 200
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
        transport.close()


def test_a_peer_killed_in_the_middle_is_lost(tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", FROZEN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin
    assert child.stdout
    transport = FlightTransport(_signer(), idle_s=10.0)
    try:
        stream = transport.fetch(child.stdout.readline().strip(), request((0, 0)))
        next(stream)
        child.kill()
        with pytest.raises(PeerLostError, match="is the agent still running") as caught:
            list(stream)
        assert caught.value.where.job == "job-1"
    finally:
        child.wait()
        child.stdin.close()
        child.stdout.close()
        transport.close()


def test_datasets_between_agents(rig: FlightRig) -> None:
    address, put = rig.address("a1"), PutPath("d", "tx-1", "w", 2)
    writer = rig.transports["a0"].open_put(address, put, ROWS.schema)
    for batch in ROWS.to_batches(max_chunksize=1000):
        writer.write(5, batch)
    receipt = writer.seal()
    assert receipt.rows == 2500
    part = DatasetRequest(name="d", version=1, partition=5, parts=(Part("tx-1", "w", 2),))
    read = rig.transports["a0"].read_dataset
    assert pa.Table.from_batches(read(address, part)).equals(ROWS)
    other = replace(part, partition=6)
    with pytest.raises(PartitionLostError, match=r"partition 6 of dataset 'd' .* does not belong"):
        list(read(address, other))
    rig.transports["a0"].discard(address, "d", "tx-1")
    with pytest.raises(PartitionLostError, match="is not on this agent"):
        list(read(address, part))


def test_local_addresses_take_no_socket(tmp_path: Path) -> None:
    local = InProcessTransport()
    local.register("grpc+tcp://127.0.0.1:1", TableSource(), DatasetFiles(tmp_path))
    transport = FlightTransport(_signer(), local=local)
    put = PutPath("d", "tx-1", "w", 0)
    writer = transport.open_put("grpc+tcp://127.0.0.1:1", put, ROWS.schema)
    writer.write(0, ROWS.to_batches()[0])
    writer.seal()
    part = DatasetRequest(name="d", version=1, partition=0, parts=(Part("tx-1", "w", 0),))
    assert pa.Table.from_batches(transport.read_dataset("grpc+tcp://127.0.0.1:1", part)) == ROWS
    transport.discard("grpc+tcp://127.0.0.1:1", "d", "tx-1")
    assert not list(tmp_path.iterdir())
    local.unregister("grpc+tcp://127.0.0.1:1")
    local.close()
    transport.close()


def test_connections_are_shared_bounded_and_thrown_away_when_broken() -> None:
    connections = Connections()
    leases = [connections.lend("grpc+tcp://127.0.0.1:1") for _ in range(PER_ADDRESS_MAX + 3)]
    clients = [lease.__enter__() for lease in leases]
    assert len(set(clients)) == PER_ADDRESS_MAX
    leases[0].__exit__(PeerLostError, PeerLostError("gone"), None)
    for lease in leases[1:]:
        lease.__exit__(None, None, None)
    with connections.lend("grpc+tcp://127.0.0.1:1") as client:
        assert client != clients[0]
    connections.close()
    with pytest.raises(PeerLostError, match="shutting down"), connections.lend("grpc+tcp://h:1"):
        pass


@pytest.mark.parametrize("address", ["", "x", "http://h", "grpc+tcp://", "grpc+nope://h:1"])
def test_strange_addresses_are_refused(address: str) -> None:
    try:
        client = connect(address)
    except ConfigError as error:
        assert "is not a valid Flight address" in error.message  # noqa: PT017
    else:
        client.close()


def test_idle_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="idle_s must be positive"):
        FlightTransport(_signer(), idle_s=0)


def write_often(put: PutWriter, batch: pa.RecordBatch) -> None:
    for _ in range(100):
        put.write(0, batch)


def _signer() -> Signer:
    return Signer(SECRET)

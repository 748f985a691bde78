"""What is on its way from one peer is bounded, by bytes and requests; nobody waits for ever."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from fabric._cython.shuffle.store.budget import Budget, Share
from fabric._cython.shuffle.store.store import Store
from fabric.flight.backend import Backend
from fabric.flight.locations import LocationTable
from fabric.flight.remote import FlightTransport
from fabric.flight.server import FabricFlightServer
from fabric.flight.ticket import PartitionRequest
from fabric.flight.transport import RowStream
from fabric.ids import EdgeId
from tests.support.flight_rig import FlightRig
from tests.support.wait import wait_until

N_STREAMS, N_MESSAGES, MESSAGE_ROWS = 4, 16, 1 << 17
MESSAGE_BYTES = MESSAGE_ROWS * 8


class Peer:
    """A server of one edge; every partition has `N_MESSAGES` messages of a MiB."""

    def __init__(self, rig: FlightRig) -> None:
        store = Store("a0")
        batch = pa.record_batch({"a": np.arange(N_STREAMS * MESSAGE_ROWS)})
        offsets = np.arange(N_STREAMS + 1, dtype=np.int64) * MESSAGE_ROWS
        edge = EdgeId("job", 0)
        store.begin(edge.job, edge.edge, batch.schema, N_STREAMS, 0, 0)
        for _ in range(N_MESSAGES):
            store.append(edge.job, edge.edge, 0, 0, batch, offsets)
        store.seal(edge.job, edge.edge, 0, 0)
        backend = Backend(
            agent_id="a0",
            source=store,
            locations=LocationTable(),
            datasets=rig.files["a0"],
            control=rig.control,
            transport=rig.transports["a0"],
        )
        self.server = FabricFlightServer(backend, rig.signer)
        self.address = f"grpc+tcp://127.0.0.1:{self.server.port}"

    def open(self, transport: FlightTransport, partition: int, *, gathers: bool) -> RowStream:
        """One partition on its way."""
        ask = PartitionRequest(
            job="job", edge=0, node_path="e", partition=partition, producers=((0, 0),)
        )
        return transport.open_rows(self.address, ask, gathers=gathers)


@pytest.fixture
def peer(rig: FlightRig) -> Iterator[Peer]:
    made = Peer(rig)
    yield made
    made.server.stop(5.0)


def n_rows(stream: RowStream) -> int:
    return sum(batch.num_rows for batches in iter(stream.take, []) for batch in batches)


def in_flight(transport: FlightTransport, peer: Peer) -> tuple[int, int]:
    return transport._connections.in_flight(peer.address)


def test_bytes_of_one_peer_are_bounded(rig: FlightRig, peer: Peer) -> None:
    budget = Budget(1 << 40)
    transport = FlightTransport(
        rig.signer, agent_id="a9", budget=budget, peer_bytes=2 * MESSAGE_BYTES
    )
    streams = [peer.open(transport, p, gathers=False) for p in range(N_STREAMS)]
    most = (N_STREAMS + 3) * MESSAGE_BYTES  # one each, and what goes beyond the estimate
    wait_until(lambda: budget.used_bytes >= N_STREAMS * MESSAGE_BYTES)
    assert in_flight(transport, peer)[0] <= most
    with ThreadPoolExecutor(N_STREAMS) as pool:
        assert set(pool.map(n_rows, streams)) == {N_MESSAGES * MESSAGE_ROWS}
    for stream in streams:
        stream.close()
    assert in_flight(transport, peer) == (0, 0)
    assert budget.used_bytes == 0
    transport.close()


def test_tasks_that_gather_take_turns(rig: FlightRig, peer: Peer) -> None:
    transport = FlightTransport(rig.signer, agent_id="a9", peer_requests=1)
    streams = [peer.open(transport, p, gathers=True) for p in range(N_STREAMS)]
    with ThreadPoolExecutor(N_STREAMS) as pool:
        found = [pool.submit(n_rows, stream) for stream in streams]
        while not all(one.done() for one in found):
            assert in_flight(transport, peer)[1] <= 1
        assert {one.result() for one in found} == {N_MESSAGES * MESSAGE_ROWS}
    for stream in streams:
        stream.close()
    assert in_flight(transport, peer) == (0, 0)
    transport.close()


def test_streams_move_in_a_budget_that_others_have_used_up(rig: FlightRig, peer: Peer) -> None:
    """Who holds nothing is let in: a message at a time."""
    budget = Budget(1)
    other = Share(budget)
    other.take(1 << 30)
    transport = FlightTransport(rig.signer, agent_id="a9", budget=budget)
    streams = [peer.open(transport, p, gathers=True) for p in range(N_STREAMS)]
    with ThreadPoolExecutor(N_STREAMS) as pool:
        assert set(pool.map(n_rows, streams)) == {N_MESSAGES * MESSAGE_ROWS}
    for stream in streams:
        stream.close()
    assert budget.used_bytes == 1 << 30
    transport.close()


def test_a_stream_that_waits_for_room_can_be_closed(rig: FlightRig, peer: Peer) -> None:
    budget = Budget(1)
    transport = FlightTransport(rig.signer, agent_id="a9", budget=budget)
    stream = peer.open(transport, 0, gathers=True)
    wait_until(lambda: budget.n_waiting == 1)
    stream.close()
    assert (budget.used_bytes, budget.n_waiting) == (0, 0)
    transport.close()

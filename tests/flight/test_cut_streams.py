"""Streams whose connection breaks: all rows, once and in order, or an error that says which."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.pump.pump import Connections
from fabric.errors import CancelledError, DataError, FabricError, PartitionLostError, PeerLostError
from fabric.flight.descriptor import PutPath
from fabric.flight.header import Event
from fabric.flight.remote import FlightTransport
from fabric.flight.ticket import PartitionRequest
from fabric.flight.transport import PutWriter
from tests.support.cut_proxy import CutProxy
from tests.support.flight_rig import FlightRig
from tests.support.sampled import SOAK
from tests.support.wait import wait_until

ROWS = pa.table({"k": range(20_000), "v": [f"{n}" * (n % 7) for n in range(20_000)]})
PRODUCERS = ((0, 0), (3, 0))


def request(partition: int = 0) -> PartitionRequest:
    return PartitionRequest(
        job="job-1", edge=4, node_path="join", partition=partition, producers=PRODUCERS
    )


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightRig]:
    """Two producers' rows of two partitions with agent a1."""
    with FlightRig(tmp_path_factory.mktemp("served")) as rig:
        ends = [0, 7_000, 7_000, 19_999, 20_000]
        parts = [ROWS.slice(a, b - a) for a, b in pairwise(ends)]
        keys = [("a1", task, partition) for task in (0, 3) for partition in (0, 1)]
        rig.add_edge("job-1", "join", dict(zip(keys, parts, strict=True)), edge=4)
        yield rig


def expected(rig: FlightRig, partition: int) -> list[pa.Table]:
    """Rows of each producer."""
    return [rig.sources["a1"].tables["job-1", 4, partition, p] for p in PRODUCERS]


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def fetched(transport: FlightTransport, address: str, partition: int) -> list[pa.Table]:
    """Rows of each producer, as they came; every producer must have ended."""
    found: dict[int, list[pa.RecordBatch]] = {task: [] for task, _ in PRODUCERS}
    ended = []
    for header, batch in transport.fetch(address, request(partition)):
        if batch is not None:
            found[header.producer].append(batch)
        elif header.event is Event.END:
            ended.append((header.producer, header.total_rows))
    tables = [pa.Table.from_batches(batches, ROWS.schema) for batches in found.values()]
    assert ended == [(task, t.num_rows) for task, t in zip(found, tables, strict=True)]
    return tables


@settings(
    max_examples=25 if SOAK else 12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    cuts=st.lists(st.integers(0, 400_000) | st.integers(0, 600), max_size=6),
    how=st.sampled_from(["reset", "close"]),
    batch_rows=st.sampled_from([100, 1_000, 5_000]),
    partition=st.integers(0, 1),
)
def test_all_rows_in_order_or_a_typed_error(
    served: FlightRig, cuts: list[int], how: Any, batch_rows: int, partition: int
) -> None:
    served.sources["a1"].batch_rows = batch_rows
    transport = FlightTransport(served.signer, agent_id="a0", idle_s=10.0)
    with CutProxy(port_of(served.address("a1")), cuts, how) as proxy:
        error = None
        try:
            assert fetched(transport, proxy.address, partition) == expected(served, partition)
        except (PeerLostError, PartitionLostError) as failure:
            error = failure
        if error is not None:
            assert proxy.n_cut > 1  # one is made good for
            assert error.where.agent == proxy.address
            assert (error.where.job, error.where.node) == ("job-1", "join")
            assert f"partition {partition} of edge 4 from task" in error.message
        assert transport._connections.n_calls == 0
    transport.close()


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_stream_goes_on_where_it_broke(served: FlightRig, how: Any) -> None:
    served.sources["a1"].batch_rows = 500
    with CutProxy(port_of(served.address("a1")), [60_000, 150_000], how) as proxy:
        stream = Connections().fetch(
            proxy.address, b"", job="job-1", edge=4, producers=[], idle_s=10.0
        )
        with pytest.raises(FabricError, match=r"ticket|token"):
            stream.take()
        assert stream.tries == 1  # a refusal is none of the connection's
        transport = FlightTransport(served.signer, agent_id="a0", idle_s=10.0)
        rows = transport.open_rows(proxy.address, request())
        found = list(iter(rows.take, []))
        assert rows._stream.tries >= 2  # type: ignore[attr-defined]
        rows.close()
        transport.close()
    tables = expected(served, 0)
    assert pa.Table.from_batches([b for batches in found for b in batches]) == pa.concat_tables(
        tables
    )


def test_a_peer_that_stays_away_is_named_after_some_tries(served: FlightRig) -> None:
    transport = FlightTransport(served.signer, agent_id="a0", idle_s=10.0)
    with (
        CutProxy(port_of(served.address("a1")), [500] * 100, "reset") as proxy,
        pytest.raises(PeerLostError, match=r"no answer in 4 tries .* still running"),
    ):
        fetched(transport, proxy.address, 0)
    transport.close()


def test_silence_in_the_middle_ends_in_time(served: FlightRig) -> None:
    transport = FlightTransport(served.signer, agent_id="a0", idle_s=2.0)
    with CutProxy(port_of(served.address("a1")), [100_000], "silence") as proxy:
        with pytest.raises(PeerLostError, match=r"edge 4 .* sent nothing for 2 s"):
            fetched(transport, proxy.address, 0)
        assert transport._connections.n_calls == 0
        assert fetched(transport, proxy.address, 0) == expected(served, 0)  # on a new connection
    transport.close()


def test_a_close_wakes_who_waits(served: FlightRig) -> None:
    with CutProxy(port_of(served.address("a1")), [3_000], "silence") as proxy:
        for closing in ("stream", "transport"):
            transport = FlightTransport(served.signer, agent_id="a0", idle_s=60.0)
            rows = transport.open_rows(proxy.address, request())
            wait_until(lambda: proxy.n_cut == 1)
            (rows if closing == "stream" else transport).close()
            with pytest.raises((CancelledError, PeerLostError), match="closed"):
                list(iter(rows.take, []))
            rows.close()
            transport.close()
            proxy._cuts += [3_000]
            proxy.n_cut = 0


def test_a_broken_put_is_an_error_and_leaves_nothing(served: FlightRig, tmp_path: Path) -> None:
    put = PutPath("d", "tx-9", "w", 0)
    transport = FlightTransport(served.signer, agent_id="a0", idle_s=10.0)
    with CutProxy(port_of(served.address("a1")), [200], "reset") as proxy:
        writer = transport.open_put(proxy.address, put, ROWS.schema)
        with pytest.raises(PeerLostError, match="no answer"):
            put_often(writer)
        writer.abandon()
        assert transport._connections.n_calls <= 1  # the writer's own
    wait_until(lambda: not files_of(served))
    transport.close()


def test_an_abandoned_plain_put_is_not_taken_for_a_whole_one(served: FlightRig) -> None:
    schema = pa.schema([("k", pa.int64())])
    with served.client("write") as client:
        begun = client.action("dataset.begin", name="plain", schema=_encoded(schema), mode="append")
        path = PutPath("plain", begun["transaction"], "w", 0).path
        put = client.open_put(path, schema)
        put.write(pa.record_batch({"k": range(1000)}, schema))
        put.abandon()
        wait_until(lambda: served.servers["a0"].n_open == 0)
        wait_until(lambda: not files_of(served))
        with pytest.raises(CancelledError, match="closed"):
            put.finish()


def test_streams_leave_no_threads(served: FlightRig) -> None:
    served.sources["a1"].batch_rows = 1_000
    transport = FlightTransport(served.signer, agent_id="a0", idle_s=10.0)

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    for _ in range(4):
        fetched(transport, served.address("a1"), 0)
    before = threads()
    for n in range(30):
        rows = transport.open_rows(served.address("a1"), request())
        if n % 3:
            rows.take()
        rows.close()
    wait_until(lambda: threads() <= before + 4)  # gRPC keeps some of its own
    transport.close()


def test_a_strangers_rows_are_validated(served: FlightRig) -> None:
    """What only an agent may send, a client refuses before any kernel sees it."""
    offsets = pa.array([0, 1 << 30, 1], pa.int32()).buffers()[1]
    text = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"x"))
    table = pa.Table.from_batches([pa.record_batch([text], names=["v"])])

    class Liar(fl.FlightServerBase):  # type: ignore[misc]
        def do_get(self, context: object, ticket: object) -> object:
            return fl.RecordBatchStream(table)

    with Liar("grpc+tcp://127.0.0.1:0") as liar:
        connections = Connections()
        stream = connections.read(f"grpc+tcp://127.0.0.1:{liar.port}", b"any", idle_s=10.0)
        with pytest.raises(DataError, match="a batch of the stream is damaged"):
            stream.take()
        stream.close()
        connections.close()


def put_often(writer: PutWriter) -> None:
    for batch in ROWS.to_batches(max_chunksize=100) * 50:
        writer.write(0, batch)
    writer.seal()


def files_of(rig: FlightRig) -> list[str]:
    roots = [files.root for files in rig.files.values()]
    return [name for root in roots for _, _, names in os.walk(root) for name in names]


def _encoded(schema: pa.Schema) -> str:
    import base64

    return base64.b64encode(schema.serialize().to_pybytes()).decode("ascii")

"""Puts through servers: any types, any partitions; what breaks off or lies leaves nothing."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric._cython.kernels.hash import hash_columns
from fabric._cython.shuffle.checksum import batch_crc32c
from fabric._cython.shuffle.wire.headers import encode
from fabric.errors import DataError, FabricError, PartitionLostError
from fabric.flight.client import Client
from fabric.flight.connections import connect
from fabric.flight.errors import from_flight
from tests.support.arrays import arrays, examples, rendered
from tests.support.flight_rig import FlightRig
from tests.support.wait import wait_until

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
END = 3


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightRig]:
    """One fabric for many examples: each has a dataset of its own."""
    with FlightRig(tmp_path_factory.mktemp("rig"), 3) as rig:
        yield rig


@st.composite
def streams(draw: st.DrawFn) -> list[pa.RecordBatch]:
    """Batches of one schema: a key and up to three columns of any type."""
    n = draw(st.integers(1, 50))
    keys = draw(st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=n, max_size=n))
    columns = draw(st.lists(arrays(n, n), max_size=3))
    named = {"k": pa.array(keys, pa.string()), **{f"c{i}": c for i, c in enumerate(columns)}}
    batch = pa.RecordBatch.from_pydict(named)
    size = draw(st.integers(1, n))
    return [batch.slice(begin, size) for begin in range(0, n, size)]


def texts(batches: list[pa.RecordBatch], n_columns: int) -> list[tuple[str, ...]]:
    columns = [list(chain(*(rendered(b.column(i)) for b in batches))) for i in range(n_columns)]
    return list(zip(*columns, strict=True))


_names = iter(range(1 << 30))


@examples(0.5)
@given(streams(), st.integers(1, 9), st.booleans())
def test_what_is_put_is_what_is_read(
    shared: FlightRig, batches: list[pa.RecordBatch], n: int, by_keys: bool
) -> None:
    name, schema = f"d{next(_names)}", batches[0].schema
    with shared.client(agent="a1") as client, shared.client("read", agent="a2") as reader:
        begun = client.action(
            "dataset.begin", name=name, schema=base64.b64encode(schema.serialize()).decode(),
            keys=["k"] if by_keys else [], partitions=n,
        )  # fmt: skip
        transaction = str(begun["transaction"])
        ack = client.put(["dataset", name, transaction, "w", "0"], schema, batches)
        assert ack["rows"] == sum(b.num_rows for b in batches)
        part = {"writer": "w", "attempt": 0, "rows": ack["rows"]}
        client.action("dataset.commit", transaction=transaction, parts=[part])
        everything = []
        for partition, endpoint in enumerate(reader.info(["dataset", name]).endpoints):
            found = list(reader.read_endpoint(endpoint.ticket.ticket))
            everything += found
            for batch in found if by_keys else ():
                groups = hash_columns([batch.column("k")]) >> np.uint64(49)
                assert set(groups.astype(int) * n >> 15) <= {partition}
    assert sorted(texts(everything, len(schema))) == sorted(texts(batches, len(schema)))


def rows(n: int) -> pa.RecordBatch:
    return pa.record_batch({"k": range(n), "v": [f"row {i}" for i in range(n)]}, SCHEMA)


def begin(client: Client, n: int, keys: list[str]) -> str:
    schema = base64.b64encode(SCHEMA.serialize()).decode()
    begun = client.action("dataset.begin", name="d", schema=schema, keys=keys, partitions=n)
    return str(begun["transaction"])


def send(
    rig: FlightRig,
    scope: Any,
    path: list[str],
    messages: list[tuple[pa.RecordBatch, bytes]],
    agent: str = "a0",
) -> bytes:
    """A put of messages with given headers to an agent; its acknowledgement."""
    header = (b"authorization", f"Bearer {rig.token(scope)}".encode())
    options = fl.FlightCallOptions(timeout=30, headers=[header])
    with connect(rig.address(agent)) as client:
        descriptor = fl.FlightDescriptor.for_path(*path)
        writer, acks = client.do_put(descriptor, SCHEMA, options)
        try:
            with writer:
                for batch, metadata in messages:
                    writer.write_with_metadata(batch, metadata)
                writer.done_writing()
                ack = acks.read()
                return b"" if ack is None else bytes(ack.to_pybytes())
        except (pa.ArrowException, OSError) as error:
            raise from_flight(error) from error


def message(
    transaction: str, sequence: int, batch: pa.RecordBatch, *runs: tuple[int, int], **fields: Any
) -> tuple[pa.RecordBatch, bytes]:
    header = encode(
        job=transaction, edge=0, producer=0, sequence=sequence, partitions=runs,
        crc32c=batch_crc32c(batch), **fields,
    )  # fmt: skip
    return batch, header


def no_files(rig: FlightRig) -> bool:
    roots: list[Path] = [files.root for files in rig.files.values()]
    return not any(path.is_file() for root in roots for path in root.rglob("*"))


@pytest.mark.parametrize("scope", ["write", "agent"])
def test_a_message_may_hold_rows_of_several_partitions(rig: FlightRig, scope: str) -> None:
    with rig.client() as client:
        transaction = begin(client, 4, [])
        path = ["dataset", "d", transaction, "w", "0", "owner"]
        for agent, first in (("a0", 0), ("a1", 1)):
            sent = [
                message(transaction, 0, rows(10), (first, 7), (first + 2, 3)),
                message(transaction, 0, rows(10), (first, 7), (first + 2, 3)),  # once more: dropped
                message(transaction, 1, rows(0), event=END, total_rows=10),
            ]
            ack = send(rig, scope, path, sent, agent)
            assert ack.startswith(b'{"rows": 10, "crc32c_sum": ')
        parts = [{"writer": "w", "attempt": 0, "rows": 20}]
        client.action("dataset.commit", transaction=transaction, parts=parts)
        found = [
            [k for b in client.read_endpoint(e.ticket.ticket) for k in b["k"].to_pylist()]
            for e in client.info(["dataset", "d"]).endpoints
        ]
    assert found == [[*range(7)], [*range(7)], [7, 8, 9], [7, 8, 9]]


@pytest.mark.parametrize("scope", ["write", "agent"])
def test_headers_that_lie_reach_no_kernel(rig: FlightRig, scope: str) -> None:
    with rig.client() as client:
        transaction = begin(client, 4, ["k"])
        path = ["dataset", "d", transaction, "w", "0", "owner"]
        for runs in (((0, 9),), ((0, 11),), ((0, (1 << 64) - 5), (2, 15)), ((0, 1 << 63),) * 2):
            with pytest.raises(PartitionLostError, match="other rows than its header says"):
                send(rig, scope, path, [message(transaction, 0, rows(10), *runs)])
        damaged = message(transaction, 0, rows(10), (0, 10))[1]
        with pytest.raises(PartitionLostError, match="its checksum differs"):
            send(rig, scope, path, [(rows(11).slice(1), damaged)])
        with pytest.raises(PartitionLostError, match="damaged header"):
            send(rig, scope, path, [(rows(10), b"\xff")])
        with pytest.raises(PartitionLostError, match="2 messages are missing before 2"):
            send(rig, scope, path, [message(transaction, 2, rows(0), (0, 0))])
    wait_until(lambda: no_files(rig))


def test_a_put_that_breaks_off_leaves_nothing(rig: FlightRig) -> None:
    with rig.client() as client:
        transaction = begin(client, 2, [])
        attempt = ["dataset", "d", transaction, "w", "0"]
        for path in (attempt, [*attempt, "owner"], ["dataset", "e"]):
            header = (b"authorization", f"Bearer {rig.token('write')}".encode())
            with connect(rig.address("a0")) as raw:
                options = fl.FlightCallOptions(timeout=3.0, headers=[header])
                writer, _ = raw.do_put(fl.FlightDescriptor.for_path(*path), SCHEMA, options)
                batch, metadata = message(transaction, 0, rows(100), (0, 100))
                writer.write_with_metadata(batch, metadata)
                wait_until(lambda: rig.servers["a0"].n_open > 0)
                wait_until(lambda: rig.servers["a0"].n_open == 0)
                with pytest.raises(fl.FlightTimedOutError):
                    writer.close()
        wait_until(lambda: no_files(rig))
        wait_until(lambda: list(rig.control.catalogue._transactions) == [transaction])
    assert rig.control.catalogue.all() == []


def test_nothing_is_taken_for_a_wrong_address(rig: FlightRig) -> None:
    with rig.client() as client:
        with pytest.raises(FabricError, match="no open transaction 'tx-9' on dataset 'd'"):
            client.put(["dataset", "d", "tx-9", "w", "0"], SCHEMA, [rows(1)])
        doubled = pa.schema([("k", pa.int64()), ("k", pa.string())])
        with pytest.raises(DataError, match="column 'k' is there twice"):
            client.put(["dataset", "d"], doubled, [])
    assert no_files(rig)

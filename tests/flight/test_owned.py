"""Clients that split their rows themselves: taken where they belong, refused elsewhere."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl
import pytest

from fabric.control.control_pb2 import DatasetLocation
from fabric.errors import DataError, FabricError
from fabric.flight.client import Client
from fabric.flight.connections import connect
from fabric.flight.descriptor import PutPath
from fabric.flight.header import EdgeHeader
from fabric.flight.owners import Spread
from fabric.flight.transport import PutWriter
from tests.support.flight_rig import FlightRig, encode_header
from tests.support.wait import wait_until

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = pa.table({"k": range(1000), "v": [f"v{n}" for n in range(1000)]}, SCHEMA)


class Straight:
    """Puts of a client to owners, for `Spread`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def open_put(self, address: str, put: PutPath, schema: pa.Schema) -> PutWriter:
        return self.client.open_owner_put(address, put, schema)


@pytest.fixture
def client(rig: FlightRig) -> Iterator[Client]:
    with rig.client("write") as client:
        yield client


def begin(client: Client, **fields: Any) -> tuple[str, DatasetLocation, dict[str, str]]:
    """Transaction, location and addresses of the owners."""
    schema = base64.b64encode(SCHEMA.serialize()).decode()
    given = {"name": "d", "schema": schema, "keys": ["k"], "partitions": 5, **fields}
    transaction = str(client.action("dataset.begin", **given)["transaction"])
    found = client.action("dataset.locate", name="d", transaction=transaction)
    location = DatasetLocation(
        name="d",
        schema=base64.b64decode(found["schema"]),
        keys=found["keys"],
        n_partitions=found["partitions"],
        owners=found["owners"],
    )
    return transaction, location, found["addresses"]


@pytest.mark.parametrize("keys", [["k"], []])
def test_rows_split_by_the_client_are_the_dataset(
    client: Client, rig: FlightRig, keys: list[str]
) -> None:
    transaction, location, addresses = begin(client, keys=keys)
    assert addresses == rig.control.addresses
    spread = Spread(PutPath("d", transaction, "w", 3), location, Straight(client), addresses)
    for batch in ROWS.to_batches(max_chunksize=300):
        spread.write(batch)
    assert spread.seal().rows == ROWS.num_rows
    parts = [{"writer": "w", "attempt": 3, "rows": ROWS.num_rows}]
    client.action("dataset.commit", transaction=transaction, parts=parts)
    found = pa.Table.from_batches(client.read(client.info(["dataset", "d"])))
    assert found.sort_by("k") == ROWS


def refused(client: Client, rig: FlightRig, message: str, write: Any) -> None:
    """What `write` puts to agent a0 is refused with `message`, and nothing of it stays."""
    transaction, _, addresses = begin(client)
    writer = client.open_owner_put(addresses["a0"], PutPath("d", transaction, "w", 0), SCHEMA)

    def put() -> None:
        write(writer)
        writer.seal()

    with pytest.raises(DataError, match=message):
        put()
    roots = [files.root for files in rig.files.values()]
    wait_until(lambda: not any(names for root in roots for _, _, names in os.walk(root)))


def test_partitions_of_others_are_refused(client: Client, rig: FlightRig) -> None:
    batch = ROWS.to_batches()[0]
    refused(
        client, rig, "partition 1 of dataset 'd' does not belong to agent a0",
        lambda writer: writer.write(1, batch),
    )  # fmt: skip


def test_rows_in_the_wrong_partition_are_refused(client: Client, rig: FlightRig) -> None:
    batch = ROWS.to_batches()[0]
    refused(
        client, rig, "a row for partition 0 of dataset 'd' belongs to partition . by its keys k",
        lambda writer: writer.write(0, batch),
    )  # fmt: skip


def test_a_partition_that_is_not_named_is_refused(client: Client, rig: FlightRig) -> None:
    refused(
        client, rig, "names no rows for partition 2 of dataset 'd'; send an empty batch",
        lambda writer: writer.write(0, pa.RecordBatch.from_pylist([], SCHEMA)),
    )  # fmt: skip


def test_other_columns_are_refused(client: Client, rig: FlightRig) -> None:
    transaction, _, addresses = begin(client)
    other = pa.schema([("k", pa.int32()), ("v", pa.string())])
    put = PutPath("d", transaction, "w", 0)
    writer = client.open_owner_put(addresses["a0"], put, other)
    with pytest.raises(DataError, match="the stream has columns k: int32, v: string, dataset 'd'"):
        writer.seal()


def test_damaged_rows_reach_no_kernel(client: Client, rig: FlightRig) -> None:
    offsets = pa.array([0, 1 << 30, 1], pa.int32()).buffers()[1]
    text = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"x"))
    batch = pa.record_batch([pa.array([1, 2]), text], schema=SCHEMA)
    transaction, _, addresses = begin(client)
    path = PutPath("d", transaction, "w", 0, to_owner=True).path
    header = EdgeHeader(job=transaction, edge=0, producer=0, partitions=((0, 2),))
    token = (b"authorization", f"Bearer {rig.token('write')}".encode())
    with connect(addresses["a0"]) as raw:
        options = fl.FlightCallOptions(headers=[token], timeout=60)
        writer, _ = raw.do_put(fl.FlightDescriptor.for_path(*path), SCHEMA, options)
        writer.write_with_metadata(batch, encode_header(header))
        with pytest.raises(pa.ArrowException, match="a batch of the stream is damaged"):
            writer.close()


def test_after_the_commit_nothing_is_taken(client: Client) -> None:
    transaction, _, addresses = begin(client)
    client.action("dataset.commit", transaction=transaction, parts=[])
    writer = client.open_owner_put(addresses["a0"], PutPath("d", transaction, "w", 0), SCHEMA)
    with pytest.raises(FabricError, match=r"committed"):
        writer.seal()

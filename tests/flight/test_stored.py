"""Partitions over Flight straight from the store: compressed once, the same rows to everybody."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.store.store import Store
from fabric.errors import PartitionLostError
from fabric.flight.backend import Backend
from fabric.flight.locations import LocationTable
from fabric.flight.server import FabricFlightServer
from fabric.flight.ticket import PartitionRequest
from tests.support.arrays import batches, rendered
from tests.support.flight_rig import FlightRig

JOBS = itertools.count()


class Stored:
    """A server of one store, asked by agent a1 of the rig."""

    def __init__(self, rig: FlightRig) -> None:
        self.store = Store("a0")
        backend = Backend(
            agent_id="a0",
            source=self.store,
            locations=LocationTable(),
            datasets=rig.files["a0"],
            control=rig.control,
            transport=rig.transports["a0"],
        )
        self.server = FabricFlightServer(backend, rig.signer)
        self._rig = rig

    def write(self, rows: list[pa.RecordBatch], compression: str) -> str:
        """A job whose one partition holds `rows`."""
        job = f"job{next(JOBS)}"
        self.store.begin(job, 0, rows[0].schema, 1, 0, 0, compression=compression)
        for batch in rows:
            self.store.append(job, 0, 0, 0, batch, np.array([0, batch.num_rows], np.int64))
        self.store.seal(job, 0, 0, 0)
        return job

    def fetch(self, job: str) -> list[pa.RecordBatch]:
        """What another agent gets, checked."""
        address = f"grpc+tcp://127.0.0.1:{self.server.port}"
        ask = PartitionRequest(job=job, edge=0, node_path="e", partition=0, producers=((0, 0),))
        messages = self._rig.transports["a1"].fetch(address, ask)
        return [batch for _, batch in messages if batch is not None]


@pytest.fixture
def stored(rig: FlightRig) -> Iterator[Stored]:
    made = Stored(rig)
    yield made
    made.server.stop(5.0)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=batches(), n=st.integers(1, 3), compression=st.sampled_from(["", "lz4", "zstd"]))
def test_rows_of_any_type_arrive_each_time(
    stored: Stored, rows: pa.RecordBatch, n: int, compression: str
) -> None:
    job = stored.write([rows] * n, compression)
    expected = [rendered(column) * n for column in rows.columns]
    for _ in range(2):
        found = stored.fetch(job)
        got = [[v for b in found for v in rendered(b.column(i))] for i in range(rows.num_columns)]
        assert got == (expected if rows.num_rows else [[]] * rows.num_columns)
    stored.store.release(job)
    assert stored.store.stored_bytes == 0


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_an_edge_is_compressed_once(stored: Stored, compression: str) -> None:
    rows = pa.record_batch({"a": np.arange(1 << 18) % 7, "b": ["some text"] * (1 << 18)})
    job = stored.write([rows], compression)
    before = stored.store.stored_bytes
    assert pa.Table.from_batches(stored.fetch(job)) == pa.Table.from_batches([rows])
    kept = stored.store.stored_bytes - before
    assert 0 < kept < before / 3
    assert pa.Table.from_batches(stored.fetch(job)) == pa.Table.from_batches([rows])
    assert stored.store.stored_bytes == before + kept


def test_a_released_partition_is_lost(stored: Stored) -> None:
    job = stored.write([pa.record_batch({"a": [1]})], "")
    other = stored.write([pa.record_batch({"a": [1]})], "")
    assert stored.store.release(job) == 8
    stored.store.begin(job, 0, pa.schema([("a", pa.int64())]), 1, 1, 0)
    with pytest.raises(PartitionLostError, match="written by task 0 attempt 0, is not on this"):
        stored.fetch(job)
    assert len(stored.fetch(other)) == 1

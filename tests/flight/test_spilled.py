"""Spilled partitions over Flight: the same messages from the file, or an error that names it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fabric._cython.shuffle.store.budget import Budget
from fabric._cython.shuffle.store.store import Store
from fabric.errors import PartitionLostError
from fabric.flight.backend import Backend
from fabric.flight.header import EdgeHeader
from fabric.flight.locations import LocationTable
from fabric.flight.server import FabricFlightServer
from fabric.flight.ticket import PartitionRequest
from tests.support.arrays import batches, rendered
from tests.support.flight_rig import FlightRig

JOBS = itertools.count()
CODECS = ["", "lz4", "zstd"]


class Spilled:
    """Servers of a store that spills everything and of one that spills nothing, asked by a1."""

    def __init__(self, rig: FlightRig, folder: Path) -> None:
        self.folder, self._rig = folder, rig
        self.stores = [Store("a0", Budget(1), [folder]), Store("a0")]
        self.servers = [self._served(store) for store in self.stores]

    def _served(self, store: Store) -> FabricFlightServer:
        backend = Backend(
            agent_id="a0",
            source=store,
            locations=LocationTable(),
            datasets=self._rig.files["a0"],
            control=self._rig.control,
            transport=self._rig.transports["a0"],
        )
        return FabricFlightServer(backend, self._rig.signer)

    def write(self, rows: list[pa.RecordBatch], compression: str) -> str:
        """A job whose one partition holds `rows`, in both."""
        job = f"job{next(JOBS)}"
        for store in self.stores:
            store.begin(job, 0, rows[0].schema, 1, 0, 0, compression=compression)
            for batch in rows:
                offsets = np.array([0, batch.num_rows], np.int64)
                store.append(job, 0, 0, 0, batch, offsets)
            store.seal(job, 0, 0, 0)
        return job

    def fetch(self, server: int, job: str) -> list[tuple[EdgeHeader, pa.RecordBatch | None]]:
        """What another agent gets, checked."""
        address = f"grpc+tcp://127.0.0.1:{self.servers[server].port}"
        ask = PartitionRequest(job=job, edge=0, node_path="e", partition=0, producers=((0, 0),))
        return list(self._rig.transports["a1"].fetch(address, ask))


@pytest.fixture
def spilled(rig: FlightRig, tmp_path: Path) -> Iterator[Spilled]:
    (tmp_path / "spill").mkdir()
    made = Spilled(rig, tmp_path / "spill")
    yield made
    for server in made.servers:
        server.stop(5.0)


def texts(found: list[tuple[EdgeHeader, pa.RecordBatch | None]]) -> list[list[str]]:
    rows = [batch for _, batch in found if batch is not None]
    return [
        [v for b in rows for v in rendered(b.column(i))]
        for i in range(rows[0].num_columns if rows else 0)
    ]


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(rows=batches(), n=st.integers(1, 3), compression=st.sampled_from(CODECS))
def test_rows_of_any_type_come_from_the_file(
    spilled: Spilled, rows: pa.RecordBatch, n: int, compression: str
) -> None:
    job = spilled.write([rows] * n, compression)
    found, expected = spilled.fetch(0, job), spilled.fetch(1, job)
    assert texts(found) == texts(expected)
    last, end = found[-1][0], expected[-1][0]
    assert (last.event, last.total_rows) == (end.event, end.total_rows)
    for store in spilled.stores:
        store.release(job)
    assert list(spilled.folder.iterdir()) == []


@pytest.mark.parametrize("compression", CODECS)
def test_files_of_an_edge_that_compresses_are_small(spilled: Spilled, compression: str) -> None:
    rows = pa.record_batch({"a": np.arange(1 << 18) % 7, "b": ["some text"] * (1 << 18)})
    job = spilled.write([rows], compression)
    found, expected = spilled.fetch(0, job), spilled.fetch(1, job)
    assert [header for header, _ in found] == [header for header, _ in expected]
    assert texts(found) == texts(expected)
    n_bytes = sum(path.stat().st_size for path in spilled.folder.iterdir())
    assert (n_bytes < rows.nbytes / 3) is (compression != "")


def test_a_damaged_file_is_a_lost_partition_and_the_server_goes_on(spilled: Spilled) -> None:
    rows = pa.record_batch({"a": np.arange(1 << 18)})
    damaged, whole = (spilled.write([rows], "") for _ in range(2))
    path = min(spilled.folder.glob("*.arrows"), key=lambda file: int(file.stem.split("-")[-1]))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(PartitionLostError, match=f"spill file {path.name}: it is damaged") as error:
        spilled.fetch(0, damaged)
    assert "partition 0 of edge 0 from task 0#0" in str(error.value)
    assert str(spilled.folder) not in str(error.value)
    assert texts(spilled.fetch(0, whole)) == texts(spilled.fetch(1, whole))

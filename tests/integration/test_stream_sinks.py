"""Sinks of streams on agents that go away: each row is seen once, and nothing stays beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.io.readers import stream_schema
from fabric.plan.nodes import Sink, StreamScan
from fabric.plan.sources import GeneratorStream
from fabric.plan.targets import StreamFileTarget
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.wait import wait_until

N_ROWS, N_SPLITS = 24_000, 4


def plan(target: StreamFileTarget, rows_per_s: int) -> Sink:
    source = GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS, rows_per_s=rows_per_s)
    scan = StreamScan(source, stream_schema(source), path="made")
    return Sink(scan, target, path="out")


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[EmbeddedFabric]:
    config = CoordinatorConfig(
        checkpoint=CheckpointConfig(folder=str(tmp_path / "checkpoints"), interval_s=0.2)
    )
    with embedded_pair(3, slots=4, config=config) as made:
        yield made


def rows_in(folder: Path) -> list[tuple[int, int]]:
    tables = [pq.read_table(path, columns=["split", "row"]) for path in folder.iterdir()]
    table = pa.concat_tables(tables)
    return list(zip(table["split"].to_pylist(), table["row"].to_pylist(), strict=True))


def n_complete(fabric: EmbeddedFabric, job: str) -> int:
    told = fabric.control.list_checkpoints(pb.CheckpointsRequest(job_id=job)).checkpoints
    whole = [one.checkpoint for one in told if one.state not in {"under way", "aborted"}]
    return max(whole, default=0)


@pytest.mark.parametrize("compact_s", [0.0, 3_600.0])
def test_each_row_is_in_one_file_when_agents_leave(
    fabric: EmbeddedFabric, tmp_path: Path, compact_s: float
) -> None:
    out = tmp_path / "out"
    target = StreamFileTarget("parquet", str(out), roll_rows=500, compact_s=compact_s)
    job = fabric.submit(plan(target, 8_000), parallelism=3)
    for agent in (fabric.agents[1], fabric.agents[2]):
        seen = n_complete(fabric, job)
        wait_until(lambda seen=seen: n_complete(fabric, job) >= seen + 2, 60)
        if out.exists():
            found = rows_in(out) if any(out.iterdir()) else []
            assert len(found) == len(set(found))
        agent.close()
    fabric.wait(job)
    wait_until(lambda: not list(tmp_path.glob(".out*")))
    found = rows_in(out)
    assert len(found) == N_ROWS
    assert set(found) == {(n % N_SPLITS, n // N_SPLITS) for n in range(N_ROWS)}


def test_a_cancelled_stream_keeps_what_was_seen_and_leaves_nothing_beside(
    fabric: EmbeddedFabric, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    job = fabric.submit(plan(StreamFileTarget("parquet", str(out)), 2_000), parallelism=2)
    wait_until(lambda: out.exists() and any(out.iterdir()), 60)
    seen = set(rows_in(out))
    fabric.control.cancel(pb.JobRequest(job_id=job))
    wait_until(lambda: not list(tmp_path.glob(".out*")), 60)
    found = rows_in(out)
    assert len(found) == len(set(found))
    assert seen <= set(found)
    for split in range(N_SPLITS):  # what is there is a beginning of each split
        rows = sorted(row for s, row in found if s == split)
        assert rows == list(range(len(rows)))

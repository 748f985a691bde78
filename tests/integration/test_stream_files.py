"""Streams into files: what is seen is each row once, whoever leaves, whatever is damaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import ExternalError
from fabric.io.readers import stream_schema
from fabric.plan.nodes import Scan, Sink, StreamScan
from fabric.plan.sources import DatasetSource, GeneratorStream
from fabric.plan.targets import DatasetTarget, StreamFileTarget
from tests.support.damage import damaged_when_read, flip
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.held import held
from tests.support.wait import wait_until

N_ROWS, N_SPLITS = 12_000, 3
ALL = {(split, row) for split in range(N_SPLITS) for row in range(N_ROWS // N_SPLITS)}


@contextmanager
def running(tmp_path: Path, interval_s: float) -> Iterator[EmbeddedFabric]:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    config = CoordinatorConfig(
        checkpoint=CheckpointConfig(folder=str(folder), interval_s=interval_s, retained=3)
    )
    with embedded_pair(3, slots=4, config=config) as made:
        yield made


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[EmbeddedFabric]:
    with running(tmp_path, 0.2) as made:
        yield made


def into(target: Path, rows_per_s: int, compact_s: float = 0.0) -> Sink:
    source = GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS, rows_per_s=rows_per_s)
    scan = StreamScan(source, stream_schema(source), path="made")
    return Sink(scan, StreamFileTarget("parquet", str(target), compact_s=compact_s), path="out")


def seen(target: Path) -> Counter[tuple[int, int]]:
    """What anybody may read, now."""
    if not target.is_dir() or not any(target.iterdir()):
        return Counter()
    table: pa.Table = ds.dataset(target, format="parquet").to_table()
    return Counter(zip(table["split"].to_pylist(), table["row"].to_pylist(), strict=True))


def published(fabric: EmbeddedFabric, job: str) -> int:
    """The newest checkpoint whose rows are out."""
    told = fabric.control.list_checkpoints(pb.CheckpointsRequest(job_id=job)).checkpoints
    return max((one.checkpoint for one in told if one.state == "published"), default=0)


def further(fabric: EmbeddedFabric, job: str, n: int) -> None:
    """Until so many more checkpoints are published."""
    first = published(fabric, job)
    wait_until(lambda: published(fabric, job) >= first + n, 60)


def test_rows_are_seen_once_when_agents_leave(fabric: EmbeddedFabric, tmp_path: Path) -> None:
    target = tmp_path / "out"
    job = fabric.submit(into(target, 2000), parallelism=3)
    for agent in (fabric.agents[2], fabric.agents[1]):
        further(fabric, job, 1)
        agent.close()
    fabric.wait(job)
    found = seen(target)
    assert set(found) == ALL
    assert set(found.values()) == {1}


def test_a_cancelled_stream_leaves_whole_checkpoints(
    fabric: EmbeddedFabric, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    job = fabric.submit(into(target, 3000), parallelism=3)
    further(fabric, job, 2)
    before = seen(target)
    fabric.control.cancel(pb.JobRequest(job_id=job))
    ended = pb.JOB_CANCELLED
    wait_until(lambda: fabric.control.status(pb.JobRequest(job_id=job)).state == ended)
    after = seen(target)
    assert before <= after
    assert set(after.values()) == {1}
    for split in range(N_SPLITS):
        rows = sorted(row for number, row in after if number == split)
        assert rows == list(range(len(rows))), "each split up to some row, without a gap"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def flip_manifest(folder: Path) -> None:
    flip(folder / "MANIFEST", (folder / "MANIFEST").stat().st_size - 2)


def told(fabric: EmbeddedFabric, job: str) -> list[str]:
    return [e.kind for e in fabric.control.list_events(pb.EventsRequest(job_id=job)).events]


@pytest.mark.parametrize("compact_s", [0.0, 3_600.0])
def test_what_a_damaged_checkpoint_published_is_taken_back(
    tmp_path: Path, compact_s: float
) -> None:
    """One byte of the newest manifest is another one: its rows come again, and are seen once."""
    target = tmp_path / "out"
    with running(tmp_path, 0.2) as fabric, damaged_when_read(flip_manifest) as damaged:
        job = fabric.submit(into(target, 4000, compact_s), parallelism=3)
        further(fabric, job, 2)
        fabric.agents[2].close()
        fabric.wait(job)
        found = seen(target)
        assert set(found) == ALL
        assert set(found.values()) == {1}
        kinds = told(fabric, job)
    assert damaged.checkpoint > 1
    assert "CHECKPOINT IS DAMAGED, an older one is tried" in kinds
    assert "OUTPUT IS TAKEN BACK, its rows come again" in kinds


def test_what_somebody_took_away_ends_the_job(tmp_path: Path) -> None:
    """It can't be taken back, and its rows must not be seen twice."""
    target = tmp_path / "out"

    def take_away(folder: Path) -> None:
        flip_manifest(folder)
        for path in target.iterdir():
            path.rename(tmp_path / path.name)

    with running(tmp_path, 0.2) as fabric, damaged_when_read(take_away):
        with held(tmp_path / "held"):
            job = fabric.submit(into(target, 4000), parallelism=3)
            further(fabric, job, 2)
            fabric.agents[2].close()
        with pytest.raises(ExternalError, match=r"would be seen twice: .*moved or removed by hand"):
            fabric.wait(job)


def test_a_dataset_takes_back_what_a_damaged_checkpoint_published(tmp_path: Path) -> None:
    source = GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS, rows_per_s=4000)
    made = StreamScan(source, stream_schema(source), path="made")
    with running(tmp_path, 0.2) as fabric, damaged_when_read(flip_manifest):
        with held(tmp_path / "held"):
            job = fabric.submit(
                Sink(made, DatasetTarget("d", (), 1, mode="append"), path="out"), parallelism=3
            )
            further(fabric, job, 2)
            (location,) = fabric.control.locate(pb.LocateRequest(dataset="d")).datasets
            assert list(location.owners) == ["agent-0"]
            fabric.agents[2].close()
        fabric.wait(job)
        table = fabric.collect(Scan(DatasetSource("d"), made.schema, path="read"))
        assert "OUTPUT IS TAKEN BACK, its rows come again" in told(fabric, job)
    assert table.num_rows == N_ROWS
    assert set(zip(table["split"].to_pylist(), table["row"].to_pylist(), strict=True)) == ALL

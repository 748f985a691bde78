"""Streams on agents: checkpoints while rows flow, and agents that go away meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.io.streams import END, Polled, enumerate_stream, open_reader, stream_schema
from fabric.plan.expr import Call, Column, Literal
from fabric.plan.nodes import Filter
from fabric.plan.sources import GeneratorStream
from fabric.plan.streams import StreamScan
from fabric.testing import running
from fabric.testing.embedded import EmbeddedFabric, embedded_pair
from fabric.testing.wait import wait_until

N_ROWS, N_SPLITS = 40_000, 4
MORE = Call("gt", (Column("key"), Literal(500, pa.int64())))


def filtered(rows_per_s: int) -> Filter:
    source = GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS, rows_per_s=rows_per_s)
    return Filter(StreamScan(source, stream_schema(source), path="made"), MORE, path="more")


def expected() -> set[tuple[int, int]]:
    """(split, row) of each row that passes, read without any fabric."""
    source = GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS)
    reader = open_reader(source, stream_schema(source))
    reader.open(enumerate_stream(source))
    found: set[tuple[int, int]] = set()
    while (polled := reader.poll(1 << 16, 0.0)) is not END:
        if isinstance(polled, Polled):
            rows = polled.batch.filter(pc.greater(polled.batch["key"], 500))
            found.update(zip(rows["split"].to_pylist(), rows["row"].to_pylist(), strict=True))
    return found


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[EmbeddedFabric]:
    config = CoordinatorConfig(
        checkpoints=str(tmp_path), checkpoint=CheckpointConfig(interval_s=0.2)
    )
    with embedded_pair(3, slots=4, config=config) as made:
        yield made


def complete(fabric: EmbeddedFabric, job: str) -> int:
    """The newest complete checkpoint."""
    told = fabric.control.list_checkpoints(pb.CheckpointsRequest(job_id=job)).checkpoints
    whole = [one.checkpoint for one in told if one.state not in {"under way", "aborted"}]
    return max(whole, default=0)


def rows_of(fabric: EmbeddedFabric, job: str) -> list[tuple[int, int]]:
    table = running.result(fabric.control, fabric.transport, job)
    return list(zip(table["split"].to_pylist(), table["row"].to_pylist(), strict=True))


def test_a_stream_that_ends_gives_each_row_once(fabric: EmbeddedFabric) -> None:
    job = fabric.submit(filtered(0), parallelism=3)
    fabric.wait(job)
    found = rows_of(fabric, job)
    assert len(found) == len(set(found))
    assert set(found) == expected()


def test_rows_are_neither_lost_nor_doubled_when_agents_leave(fabric: EmbeddedFabric) -> None:
    job = fabric.submit(filtered(8000), parallelism=3)
    for agent in (fabric.agents[1], fabric.agents[2]):
        seen = complete(fabric, job)
        wait_until(lambda seen=seen: complete(fabric, job) >= seen + 2, 60)
        agent.close()
    fabric.wait(job)
    found = rows_of(fabric, job)
    assert len(found) == len(set(found))
    assert set(found) == expected()
    kinds = [e.kind for e in fabric.control.list_events(pb.EventsRequest(job_id=job)).events]
    assert kinds.count("job restored") == 3, "once at the start, once for each agent"


def test_what_is_in_a_checkpoint_can_be_looked_at(fabric: EmbeddedFabric) -> None:
    job = fabric.submit(filtered(8000), parallelism=3)
    wait_until(lambda: complete(fabric, job) >= 1, 60)
    number = complete(fabric, job)
    (one,) = fabric.control.list_checkpoints(
        pb.CheckpointsRequest(job_id=job, checkpoint=number)
    ).checkpoints
    assert {part.node_path for part in one.parts} == {"made", "more#result"}
    assert sum(part.splits for part in one.parts) == N_SPLITS
    fabric.control.cancel(pb.JobRequest(job_id=job))
    wait_until(lambda: fabric.control.status(pb.JobRequest(job_id=job)).state in ENDED, 30)


ENDED = {pb.JOB_CANCELLED, pb.JOB_FINISHED}


def test_nothing_of_a_released_job_stays(fabric: EmbeddedFabric, tmp_path: Path) -> None:
    job = fabric.submit(filtered(0), parallelism=3)
    fabric.wait(job)
    assert list(tmp_path.iterdir())
    fabric.control.release(pb.JobRequest(job_id=job))
    wait_until(lambda: not list(tmp_path.iterdir()), 30)

"""Streams on agents: checkpoints while rows flow, and agents that go away meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fabric import col, streams
from fabric import connect as fabric_of
from fabric.config import CheckpointConfig
from fabric.control import control_pb2 as pb
from fabric.coordinator.config import CoordinatorConfig
from fabric.errors import ExpressionError, PartitionLostError, PlanError
from fabric.io.readers import generator, stream_schema
from fabric.plan.event_windows import Tumbling
from fabric.plan.expr import Agg, Alias, Call, Column, Literal
from fabric.plan.nodes import Filter, StreamAggregate, StreamScan, Watermark
from fabric.plan.sources import GeneratorStream
from tests.support import running
from tests.support.compare import unlike
from tests.support.embedded import EmbeddedFabric, embedded_pair
from tests.support.held import held
from tests.support.wait import wait_until

N_ROWS, N_SPLITS = 40_000, 4
START_US = 1_767_225_600_000_000
MORE = Call("gt", (Column("key"), Literal(500, pa.int64())))


def filtered(rows_per_s: int) -> Filter:
    source = GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS, rows_per_s=rows_per_s)
    return Filter(StreamScan(source, stream_schema(source), path="made"), MORE, path="more")


def all_rows(source: GeneratorStream) -> pa.Table:
    """What a stream has, made without any fabric."""
    each = source.n_rows // source.n_splits
    parts = [generator.rows(source, i, 0, each, source.start_us) for i in range(source.n_splits)]
    return pa.concat_tables(parts)


def expected() -> set[tuple[int, int]]:
    """(split, row) of each row that passes."""
    rows = all_rows(GeneratorStream(n_rows=N_ROWS, n_splits=N_SPLITS))
    rows = rows.filter(pc.greater(rows["key"], 500))
    return set(zip(rows["split"].to_pylist(), rows["row"].to_pylist(), strict=True))


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[EmbeddedFabric]:
    config = CoordinatorConfig(checkpoint=CheckpointConfig(folder=str(tmp_path), interval_s=0.2))
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


def test_a_result_that_is_partly_gone_is_not_read(fabric: EmbeddedFabric) -> None:
    """It has ended: what a lost agent held of it is missed, and made again when asked for."""
    job = fabric.submit(filtered(0), parallelism=3)
    fabric.wait(job)
    fabric.agents[1].close()
    wait_until(lambda: len(fabric.control.list_agents(pb.ListRequest()).agents) == 2)
    with pytest.raises(PartitionLostError, match=r"1 of 3 parts of the result are gone"):
        rows_of(fabric, job)
    fabric.control.restart(pb.RestartRequest(job_id=job))
    fabric.wait(job)
    found = rows_of(fabric, job)
    assert len(found) == len(set(found))
    assert set(found) == expected()


def test_rows_are_neither_lost_nor_doubled_when_agents_leave(
    fabric: EmbeddedFabric, tmp_path: Path
) -> None:
    with held(tmp_path.with_suffix(".held")):
        job = fabric.submit(filtered(8000), parallelism=3)
        agents_leave(fabric, job)
    fabric.wait(job)
    found = rows_of(fabric, job)
    assert len(found) == len(set(found))
    assert set(found) == expected()
    kinds = [e.kind for e in fabric.control.list_events(pb.EventsRequest(job_id=job)).events]
    assert kinds.count("job restored") == 3, "once at the start, once for each agent"


def agents_leave(fabric: EmbeddedFabric, job: str) -> None:
    """Two of three, each after some checkpoints."""
    for agent in (fabric.agents[1], fabric.agents[2]):
        seen = complete(fabric, job)
        wait_until(lambda seen=seen: complete(fabric, job) >= seen + 2)
        agent.close()


def test_windows_are_the_same_when_agents_leave(fabric: EmbeddedFabric, tmp_path: Path) -> None:
    """Rows of all splits meet by key on other agents; state moves with the key groups."""
    source = GeneratorStream(
        n_rows=N_ROWS, n_splits=N_SPLITS, rows_per_s=8000, start_us=START_US, disorder_us=50_000
    )
    rows = Watermark(StreamScan(source, stream_schema(source), path="made"), "ts", bound_us=100_000)
    sums = Alias(Agg("sum", Column("row")), "rows"), Alias(Agg("count", Column("row")), "n")
    plan = StreamAggregate(
        rows, (Column("key"),), sums, window=Tumbling(500_000), time="ts", path="windows"
    )
    with held(tmp_path.with_suffix(".held")):
        job = fabric.submit(plan, parallelism=3)
        agents_leave(fabric, job)
    fabric.wait(job)
    found = running.result(fabric.control, fabric.transport, job)
    duck = duckdb.connect()
    duck.register("everything", all_rows(source))
    windows = duck.sql(
        "SELECT key, time_bucket(INTERVAL '500 milliseconds', ts) AS window_start, "
        "sum(row)::int64 AS rows, count(*) AS n FROM everything GROUP BY ALL"
    ).to_arrow_table()
    assert windows.num_rows > 5000
    assert unlike(found.drop_columns("window_end"), windows) == ""


def test_what_is_in_a_checkpoint_can_be_looked_at(fabric: EmbeddedFabric) -> None:
    """Its job has ended, so that no later one takes its place while it is read."""
    job = fabric.submit(filtered(0), parallelism=3)
    fabric.wait(job)
    number = complete(fabric, job)
    (one,) = fabric.control.list_checkpoints(
        pb.CheckpointsRequest(job_id=job, checkpoint=number)
    ).checkpoints
    assert {part.node_path for part in one.parts} == {"made", "more#result"}
    assert sum(part.splits for part in one.parts) == N_SPLITS


def test_nothing_of_a_released_job_stays(fabric: EmbeddedFabric, tmp_path: Path) -> None:
    job = fabric.submit(filtered(0), parallelism=3)
    fabric.wait(job)
    assert list(tmp_path.iterdir())
    fabric.control.release(pb.JobRequest(job_id=job))
    wait_until(lambda: not list(tmp_path.iterdir()))


def test_a_session_has_the_slots_that_it_has() -> None:
    """No agent will come to it, so a stream that needs more would wait for ever."""
    n = (os.cpu_count() or 1) + 1
    with fabric_of(parallelism=1) as session:
        frame = streams.generator(n_rows=100, n_splits=n, session=session)
        with pytest.raises(
            PlanError, match=f"needs {n} slots at once, and this session has {n - 1}"
        ):
            session.submit(frame, parallelism=n)
        assert session.jobs() == []
        assert session.submit(frame, parallelism=1).collect().num_rows == 100


def test_a_task_that_fails_says_how_many_rows_it_read() -> None:
    with fabric_of(parallelism=1) as session:
        events = streams.generator(n_rows=5_000, n_splits=1, session=session)
        broken = events.select(share=1 / (col("row") - 10))
        job = broken.write_stream(streams.to_blackhole())
        with pytest.raises(ExpressionError, match="division by zero"):
            job.wait()
        (task,) = job.tasks()
        assert task.rows_in > 10
        assert task.rows_out == 0

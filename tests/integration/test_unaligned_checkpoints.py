"""Streams whose last step is slow: checkpoints do not wait for the rows before it, none is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, Job, Session, col, count, streams
from tests.integration.test_rescale import N_KEYS, N_SPLITS, START, connected, differs
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

N_ROWS, RATE = 100_000, 50_000
SLOW_RATE = 10_000
"""Rows a second that both tasks together are through with."""


def slow_totals(session: Session, n_rows: int = N_ROWS) -> DataFrame:
    """Rows and their sum by key, as they change; what is behind the exchange is slow."""
    source = streams.generator(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5, start=START,
        rows_per_s=RATE, session=session,
    )  # fmt: skip

    @fabric.arrow_udf(returns=pa.int64())
    def slowly(total: pa.Int64Array) -> pa.Int64Array:
        time.sleep(len(total) * 2 / SLOW_RATE)
        return total

    counted = source.group_by("key").agg(n=count(), total=col("row").sum()).changes()
    return counted.select("key", "n", "row_kind", total=slowly(col("total")))


def complete(job: Job) -> list[object]:
    return [one for one in job.checkpoints() if one.state in ("complete", "published")]


def in_flight(job: Job) -> bool:
    return any(one.unaligned and one.inflight_bytes for one in complete(job))


@pytest.fixture(scope="module")
def agents() -> Iterator[LocalFabric]:
    with local_fabric(2, slots=4) as two:
        yield two


@pytest.mark.parametrize("after_s", [0.0, 0.2])
def test_embedded_with_another_number_of_tasks(tmp_path: Path, after_s: float) -> None:
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(
            interval_s=0.3, unaligned_after_s=after_s, folder=tmp_path / "checkpoints"
        )
        frame = slow_totals(session)
        job = frame.write_stream(streams.to_files(tmp_path / "out"), parallelism=2)
        for parallelism in (3, 1):
            wait_until(lambda: in_flight(job), 30.0)
            job.rescale(parallelism, timeout_s=60)
        job.wait(120.0)
    assert differs(tmp_path / "out", N_ROWS) == []


def test_an_agent_dies(agents: LocalFabric, tmp_path: Path) -> None:
    with connected(agents) as session:
        session.checkpoints(interval_s=0.3, unaligned_after_s=0, folder=tmp_path / "checkpoints")
        frame = slow_totals(session)
        job = frame.write_stream(streams.to_files(tmp_path / "out"), parallelism=2)
        wait_until(lambda: in_flight(job), 30.0)
        agents.kill(1)
        agents.restart(1)
        job.wait(120.0)
    assert differs(tmp_path / "out", N_ROWS) == []

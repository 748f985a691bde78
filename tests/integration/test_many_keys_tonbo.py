"""More keys than memory with the engine tonbo: DuckDB's answer.

In the soak 5 million updates of 1 million keys with a budget of 16 MB, in the suite a hundredth.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pytest

import fabric
from fabric import DataFrame, col, count, streams
from tests.support.local import LocalFabric
from tests.support.lone import lone_agent
from tests.support.sampled import SOAK

pytestmark = pytest.mark.timeout(7_200 if SOAK else 300)
SCALE = 100 if SOAK else 1
N_ROWS, N_KEYS, N_TASKS = 50_000 * SCALE, 10_000 * SCALE, 2
ROOM = 160_000 * SCALE
"""Bytes for the groups of all tasks."""
WINDOW_US = N_ROWS * 1_000 // 4
"""A quarter of all rows."""


@pytest.fixture(scope="module")
def one() -> Iterator[LocalFabric]:
    with lone_agent(N_TASKS, {}) as running:
        yield running


@pytest.mark.parametrize("kind", ["tumbling", "running"])
def test_more_keys_than_memory(one: LocalFabric, tmp_path: Path, kind: str) -> None:
    with fabric.connect(f"fabric://{one.address}", token=one.token) as session:
        session.checkpoints(
            interval_s=2.0, state="tonbo", state_memory=ROOM // N_TASKS, folder=tmp_path / "kept"
        )
        made: DataFrame = streams.generator(
            n_rows=N_ROWS, n_keys=N_KEYS, n_splits=N_TASKS, seed=5,
            start=datetime(2024, 5, 1, tzinfo=UTC), session=session,
        )  # fmt: skip
        grouped = made.with_watermark("ts", "0 seconds").group_by("key")
        if kind == "tumbling":
            grouped = grouped.window(f"{WINDOW_US} us")
        results = grouped.agg(n=count(), total=col("row").sum())
        results = results.changes() if kind == "running" else results
        job = results.write_stream(streams.to_files(tmp_path / "out"), parallelism=N_TASKS)
        job.wait(7_000.0)
        counts = {each.name: each.n for stage in job.status.stages for each in stage.counts}
        events = made.to_arrow()
    print(kind, counts)
    assert counts["state_evicted_rows"] > 0
    assert counts["state_read_back_rows"] > 0
    sign = "1" if kind == "tumbling" else "CASE WHEN row_kind IN ('+I', '+U') THEN 1 ELSE -1 END"
    keys = f"key, epoch_us(ts) // {WINDOW_US}" if kind == "tumbling" else "key"
    with duckdb.connect() as connection:
        connection.register("events", events)
        expected = f"SELECT key, count(*) AS n, sum(row) AS total FROM events GROUP BY {keys}"
        found = (
            f"SELECT key, n, total FROM (SELECT key, n, total, sum({sign}) AS s FROM "
            f"'{tmp_path}/out/*.parquet' GROUP BY ALL), range(s::BIGINT)"
        )
        for query, other in ((found, expected), (expected, found)):
            assert not connection.sql(f"({query}) EXCEPT ALL ({other}) LIMIT 3").fetchall()

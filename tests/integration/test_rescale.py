"""A stream that goes on with another number of tasks: the rows are DuckDB's all the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, Session, col, count, streams
from fabric.errors import ConfigError, NotFoundError
from fabric.io.readers.generator import rows
from fabric.plan.sources import GeneratorStream
from tests.support.local import LocalFabric, local_fabric
from tests.support.named_streams import KINDS, differing, generated
from tests.support.sampled import sampled
from tests.support.wait import wait_until

START = datetime(2024, 5, 1, tzinfo=UTC)
N_SPLITS, N_KEYS = 4, 1_000


def made(n_rows: int) -> pa.Table:
    """All rows of the source."""
    source = GeneratorStream(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5,
        start_us=int(START.timestamp()) * 10**6,
    )  # fmt: skip
    n = n_rows // N_SPLITS
    parts = [rows(source, split, 0, n, source.start_us) for split in range(N_SPLITS)]
    return pa.concat_tables([part.select(["key", "row"]) for part in parts])


def totals(session: Session, n_rows: int, rows_per_s: int) -> DataFrame:
    """Rows and their sum by key, as they change."""
    source = streams.generator(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5, start=START,
        rows_per_s=rows_per_s, session=session,
    )  # fmt: skip
    return source.group_by("key").agg(n=count(), total=col("row").sum()).changes()


def differs(out: Path, n_rows: int) -> list[tuple[int, ...]]:
    """Last results that are not DuckDB's; each other one was taken back as often as put out."""
    oracle = "SELECT key, count(*) AS n, sum(row)::BIGINT AS total FROM made GROUP BY key"
    sign = "sum(CASE WHEN row_kind IN ('+I', '+U') THEN 1 ELSE -1 END)"
    found = f"SELECT key, n, total FROM '{out}/*.parquet' GROUP BY ALL HAVING {sign} > 0"
    with duckdb.connect() as connection:
        connection.register("made", made(n_rows))
        either = f"(({oracle}) EXCEPT ALL ({found})) UNION ALL (({found}) EXCEPT ALL ({oracle}))"
        return connection.sql(either).fetchall()


@pytest.fixture(scope="module")
def agents() -> Iterator[LocalFabric]:
    with local_fabric(2, slots=4) as two:
        yield two


def connected(to: LocalFabric) -> Session:
    return fabric.connect(f"fabric://{to.address}", token=to.token)


@pytest.mark.parametrize("seed", sampled(range(5), 1, salt="rescale"))
def test_rows_flow_and_agents_die(agents: LocalFabric, tmp_path: Path, seed: int) -> None:
    n_rows, rng = 1_000_000, random.Random(seed)
    with connected(agents) as session:
        session.checkpoints(interval_s=0.2, folder=tmp_path / "checkpoints")
        results = totals(session, n_rows, rows_per_s=50_000)
        job = results.write_stream(streams.to_files(tmp_path / "out"), parallelism=2)
        for parallelism in (3, 1, 4):
            wait_until(lambda: job.checkpoints())
            dies = rng.random() < 0.7
            if dies:
                at = rng.randrange(2)
                agents.kill(at)
            if dies and rng.random() < 0.5:
                agents.restart(at)
                dies = False
            job.rescale(parallelism, timeout_s=25)
            assert job.status.parallelism == parallelism
            if dies:
                agents.restart(at)
        job.wait(300.0)
        n_tasks = {stage.n_tasks for stage in job.status.stages}
    assert max(n_tasks) == 4
    assert differs(tmp_path / "out", n_rows) == []

"""More keys than an agent may keep in memory, uniform and skewed: DuckDB's answer, bounded memory.

In the soak 100 million rows of 20 million keys with a budget of 256 MB, in the suite a hundredth.
Results are compared by their number, sums and the sum of a hash, so that they may be hundreds of
millions; those of an aggregate that is updated count as often as they were put out, less as often
as they were taken back.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame, col, count, streams
from fabric.io.streams.generator import rows
from fabric.plan.sources import GeneratorStream
from tests.support.local import LocalFabric
from tests.support.lone import lone_agent
from tests.support.sampled import SOAK

pytestmark = pytest.mark.timeout(7_200 if SOAK else 600)
SCALE = 100 if SOAK else 1
N_ROWS, N_KEYS, N_TASKS = 1_000_000 * SCALE, 200_000 * SCALE, 2
ROOM = 2_560_000 * SCALE
"""Bytes for the groups of all tasks."""
START = datetime(2024, 5, 1, tzinfo=UTC)
MADE = GeneratorStream(
    n_rows=N_ROWS, n_keys=N_KEYS, n_splits=N_TASKS, seed=5, start_us=int(START.timestamp() * 1e6)
)
WINDOW_US = N_ROWS * 1_000 // 4
"""A quarter of all rows."""
AGENT_BYTES = 1 << 30
CHUNK = 1 << 20


@pytest.fixture(scope="module")
def one() -> Iterator[LocalFabric]:
    with lone_agent(N_TASKS, {}) as running:
        yield running


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All rows, as a file that DuckDB reads."""
    path = tmp_path_factory.mktemp("events") / "events.parquet"
    n = N_ROWS // N_TASKS
    names = ["row", "key", "value", "ts"]
    with pq.ParquetWriter(path, rows(MADE, 0, 0, 0, MADE.start_us).select(names).schema) as out:
        for split in range(N_TASKS):
            for begin in range(0, n, CHUNK):
                made = rows(MADE, split, begin, min(n, begin + CHUNK), MADE.start_us)
                out.write_table(made.select(names))
    return path


def skewed_key() -> fabric.Expr:
    """As Zipf's law with an exponent of 0.875, from a value that is uniform."""
    u = col("value").cast("float64") / float(1 << 63)
    u2 = u * u
    u4 = u2 * u2
    return (u4 * u4 * float(N_KEYS)).floor().cast("int64")


@pytest.mark.parametrize("keys", ["uniform", "skewed"])
@pytest.mark.parametrize("kind", ["tumbling", "running"])
def test_more_keys_than_memory(
    one: LocalFabric, events: Path, tmp_path: Path, kind: str, keys: str
) -> None:
    with fabric.connect(f"fabric://{one.address}", token=one.token) as session:
        session.checkpoints(
            interval_s=2.0, state="arrow", state_memory=ROOM // N_TASKS, folder=tmp_path / "kept"
        )
        made: DataFrame = streams.generator(
            n_rows=N_ROWS, n_keys=N_KEYS, n_splits=N_TASKS, seed=5, start=START, session=session
        )
        if keys == "skewed":
            made = made.with_columns(key=skewed_key(), replace=True)
        grouped = made.with_watermark("ts", "0 seconds").group_by("key")
        if kind == "tumbling":
            grouped = grouped.window(f"{WINDOW_US} us")
        results = grouped.agg(n=count(), total=col("row").sum())
        results = results.changes() if kind == "running" else results
        job = results.write_stream(streams.to_files(tmp_path / "out"), parallelism=N_TASKS)
        job.wait(7_000.0)
        counts: dict[str, int] = {}
        for each in (one for stage in job.status.stages for one in stage.counts):
            counts[each.name] = counts.get(each.name, 0) + each.n
    print(kind, keys, counts, peak_bytes(one) >> 20, "MB")
    assert counts["state_evicted_rows"] > 0
    assert counts["state_read_back_rows"] > 0
    assert peak_bytes(one) <= AGENT_BYTES
    skewed = f"CAST(floor((u2 * u2) * (u2 * u2) * {N_KEYS}::DOUBLE) AS BIGINT)"
    key, u = "key" if keys == "uniform" else skewed, f"(value::DOUBLE / {1 << 63}::DOUBLE)"
    window = f"epoch_us(ts) - epoch_us(ts) % {WINDOW_US}" if kind == "tumbling" else "0"
    ours = "epoch_us(window_start)" if kind == "tumbling" else "0"
    sign = "1" if kind == "tumbling" else "CASE WHEN row_kind IN ('+I', '+U') THEN 1 ELSE -1 END"
    with duckdb.connect(config={"temp_directory": str(tmp_path)}) as connection:
        connection.sql("SET memory_limit = '6GB'")
        expected = (
            f"SELECT {key} AS key, {window} AS w, count(*) AS n, sum(row)::BIGINT AS total, 1 AS s "
            f"FROM (SELECT *, {u} * {u} AS u2 FROM '{events}') GROUP BY ALL"
        )
        found = f"SELECT key, {ours} AS w, n, total, {sign} AS s FROM '{tmp_path}/out/*.parquet'"
        assert summed(connection, found) == summed(connection, expected)


def summed(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[int, ...]:
    hashed = "hash(key::BIGINT, w::BIGINT, n::BIGINT, total::BIGINT) >> 1"
    sums = "sum(s)", "sum(s * n)", "sum(s * total)", f"sum(s * ({hashed})::HUGEINT)"
    (row,) = connection.sql(f"SELECT {', '.join(sums)} FROM ({query})").fetchall()
    return tuple(map(int, row))


def peak_bytes(running: LocalFabric) -> int:
    status = Path(f"/proc/{running.agents[0].process.pid}/status").read_text()
    (peak,) = (line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(peak) << 10

"""More keys than an agent may keep in memory, uniform and skewed: DuckDB's answer, bounded memory.

In the soak 100 million rows of 20 million keys with a budget of 256 MB, and for `tonbo` 5 million
of a million with 16 MB; in the suite a hundredth of both.
Results are compared by their number, sums and the sum of a hash, so that they may be hundreds of
millions; those of an aggregate that is updated count as often as they were put out, less as often
as they were taken back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fabric
from fabric import DataFrame, col, count, streams
from fabric.config import StateBackend
from fabric.io.readers.generator import rows
from fabric.plan.sources import GeneratorStream
from tests.support.local import LocalFabric
from tests.support.lone import lone_agent
from tests.support.sampled import SOAK

pytestmark = pytest.mark.timeout(7_200 if SOAK else 600)
SCALE = 100 if SOAK else 1
N_TASKS = 2
START = datetime(2024, 5, 1, tzinfo=UTC)
AGENT_BYTES = 1 << 30
CHUNK = 1 << 20


@dataclass(frozen=True)
class Size:
    """How many rows of how many keys, and bytes for the groups of all tasks."""

    n_rows: int
    n_keys: int
    room: int

    @property
    def window_us(self) -> int:
        """A quarter of all rows."""
        return self.n_rows * 1_000 // 4


SIZES = {
    "arrow": Size(1_000_000 * SCALE, 200_000 * SCALE, 2_560_000 * SCALE),
    "tonbo": Size(50_000 * SCALE, 10_000 * SCALE, 160_000 * SCALE),
}
CASES = [("arrow", "uniform"), ("arrow", "skewed"), ("tonbo", "uniform")]
Events = Callable[[Size], Path]


@pytest.fixture
def one() -> Iterator[LocalFabric]:
    """An agent for each case: its peak is that of one job."""
    with lone_agent(N_TASKS, {}) as running:
        yield running


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """All rows, as a file that DuckDB reads."""

    @functools.cache
    def written(size: Size) -> Path:
        path = tmp_path_factory.mktemp("events") / "events.parquet"
        made = GeneratorStream(
            n_rows=size.n_rows, n_keys=size.n_keys, n_splits=N_TASKS, seed=5,
            start_us=int(START.timestamp() * 1e6),
        )  # fmt: skip
        n, names = size.n_rows // N_TASKS, ["row", "key", "value", "ts"]
        with pq.ParquetWriter(path, some(made, 0, 0, 0).select(names).schema) as out:
            for split in range(N_TASKS):
                for begin in range(0, n, CHUNK):
                    end = min(n, begin + CHUNK)
                    out.write_table(some(made, split, begin, end).select(names))
        return path

    return written


def some(made: GeneratorStream, split: int, begin: int, end: int) -> pa.Table:
    return rows(made, split, begin, end, made.start_us)


def skewed_key(n_keys: int) -> fabric.Expr:
    """As Zipf's law with an exponent of 0.875, from a value that is uniform."""
    u = col("value").cast("float64") / float(1 << 63)
    u2 = u * u
    u4 = u2 * u2
    return (u4 * u4 * float(n_keys)).floor().cast("int64")


@pytest.mark.parametrize("case", CASES, ids="-".join)
@pytest.mark.parametrize("kind", ["tumbling", "running"])
def test_more_keys_than_memory(
    one: LocalFabric, events: Events, tmp_path: Path, kind: str, case: tuple[StateBackend, str]
) -> None:
    engine, keys = case
    size = SIZES[engine]
    with fabric.connect(f"fabric://{one.address}", token=one.token) as session:
        session.checkpoints(
            interval_s=2.0, state=engine, state_memory=size.room // N_TASKS,
            folder=tmp_path / "kept",
        )  # fmt: skip
        made: DataFrame = streams.generator(
            n_rows=size.n_rows, n_keys=size.n_keys, n_splits=N_TASKS, seed=5, start=START,
            session=session,
        )  # fmt: skip
        if keys == "skewed":
            made = made.with_columns(key=skewed_key(size.n_keys), replace=True)
        grouped = made.with_watermark("ts", "0 seconds").group_by("key")
        if kind == "tumbling":
            grouped = grouped.window(f"{size.window_us} us")
        results = grouped.agg(n=count(), total=col("row").sum())
        results = results.changes() if kind == "running" else results
        job = results.write_stream(streams.to_files(tmp_path / "out"), parallelism=N_TASKS)
        job.wait(7_000.0)
        counts: dict[str, int] = {}
        for each in (one for stage in job.status.stages for one in stage.counts):
            counts[each.name] = counts.get(each.name, 0) + each.n
    print(kind, engine, keys, counts, peak_bytes(one) >> 20, "MB")
    assert counts["state_evicted_rows"] > 0
    assert counts["state_read_back_rows"] > 0
    assert peak_bytes(one) <= AGENT_BYTES
    skewed = f"CAST(floor((u2 * u2) * (u2 * u2) * {size.n_keys}::DOUBLE) AS BIGINT)"
    key, u = "key" if keys == "uniform" else skewed, f"(value::DOUBLE / {1 << 63}::DOUBLE)"
    window = f"epoch_us(ts) - epoch_us(ts) % {size.window_us}" if kind == "tumbling" else "0"
    ours = "epoch_us(window_start)" if kind == "tumbling" else "0"
    sign = "1" if kind == "tumbling" else "CASE WHEN row_kind IN ('+I', '+U') THEN 1 ELSE -1 END"
    with duckdb.connect(config={"temp_directory": str(tmp_path)}) as connection:
        connection.sql("SET memory_limit = '6GB'")
        expected = (
            f"SELECT {key} AS key, {window} AS w, count(*) AS n, sum(row)::BIGINT AS total, 1 AS s "
            f"FROM (SELECT *, {u} * {u} AS u2 FROM '{events(size)}') GROUP BY ALL"
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

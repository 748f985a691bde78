"""Streams whose last step is slow: checkpoints do not wait for the rows before it, none is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, Job, Session, col, count, streams
from tests.integration.test_rescale import N_KEYS, N_SPLITS, START, connected, differs
from tests.support.local import LocalFabric, local_fabric
from tests.support.wait import wait_until

N_ROWS, RATE = 250_000, 50_000
SLOW_RATE = 10_000
"""Rows a second that both tasks together are through with, until a test has seen enough."""


class Slow(fabric.Process):
    """Hands the rows on with some of their columns, slowly while there is no file `free`."""

    def __init__(self, free: Path, *columns: str) -> None:
        self.free, self.columns = free, columns

    def on_batch(
        self, ctx: fabric.ProcessContext, keys: pa.RecordBatch, rows: pa.RecordBatch
    ) -> pa.RecordBatch:
        if not self.free.exists():
            time.sleep(rows.num_rows * 2 / SLOW_RATE)
        return rows.select(list(self.columns))


def slow_totals(session: Session, free: Path, n_rows: int = N_ROWS) -> DataFrame:
    """Rows and their sum by key, as they change; a step behind the first exchange is slow."""
    source = streams.generator(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5, start=START,
        rows_per_s=RATE, session=session,
    )  # fmt: skip

    schema = {"key": "int64", "row": "int64"}
    slow = source.process(Slow(free, *schema), keys="key", schema=schema)
    return slow.group_by("key").agg(n=count(), total=col("row").sum()).changes()


def slow_windows(session: Session, free: Path, n_rows: int, rate: int = RATE) -> DataFrame:
    """Rows by the last digit of their key, which a table has, in windows that slide; behind the
    same slow step."""
    source = streams.generator(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5, start=START, disorder="20 ms",
        rows_per_s=rate, session=session,
    )  # fmt: skip

    schema = {"key": "int64", "ts": source.schema.field("ts").type}
    timed = source.with_watermark("ts", "30 ms")
    slow = timed.process(Slow(free, *schema), keys="key", schema=schema, time="ts")
    digits = pa.table({"key": range(N_KEYS), "digit": [key % 10 for key in range(N_KEYS)]})
    looked_up = slow.join(session.read_arrow(digits), on="key").select("digit", "ts")
    return looked_up.group_by("digit").window("2 seconds", slide="100 ms").agg(n=count())


def windows_differ(out: Path, n_rows: int) -> list[tuple[object, ...]]:
    """Windows that are not DuckDB's."""
    with fabric.connect() as session:
        made = streams.generator(
            n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5, start=START,
            disorder="20 ms", rows_per_s=RATE, session=session,
        ).to_arrow()  # fmt: skip
    oracle = """SELECT digit, n, ending FROM (
        SELECT key % 10 AS digit, count(*) AS n, ending
        FROM made, range(1, 21) AS _(nth), LATERAL (
            SELECT (epoch_us(ts) // 100000 + nth) * 100000 AS ending)
        GROUP BY ALL)"""
    found = f"SELECT digit, n, epoch_us(window_end) AS ending FROM '{out}/*.parquet'"
    with duckdb.connect() as connection:
        connection.register("made", made)
        either = f"(({oracle}) EXCEPT ALL ({found})) UNION ALL (({found}) EXCEPT ALL ({oracle}))"
        return connection.sql(either).fetchall()


class Numbered(fabric.Process):
    """Numbers the rows of each key, slowly as `Slow`; every second one is put aside as well."""

    def __init__(self, free: Path) -> None:
        self.free = free

    def on_rows(self, ctx: fabric.ProcessContext, key: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        if not self.free.exists():
            time.sleep(rows.num_rows * 4 / SLOW_RATE)
        seen = ctx.state("seen")
        begin = seen.get() or 0
        seen.put(end := begin + rows.num_rows)
        for number in range(begin + begin % 2, end, 2):
            ctx.side("even", {"key": key, "number": number})
        return rows.append_column("number", pa.array(range(begin, end)))


def branches(session: Session, free: Path, n_rows: int) -> tuple[DataFrame, DataFrame, DataFrame]:
    """Totals as they change; the same behind a slow step by the same key; what that puts aside."""
    source = streams.generator(
        n_rows=n_rows, n_keys=N_KEYS, n_splits=N_SPLITS, seed=5, start=START,
        rows_per_s=RATE // 8, session=session,
    )  # fmt: skip
    totals = source.group_by("key").agg(n=count(), total=col("row").sum()).changes()
    columns = {field.name: field.type for field in totals.schema}
    numbered = totals.process(
        Numbered(free), keys="key", schema={**columns, "number": "int64"},
        state={"seen": streams.value_state("int64")},
        sides={"even": {"key": "int64", "number": "int64"}},
    )  # fmt: skip
    return totals, numbered, numbered.side_output("even")


def branches_differ(out: Path, n_rows: int) -> list[tuple[object, ...]]:
    """What is wrong with the totals of a branch, with the numbers of a key, and with the evens."""
    gaps = f"""SELECT key, count(*), count(DISTINCT number), max(number)
        FROM '{out}/numbered/*.parquet' GROUP BY key
        HAVING count(*) <> count(DISTINCT number) OR count(*) <> max(number) + 1"""
    evens = f"SELECT key, number FROM '{out}/numbered/*.parquet' WHERE number % 2 = 0"
    found = f"SELECT key, number FROM '{out}/evens/*.parquet'"
    either = f"(({evens}) EXCEPT ALL ({found})) UNION ALL (({found}) EXCEPT ALL ({evens}))"
    wrong = [*differs(out / "totals", n_rows), *differs(out / "numbered", n_rows)]
    with duckdb.connect() as connection:
        return wrong + connection.sql(gaps).fetchall() + connection.sql(either).fetchall()


def wait_for_rows_in_flight(job: Job) -> None:
    """Until there is a new checkpoint with some, which is the newest for a while."""
    before = max((one.checkpoint for one in job.checkpoints()), default=0)

    def is_there() -> bool:
        done = [one for one in job.checkpoints() if one.state in ("complete", "published")]
        return any(one.checkpoint > before and one.unaligned and one.inflight_bytes for one in done)

    wait_until(is_there, 60.0)


@pytest.fixture(scope="module")
def agents() -> Iterator[LocalFabric]:
    with local_fabric(2, slots=16) as two:
        yield two


@pytest.mark.parametrize("after_s", [0.0, 0.2])
def test_embedded_with_another_number_of_tasks(tmp_path: Path, after_s: float) -> None:
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(
            interval_s=0.3, unaligned_after_s=after_s, folder=tmp_path / "checkpoints"
        )
        frame = slow_totals(session, tmp_path / "free")
        job = frame.write_stream(streams.to_files(tmp_path / "out"), parallelism=2)
        for parallelism in (3, 1):
            wait_for_rows_in_flight(job)
            job.rescale(parallelism, timeout_s=60)
        (tmp_path / "free").touch()
        job.wait(240.0)
    assert differs(tmp_path / "out", N_ROWS) == []


def test_windows_with_another_number_of_tasks(tmp_path: Path) -> None:
    """Each task of a checkpoint had come to a time of its own: windows of the others were lost."""
    n_rows = 260_000
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.3, unaligned_after_s=0, folder=tmp_path / "checkpoints")
        frame = slow_windows(session, tmp_path / "free", n_rows)
        job = frame.write_stream(streams.to_files(tmp_path / "out"), parallelism=3)
        for parallelism in (2, 1):
            wait_for_rows_in_flight(job)
            job.rescale(parallelism, timeout_s=60)
        (tmp_path / "free").touch()
        job.wait(240.0)
    assert windows_differ(tmp_path / "out", n_rows) == []


def test_branches_and_side_outputs_with_another_number_of_tasks(tmp_path: Path) -> None:
    n_rows, out = 48_000, tmp_path
    with fabric.connect(parallelism=4) as session:
        session.checkpoints(interval_s=0.3, unaligned_after_s=0, folder=tmp_path / "checkpoints")
        totals, numbered, evens = branches(session, tmp_path / "free", n_rows)
        job = totals.write_stream(
            out / "totals", also={out / "numbered": numbered, out / "evens": evens}, parallelism=2
        )
        for parallelism in (1, 3):
            wait_for_rows_in_flight(job)
            job.rescale(parallelism, timeout_s=60)
        (tmp_path / "free").touch()
        job.wait(240.0)
    assert branches_differ(out, n_rows) == []


def test_an_agent_dies(agents: LocalFabric, tmp_path: Path) -> None:
    with connected(agents) as session:
        session.checkpoints(interval_s=0.3, unaligned_after_s=0, folder=tmp_path / "checkpoints")
        frame = slow_totals(session, tmp_path / "free")
        job = frame.write_stream(streams.to_files(tmp_path / "out"), parallelism=2)
        wait_for_rows_in_flight(job)
        agents.kill(1)
        agents.restart(1)
        (tmp_path / "free").touch()
        job.wait(240.0)
    assert differs(tmp_path / "out", N_ROWS) == []


def test_an_agent_dies_amid_branches_and_side_outputs(agents: LocalFabric, tmp_path: Path) -> None:
    n_rows, out = 48_000, tmp_path
    with connected(agents) as session:
        session.checkpoints(interval_s=0.3, unaligned_after_s=0, folder=tmp_path / "checkpoints")
        totals, numbered, evens = branches(session, tmp_path / "free", n_rows)
        job = totals.write_stream(
            out / "totals", also={out / "numbered": numbered, out / "evens": evens}, parallelism=2
        )
        wait_for_rows_in_flight(job)
        agents.kill(1)
        agents.restart(1)
        job.rescale(3, timeout_s=60)
        (tmp_path / "free").touch()
        job.wait(240.0)
    assert branches_differ(out, n_rows) == []

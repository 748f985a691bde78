"""A latency says when rows come and what they cost, never which ones; who may ask for it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import fabric
from fabric import DataFrame, col, count, streams
from fabric.clients.session.session import Session
from fabric.errors import ConfigError, PlanError
from tests.support.local import LocalFabric

N_ROWS, RATE = 6_000, 6_000
START = datetime(2026, 1, 1, tzinfo=UTC)


def connected(fabric_: LocalFabric, **options: Any) -> Session:
    return fabric.connect(f"fabric://{fabric_.address}", token=fabric_.token, **options)


def made(session: Session, rows_per_s: int = RATE) -> DataFrame:
    return streams.generator(
        rows_per_s=rows_per_s, n_rows=N_ROWS, n_splits=3, n_keys=20, start=START,
        disorder="20 ms", session=session,
    )  # fmt: skip


def windows(rows: DataFrame) -> DataFrame:
    timed = rows.with_watermark("ts", "50 ms").group_by("key").window("200 ms")
    return timed.agg(count().alias("n"), col("row").sum().alias("total"))


def expected(session: Session, rows_per_s: int = RATE) -> list[tuple[Any, ...]]:
    events = made(session, rows_per_s).to_arrow()
    with duckdb.connect() as connection:
        connection.register("events", events)
        return sorted(
            connection.sql(
                "SELECT key, epoch_us(ts) - epoch_us(ts) % 200000 AS s, count(*), sum(row)::BIGINT "
                "FROM events GROUP BY ALL"
            ).fetchall()
        )


def told(table: pa.Table) -> list[tuple[Any, ...]]:
    starts = table["window_start"].cast(pa.int64())
    columns = (table["key"], starts, table["n"], table["total"])
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


@pytest.mark.parametrize("latency", ["1 ms", "20 ms", "1 second"])
def test_rows_are_the_same_at_any_latency(two: LocalFabric, latency: str) -> None:
    with connected(two, latency=latency) as session:
        session.checkpoints(interval_s=0.2)
        rows = expected(session)
        assert told(windows(made(session)).to_arrow()) == rows
        assert sum(row[2] for row in rows) == N_ROWS
        step = windows(made(session).named("made").configure("made", latency="5 ms"))
        assert told(step.to_arrow()) == rows


def n_batches(session: Session, out: Path) -> int:
    """In how many batches lone rows came to a sink behind an exchange: it writes what it gets."""
    session.checkpoints(interval_s=60.0)  # a barrier would hand on what lies there
    rows = streams.generator(rows_per_s=50, n_rows=80, n_splits=2, n_keys=20, session=session)
    rows.exchange("key", n_partitions=2).write_stream(out, format="ipc").wait(120.0)
    found = ds.dataset(out, format="ipc").to_table()
    assert sorted(zip(*(found[name].to_pylist() for name in ("split", "row")), strict=True)) == [
        (split, row) for split in range(2) for row in range(40)
    ]
    files = [pa.ipc.open_file(str(path)) for path in out.iterdir()]
    return sum(file.num_record_batches for file in files)


def test_rows_rest_for_the_latency_and_go_together(two: LocalFabric, tmp_path: Path) -> None:
    """A machine that stands still for a while gathers rows as well: then it is tried again."""
    lone = gathered = 0
    for attempt in range(5):
        for latency in ("1 ms", "500 ms"):
            with connected(two, latency=latency) as session:
                lone, gathered = gathered, n_batches(session, tmp_path / f"{latency} {attempt}")
        if 2 * gathered < lone:
            return
    raise AssertionError(f"{lone} batches of lone rows, and {gathered} of those that rest")


def test_the_end_of_a_stream_waits_for_no_latency(two: LocalFabric) -> None:
    with connected(two) as session:
        job = windows(made(session, rows_per_s=0)).submit(latency="1 minute")
        assert told(job.wait(50.0).collect()) == expected(session, 0)  # its exchange may keep 7.5 s


def test_who_asks_for_what_can_not_be_is_told(two: LocalFabric) -> None:
    with connected(two) as session:
        with pytest.raises(PlanError, match="this plan reads none"):
            session.read_arrow({"a": [1]}).submit(latency="5 ms")
        with pytest.raises(PlanError, match="latency must be at most 1 minute"):
            made(session).submit(latency="2 minutes")
        with pytest.raises(PlanError, match='write: latency="20 seconds"'):
            made(session).configure("made", latency=20)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="latency"):
        connected(two, latency="soon")
    with pytest.raises(ConfigError, match="don't run on Spark"):
        fabric.connect("local[1]", latency="5 ms")

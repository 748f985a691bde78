"""Side outputs and looked-up tables of streams in several tasks: no row lost, none twice."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path

import pyarrow.compute as pc

import fabric
from fabric import DataFrame, col, count, streams
from fabric.clients.session.session import Session

N_ROWS = 4000


def rows(session: Session) -> DataFrame:
    """Rows that are up to 5 s out of order, of which 1 s is waited for."""
    made = streams.generator(
        n_rows=N_ROWS, n_splits=2, start=datetime.datetime(2024, 1, 1), disorder="5 seconds",
        session=session,
    )  # fmt: skip
    return made.with_watermark("ts", "1 second")


def test_every_row_is_on_time_or_late_and_none_twice() -> None:
    with fabric.connect(parallelism=3) as session:
        key = (col("key") % 7).alias("key")
        counts = rows(session).group_by(key).window("1 second", late="side").agg(n=count())
        in_windows = counts.collect()
        late = counts.side_output("late").collect()
    assert 0 < late.num_rows < N_ROWS
    assert pc.sum(in_windows["n"]).as_py() + late.num_rows == N_ROWS
    assert late.schema.names == ["split", "row", "key", "value", "ts"]
    places = Counter(zip(late["split"].to_pylist(), late["row"].to_pylist(), strict=True))
    assert max(places.values()) == 1


def test_a_table_is_read_before_the_stream() -> None:
    names = {"key": list(range(0, 1000, 2)), "name": [f"n{i % 3}" for i in range(500)]}
    with fabric.connect(parallelism=3) as session:
        stream = rows(session)
        table = session.read_arrow(names)
        found = stream.join(table, on="key").select("row", "split", "key", "name").collect()
        without = stream.join(table, on="key", how="anti").collect()
    assert found.num_rows + without.num_rows == N_ROWS
    assert all(key % 2 for key in without["key"].to_pylist())
    known = dict(zip(names["key"], names["name"], strict=True))
    for key, name in zip(found["key"].to_pylist(), found["name"].to_pylist(), strict=True):
        assert known[key] == name


def test_results_and_late_rows_are_written_by_one_job(tmp_path: Path) -> None:
    with fabric.connect(parallelism=2) as session:
        counts = rows(session).group_by("key").window("1 second", late="side").agg(n=count())
        job = counts.write_stream(
            tmp_path / "out", also={tmp_path / "late": counts.side_output("late")}
        )
        n_rows = job.wait(120).rows
        written = session.read_parquet(tmp_path / "out").collect()
        late = session.read_parquet(tmp_path / "late").collect()
    assert n_rows == written.num_rows + late.num_rows
    assert pc.sum(written["n"]).as_py() + late.num_rows == N_ROWS
    windows = zip(written["key"].to_pylist(), written["window_end"].to_pylist(), strict=True)
    assert max(Counter(windows).values()) == 1


def test_windows_of_processing_time_count_every_row() -> None:
    with fabric.connect(parallelism=2) as session:
        stream = rows(session).group_by("key")
        counts = stream.window("10 seconds", time="processing").agg(n=count()).collect()
    assert pc.sum(counts["n"]).as_py() == N_ROWS

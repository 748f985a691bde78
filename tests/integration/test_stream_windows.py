"""Windows of streams by the API, embedded, beside DuckDB over the same rows."""

from __future__ import annotations

from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, col, count, streams
from fabric.plan.event_windows import Tumbling, Window

START = datetime(2024, 5, 1, tzinfo=UTC)


def rows() -> DataFrame:
    return streams.generator(
        n_rows=3_000, n_splits=3, n_keys=50, seed=3, start=START, disorder="20 ms"
    )


def timed() -> DataFrame:
    return rows().with_watermark("ts", "30 ms")


def ask(sql: str) -> list[tuple[object, ...]]:
    events = rows().to_arrow()
    with duckdb.connect() as connection:
        connection.register("events", events)
        return sorted(connection.sql(sql).fetchall())


def answer(frame: DataFrame) -> list[tuple[object, ...]]:
    """Rows with times as integers."""
    table = frame.to_arrow()
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in table.columns
    ]
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


STARTS = {
    "tumbling": (fabric.tumbling("1 second"), "[t - t % 1000000]", "s + 1000000"),
    "sliding": (
        fabric.sliding("1 second", "300 ms"), "range(t - t % 300000, t - 1000000, -300000)",
        "s + 1000000",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STARTS)
def test_windows_in_time(name: str) -> None:
    window, starts, ends = STARTS[name]
    windows = timed().group_by("key").window(window)
    found = windows.agg(count().alias("n"), col("row").max().alias("most"))
    each = f"SELECT *, unnest({starts}) AS s FROM (SELECT *, epoch_us(ts) AS t FROM events)"
    expected = f"SELECT key, s, {ends}, count(*), max(row) FROM ({each}) GROUP BY ALL"
    assert answer(found) == ask(expected)


def test_sessions() -> None:
    found = timed().group_by("key").window(fabric.session("40 ms")).agg(count().alias("n"))
    begun = """SELECT *, epoch_us(ts) AS t,
        t - lag(t) OVER (PARTITION BY key ORDER BY t) <= 40000 AS g FROM events"""
    numbered = f"""SELECT *, count(*) FILTER (WHERE g IS NOT TRUE)
        OVER (PARTITION BY key ORDER BY t ROWS UNBOUNDED PRECEDING) AS session FROM ({begun})"""
    expected = f"""SELECT key, min(t), max(t) + 40000, count(*) FROM ({numbered})
        GROUP BY key, session"""
    assert answer(found) == ask(expected)


@pytest.mark.parametrize("window", [fabric.tumbling("1 second"), fabric.global_window()])
def test_each_row_counts_once(window: Window) -> None:
    """Also by the clock, where which window it is in is open."""
    grouped = rows().group_by("key")
    by_clock = isinstance(window, Tumbling)
    windows = grouped.window(window, time="processing" if by_clock else "event")
    table = windows.agg(count().alias("n")).to_arrow()
    counts = table.group_by("key").aggregate([("n", "sum")]).to_pydict()
    assert sorted(zip(counts["key"], counts["n_sum"], strict=True)) == ask(
        "SELECT key, count(*) FROM events GROUP BY key"
    )


def test_windows_of_rows() -> None:
    found = rows().group_by("key").window(fabric.count_window(7)).agg(count().alias("n"))
    n_full = "SELECT key, count(*) // 7 AS n FROM events GROUP BY key"
    expected = ask(f"SELECT key, 7 FROM ({n_full}), range(n)")
    assert answer(found) == expected


def test_early_results_come_to_the_same_in_the_end() -> None:
    windows = timed().group_by("key").window("1 second", early_rows=3)
    table = windows.agg(count().alias("n")).changes().to_arrow().to_pylist()
    standing: dict[tuple[object, ...], int] = {}
    for row in table:
        place = (row["key"], row["window_start"])
        if row["row_kind"] in ("+I", "+U"):
            standing[place] = row["n"]
        else:
            assert standing.pop(place) == row["n"]
    expected = ask("SELECT key, epoch_us(ts) // 1000000, count(*) FROM events GROUP BY ALL")
    assert sorted(standing.values()) == sorted(n for _, _, n in expected)

"""Deduplicate, top-N, lookup joins and users' functions on streams, embedded, beside DuckDB."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, Process, ProcessContext, col, streams
from tests.support.changes import Settled, settled

N_KEYS = 50
LATER_US = 4_102_444_800_000_000
"""In event time: when all rows are there."""


def rows() -> DataFrame:
    start = datetime(2024, 5, 1, tzinfo=UTC)  # or windows would be other ones each time
    return streams.generator(n_rows=3000, n_splits=3, n_keys=N_KEYS, seed=1, start=start)


@pytest.fixture(scope="module")
def made() -> pa.Table:
    return rows().to_arrow()


def answer(made: pa.Table, sql: str) -> Settled:
    """What DuckDB says of the table `made`."""
    with duckdb.connect() as connection:
        connection.register("made", made)
        return settled(connection.sql(sql).to_arrow_table().to_batches())


def found(frame: DataFrame) -> Settled:
    return settled(frame.to_arrow().to_batches())


def test_the_first_row_of_each_key() -> None:
    first = rows().deduplicate("key").to_arrow()
    assert sorted(first["key"].to_pylist()) == list(range(N_KEYS))


def test_the_best_of_each_window_with_ties(made: pa.Table) -> None:
    best = (
        rows()
        .with_watermark("ts", "5 seconds")
        .assign_windows("1 second")
        .top_n(1, by=col("value").desc(), keys=["window_start", "window_end"], ties=True)
        .select("split", "row", "value")
    )
    ranked = "rank() OVER (PARTITION BY time_bucket(INTERVAL '1 second', ts) ORDER BY value DESC)"
    assert found(best) == answer(made, f"SELECT split, row, value FROM made QUALIFY {ranked} = 1")


@pytest.mark.parametrize("keys", ["key", ()])
def test_changing_results_come_to_the_best_of_all(made: pa.Table, keys: Any) -> None:
    changes = rows().top_n(2, by=[col("value").desc(), col("split"), col("row")], keys=keys)
    table = changes.changes().to_arrow()
    signs = {"+I": 1, "-U": -1, "+U": 1, "-D": -1}
    stands: Settled = Settled()
    for kind, split, row in zip(*(table[c].to_pylist() for c in ("row_kind", "split", "row")),
                                strict=True):  # fmt: skip
        stands[split, row] += signs[kind]
    order = "ORDER BY value DESC, split, row"
    sql = "SELECT split, row FROM made QUALIFY row_number() OVER ({} {}) <= 2"
    assert +stands == answer(made, sql.format("PARTITION BY key" if keys else "", order))


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_rows_with_those_of_a_table(made: pa.Table, how: Any) -> None:
    even = list(range(0, N_KEYS, 2))
    names = fabric.from_dict({"key": even, "name": [str(key) for key in even]})
    joined = found(rows().join(names, on="key", how=how).select("split", "row"))
    keys = {"inner": "key % 2 = 0", "left": "true", "semi": "key % 2 = 0", "anti": "key % 2 = 1"}
    assert joined == answer(made, f"SELECT split, row FROM made WHERE {keys[how]}")


class Counting(Process):
    """The number of rows of each key, when all are there; it can't count to three."""

    def on_rows(self, ctx: ProcessContext, key: int, rows: pa.RecordBatch) -> None:
        ctx.state("n").add(rows.num_rows)
        ctx.timers.set(LATER_US)
        if key == 3:
            raise ValueError("three")

    def on_timer(self, ctx: ProcessContext, key: int, time: int, domain: str) -> dict[str, int]:
        return {"key": key, "n": ctx.state("n").get()}


def test_a_function_with_state_and_timers(made: pa.Table) -> None:
    counts = (
        rows()
        .with_watermark("ts")
        .process(
            Counting(),
            keys="key",
            schema={"key": "int64", "n": "int64"},
            state={"n": streams.reducing_state("int64", "sum")},
            timers="event",
            on_error="side",
        )
    )
    sql = "SELECT key, count(*) FROM made WHERE key <> 3 GROUP BY key"
    assert found(counts) == answer(made, sql)
    errors = counts.side_output("errors").to_arrow()
    assert set(errors["key"].to_pylist()) == {3}
    (told,) = set(errors["error"].to_pylist())
    assert told.startswith("the function Counting raised ValueError: three (line ")

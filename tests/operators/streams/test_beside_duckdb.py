"""Watermark and windows together, beside DuckDB with the same lateness fold.

Any interleaving of the same splits, in any batches, straight, aborted and rescaled, gives the
windows that DuckDB computes of all rows at once; every row is on time or late, none twice.
"""

from __future__ import annotations

from collections import Counter
from random import Random

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabric.event_time import BEGINNING
from fabric.operators.contract import Context
from fabric.operators.node_operators import operator_of
from fabric.plan.event_windows import Cumulative, Session, Sliding, Tumbling, Window
from fabric.plan.expr import Agg, Alias, Column
from fabric.plan.nodes import StageInput, StreamAggregate, Watermark
from fabric.plan.schema import schema_of
from fabric.testing.operators import Rows, Step, Until, check_operator
from tests.support.duckdb.event_time import sessions_sql, watermarks_sql, windows_sql
from tests.support.stream_model import folded, rows_of

ROWS = pa.schema([("split", pa.string()), ("n", pa.int64()), ("k", pa.string()),
                  ("v", pa.int64()), ("t", pa.timestamp("us", "UTC"))])  # fmt: skip
WINDOWS = [Tumbling(10, 3), Sliding(9, 4, -1), Sliding(12, 3), Cumulative(12, 4), Session(4)]
AGGS = (Alias(Agg("count", None), "n_rows"), Alias(Agg("sum", Column("v")), "total"))


def random_splits(rng: Random) -> dict[str, pa.RecordBatch]:
    splits = {}
    for split in "xyz"[: rng.randint(1, 3)]:
        n, time, times = rng.randint(1, 30), 0, []
        for _ in range(n):
            time += rng.randint(-6, 9)
            times.append(time)
        columns = [
            pa.array([split] * n), pa.array(range(n), pa.int64()),
            pa.array(rng.choices("abc", k=n)), pa.array(rng.choices(range(5), k=n), pa.int64()),
            pa.array(times, pa.int64()).view(ROWS.field("t").type),
        ]  # fmt: skip
        splits[split] = pa.RecordBatch.from_arrays(columns, schema=ROWS)
    return splits


def interleaved(splits: dict[str, pa.RecordBatch], node: Watermark, rng: Random) -> list[Step]:
    """What leaves the watermark operator when the splits are read in some order."""
    operator = operator_of(node, schema_of(node), [ROWS])
    assert operator is not None
    operator.open(Context(splits=tuple(splits)))
    steps: list[Step] = []
    left = dict(splits)
    while left:
        split = rng.choice(sorted(left))
        n = rng.randint(1, 8)
        operator.on_split(split)
        steps += [Rows(batch) for batch in operator.on_batch(0, left[split].slice(0, n))]
        left[split] = left[split].slice(n)
        if not left[split].num_rows:
            del left[split]
            operator.on_split_end(split)
        if left and rng.random() < 0.6:
            steps.append(Until(operator.watermark(BEGINNING)))
    return steps


def by_duckdb(
    table: pa.Table, window: Window, bound: int, lateness: int
) -> tuple[Counter[tuple[object, ...]], set[tuple[object, ...]]]:
    """The windows, and (split, n) of rows that are late for all of theirs."""
    rows = watermarks_sql("SELECT * FROM table_", split="split", order="n",
                          time_us="epoch_us(t)", bound_us=bound)  # fmt: skip
    if isinstance(window, Session):
        placed = sessions_sql(rows, window.gap_us, "k", lateness)
    else:
        assert isinstance(window, Tumbling | Sliding | Cumulative)
        placed = windows_sql(rows, window, lateness)
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("table_", table)
        answers = database.sql(
            f"SELECT k, window_start, window_end, count(*), sum(v)::BIGINT FROM ({placed}) "
            "WHERE NOT late GROUP BY ALL"
        ).fetchall()
        late = database.sql(
            f"SELECT split, n FROM ({placed}) GROUP BY ALL HAVING bool_and(late)"
        ).fetchall()
    return Counter(answers), set(late)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@settings(max_examples=12, deadline=None)
@given(
    rng=st.randoms(use_true_random=False), bound=st.integers(0, 8), lateness=st.sampled_from([0, 5])
)
def test_any_interleaving_gives_duckdbs_windows(
    window: Window, rng: Random, bound: int, lateness: int
) -> None:
    splits = random_splits(rng)
    marked = Watermark(StageInput(0, ROWS), "t", bound_us=bound, rows=True)
    steps = interleaved(splits, marked, rng)
    node = StreamAggregate(
        StageInput(0, schema_of(marked)), (Column("k"),), AGGS, window, "t", lateness_us=lateness,
        late="side",
    )  # fmt: skip
    source, output = schema_of(marked), schema_of(node)

    def make():  # type: ignore[no-untyped-def]
        return operator_of(node, output, [source])

    out = check_operator(make, steps, keys=["k"], abort_at=range(0, len(steps), 3))
    windows, late = by_duckdb(pa.Table.from_batches(splits.values()), window, bound, lateness)
    assert folded(out.rows, keyed=True) == windows
    aside = [row[:2] for batch in out.sides.get("late", []) for row in rows_of(batch)]
    assert len(aside) == len(set(aside))
    assert set(aside) == late

"""Window functions: what they become, and the same rows as DuckDB and Polars."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, Window, col, count, lit, when
from fabric import functions as F
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan import nodes

DATA = pa.table(
    {
        "i": list(range(12)),
        "k": ["a", "b", "a", "b", "a", "b", None, None, "a", "c", "c", "b"],
        "t": [3, 1, 1, 2, 2, 2, 1, 2, None, 5, 4, 9],
        "x": [5.0, None, 1.0, 2.5, None, 2.5, 8.0, 1.0, 4.0, None, 3.0, 2.5],
        "n": [1, 2, 3, 4, None, 6, 7, 8, 9, 10, 11, 12],
    }
)
ORDER = "order by t nulls first, i"
BY = ["t", "i"]


@pytest.fixture
def df() -> DataFrame:
    return DataFrame(DATA)


def answers(frame: DataFrame) -> list[Any]:
    """The column ``answer`` in the order of i."""
    return frame.sort("i").collect()["answer"].to_pylist()


def of_duckdb(expression: str) -> list[Any]:
    data = DATA  # noqa: F841  (DuckDB finds it by name)
    found = duckdb.sql(f"select {expression} as answer from data order by i").fetchall()
    return [row[0] for row in found]


@pytest.mark.parametrize(
    ("ours", "sql"),
    [
        (F.row_number().over("k", order_by=BY), f"row_number() over (partition by k {ORDER})"),
        (F.rank().over("k", order_by="t"), "rank() over (partition by k order by t nulls first)"),
        (F.dense_rank().over(order_by="t"), "dense_rank() over (order by t nulls first)"),
        (F.percent_rank().over(order_by="t"), "percent_rank() over (order by t nulls first)"),
        (F.cume_dist().over(order_by="t"), "cume_dist() over (order by t nulls first)"),
        (F.ntile(3).over(order_by=BY), f"ntile(3) over ({ORDER})"),
        (F.lag("x").over("k", order_by=BY), f"lag(x) over (partition by k {ORDER})"),
        (F.lag("n", 2, -1).over("k", order_by=BY), f"lag(n, 2, -1) over (partition by k {ORDER})"),
        (F.lead("x", 2).over(order_by=BY), f"lead(x, 2) over ({ORDER})"),
        (col("n").shift(-1, fill_value=0).over("k", order_by=BY),
         f"lead(n, 1, 0) over (partition by k {ORDER})"),
        (col("n").diff().over("k", order_by=BY), f"n - lag(n) over (partition by k {ORDER})"),
        (col("n").pct_change().over("k", order_by=BY),
         f"n / lag(n) over (partition by k {ORDER}) - 1"),
        (F.first_value("x").over("k", order_by=BY),
         f"first_value(x) over (partition by k {ORDER})"),
        (F.first_value("x", True).over("k", order_by=BY),
         f"first_value(x ignore nulls) over (partition by k {ORDER})"),
        (F.last_value("x").over("k", order_by=BY, rows=(None, None)),
         f"last_value(x) over (partition by k {ORDER} "
         "rows between unbounded preceding and unbounded following)"),
        (F.last_value("x", True).over(order_by=BY), f"last_value(x ignore nulls) over ({ORDER})"),
        (F.nth_value("x", 2).over("k", order_by=BY),
         f"nth_value(x, 2) over (partition by k {ORDER})"),
        (col("n").sum().over("k"), "sum(n) over (partition by k)"),
        (col("n").sum().over("k", order_by="t"), "sum(n) over (partition by k)"),
        (col("n").sum().over("k", order_by="t", range=(None, 0)),
         "sum(n) over (partition by k order by t nulls first)"),
        (col("n").sum().over(Window.partitionBy("k").orderBy("t")),
         "sum(n) over (partition by k order by t nulls first)"),
        (col("n").first().over("k", order_by=BY),
         f"first_value(n) over (partition by k {ORDER})"),
        (col("n").last().over("k", order_by=BY),
         f"last_value(n) over (partition by k {ORDER} "
         "rows between unbounded preceding and unbounded following)"),
        (col("n").sum().over(order_by=BY, rows=(-1, 1)),
         f"sum(n) over ({ORDER} rows between 1 preceding and 1 following)"),
        (col("n").max().over("k", order_by="i", range=(-3, 0)),
         "max(n) over (partition by k order by i range between 3 preceding and current row)"),
        (count().over(), "count(*) over ()"),
        (col("x").std().over("k"), "stddev_samp(x) over (partition by k)"),
        (col("x") - col("x").mean().over("k"), "x - avg(x) over (partition by k)"),
        ((col("x") - col("x").mean()).over("k"), "x - avg(x) over (partition by k)"),
        (col("n") / col("n").sum().over("k") + col("n").max().over("t"),
         "n / sum(n) over (partition by k) + max(n) over (partition by t)"),
        (when(F.row_number().over("k", order_by=BY) == 1).then(col("n")).otherwise(lit(0)),
         f"case when row_number() over (partition by k {ORDER}) = 1 then n else 0 end"),
    ],
)  # fmt: skip
def test_as_duckdb(df: DataFrame, ours: Any, sql: str) -> None:
    wanted = of_duckdb(sql)
    assert answers(df.with_columns(answer=ours)) == pytest.approx(wanted, nan_ok=True)
    assert answers(df.select("i", answer=ours)) == pytest.approx(wanted, nan_ok=True)


@pytest.mark.parametrize(
    "of",
    [
        lambda x: x.cum_sum(), lambda x: x.cum_min(), lambda x: x.cum_max(),
        lambda x: x.cum_count(), lambda x: x.rolling_sum(2), lambda x: x.rolling_mean(3),
        lambda x: x.rolling_min(3, min_samples=1), lambda x: x.rolling_max(3, min_samples=2),
        lambda x: x.rolling_std(3, min_samples=2), lambda x: x.rolling_var(3, min_samples=2),
        lambda x: x.shift(2), lambda x: x.diff(), lambda x: x.pct_change(),
        lambda x: x.forward_fill(), lambda x: x.backward_fill(),
        lambda x: x.fill_null(strategy="forward"),
    ],
)  # fmt: skip
def test_running_as_polars(df: DataFrame, of: Any) -> None:
    frame = pl.from_arrow(DATA)
    assert isinstance(frame, pl.DataFrame)
    wanted = frame.with_columns(answer=of(pl.col("x")).over("k", order_by=BY))["answer"]
    ours = answers(df.with_columns(answer=of(col("x")).over("k", order_by=BY)))
    assert ours == pytest.approx(wanted.to_list(), nan_ok=True)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("method", ["average", "min", "max", "dense"])
def test_rank_as_polars(df: DataFrame, method: Any, descending: bool) -> None:
    frame = pl.from_arrow(DATA)
    assert isinstance(frame, pl.DataFrame)
    wanted = pl.col("x").rank(method, descending=descending)
    ours = col("x").rank(method, descending=descending)
    assert (
        answers(df.with_columns(answer=ours.over("k")))
        == frame.with_columns(answer=wanted.over("k"))["answer"].to_list()
    )
    assert answers(df.select("i", answer=ours)) == frame.select(wanted)["x"].to_list()


def test_ordinal_ranks_are_all_different(df: DataFrame) -> None:
    ranks = answers(df.with_columns(answer=col("x").rank("ordinal")))
    assert sorted(rank for rank in ranks if rank is not None) == list(range(1, 10))


def test_windows_over_windows(df: DataFrame) -> None:
    off = (col("n") - col("n").mean().over("k")).abs().max().over("t")
    wanted = of_duckdb("0")
    data = DATA  # noqa: F841
    inner = "select *, abs(n - avg(n) over (partition by k)) as off from data"
    query = f"select max(off) over (partition by t) as answer, i from ({inner}) order by i"
    wanted = [row[0] for row in duckdb.sql(query).fetchall()]
    assert answers(df.with_columns(answer=off)) == pytest.approx(wanted)


def test_pyspark_windows_are_the_same_expressions() -> None:
    spec = Window.partitionBy("k").orderBy(col("t").desc())
    ours = F.sum("x").over("k", order_by=col("t").desc(), rows=(None, 0))
    far = spec.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    assert F.sum("x").over(far).node == ours.node
    whole = spec.rangeBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    assert F.sum("x").over(whole).node == F.sum("x").over(
        "k", order_by=col("t").desc(), range=(None, None)
    ).node  # fmt: skip
    assert Window.orderBy("t") == Window.partitionBy().orderBy("t")
    assert F.sum("x").over(Window.rowsBetween(-1, 1).orderBy("t")).node == F.sum("x").over(
        order_by="t", rows=(-1, 1)
    ).node  # fmt: skip
    running = Window.partitionBy("k").orderBy("t")
    assert F.sum("x").over(running).node == F.sum("x").over(
        "k", order_by="t", range=(None, 0)
    ).node  # fmt: skip
    to_here = running.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    assert F.sum("x").over(to_here).node == F.sum("x").over(running).node
    assert str(F.sum("x").over(running)).endswith('.over("k", order_by="t", range=(None, 0))')
    assert Window.rangeBetween(-1, 0) == Window.partitionBy().rangeBetween(-1, 0)


def test_one_node_for_each_partition(df: DataFrame) -> None:
    frame = df.with_columns(
        a=col("n").sum().over("k"),
        b=col("n").max().over("k", order_by="t"),
        c=col("n").sum().over("t"),
        d=col("n").sum().over("k") + 1,
    )
    found = [n for n in _chain(frame.plan.root) if isinstance(n, nodes.Window)]
    assert [len(n.exprs) for n in found] == [1, 2]
    plain = df.with_columns(a=col("n").sum().over("k"), b=col("n").max().over("k")).plan.root
    assert isinstance(plain, nodes.Window)
    assert [plan.output_name(e) for e in plain.exprs] == ["a", "b"]


def _chain(node: nodes.Node) -> list[nodes.Node]:
    found = [node]
    while len(found[-1].children) == 1:
        found.append(found[-1].children[0])
    return found


def test_columns_of_windows_stay_hidden(df: DataFrame) -> None:
    assert df.with_columns(a=col("n").sum().over("k") * 2).columns == [*df.columns, "a"]
    assert df.with_columns(n=col("n").sum().over("k"), replace=True).columns == df.columns
    assert df.filter(col("n") == col("n").max().over("k")).columns == df.columns
    assert df.group_by(col("n").max().over("k").alias("m")).agg(count()).columns == ["m", "count"]
    paths = repr(df.filter(col("n") == col("n").max().over("k")))
    assert "filter_1/window: " in paths


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.with_columns(col("n").cum_sum()), r'write for example: .*\.over\(order_by='),
        (lambda f: f.with_columns(col("n").cum_sum().over("k")),
         r'col\("n"\)\.cum_sum\(\)\.over\("k", order_by="\.\.\."\) with'),
        (lambda f: f.select(a=F.row_number()), r'row_number\(\)\.over\(order_by="\.\.\."\)'),
        (lambda f: f.group_by("k").agg(F.lag("n")), "lag needs an order"),
        (lambda f: f.with_columns(a=col("n").sum().over("kk")), r'\.over\("k"\)'),
        (lambda f: f.with_columns(a=col("nn").sum().over("k") + 1),
         r'there is no column "nn".*did you mean "n"'),
        (lambda f: f.with_columns(n=col("n").sum().over("k")),
         r'would overwrite "n".*alias\("n_2"\).*replace=True'),
        (lambda f: f.with_columns(col("n").sum().over("k").alias("a"),
                                  (col("n").max().over("k") + 1).alias("a")),
         'two columns would be called "a"'),
        (lambda f: f.with_columns(a=col("k") - col("n").max().over("k")),
         r'- takes numbers.*col\("k"\) - col\("n"\)\.max\(\)\.over\("k"\)'),
        (lambda f: col("n").over("k"), r'has none that still needs a window.*\.sum\(\)\.over'),
        (lambda f: col("n").sum().over("k").over("t"), "has none that still needs a window"),
        (lambda f: col("n").sum().over("k", rows=(1,)), r"rows=\(1,\) is not a valid frame"),
        (lambda f: col("n").sum().over("k", rows=(1, 2), range=(1, 2)), "takes one frame"),
        (lambda f: col("n").sum().over(Window.partitionBy("k"), order_by="t"), "a Window alone"),
        (lambda f: col("n").lag(-1), r"write: \.lead\(1\)"),
        (lambda f: col("n").rolling_sum(0), "window_size of at least 1"),
        (lambda f: col("n").rolling_sum(2, min_samples=3), "min_samples from 1 to window_size=2"),
        (lambda f: col("n").rank("middle"), "rank has no method 'middle'"),
        (lambda f: col("n").fill_null(strategy="farward"), "no strategy 'farward'"),
        (lambda f: col("n").fill_null(1, "forward"), "a value or a strategy"),
        (lambda f: F.ntile(0), "at least 1, got 0"),
        (lambda f: f.select(col("n") - col("n").mean()),
         r'write: with_columns\(\(col\("n"\) - col\("n"\)\.mean\(\)\.over\(\)\)\.alias\("n_2"\)\)'),
    ],
)  # fmt: skip
def test_refused(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(df)


def test_every_window_function_is_public() -> None:
    from fabric.plan.functions import WINDOW_FUNCTIONS

    assert all(hasattr(fabric, name) for name in WINDOW_FUNCTIONS)

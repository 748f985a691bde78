"""Groups, grouping sets and summaries, beside DuckDB and Polars."""

from __future__ import annotations

from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, col, count, grouping, grouping_id, row_number, sum
from fabric.errors import PlanError
from fabric.plan import nodes
from fabric.plan.functions import AGGREGATES

DATA = pa.table(
    {
        "a": ["x", "x", "y", None, "y", "x"],
        "b": [1, 2, 1, 1, None, 1],
        "v": [1.5, 2.0, None, 4.0, 5.0, 6.5],
        "n": [1, 2, 3, 4, 5, 6],
    }
)


@pytest.fixture
def df() -> DataFrame:
    return DataFrame(DATA)


def rows(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in frame.to_dicts())


def of_duckdb(query: str) -> list[str]:
    data = DATA  # noqa: F841  (DuckDB finds it by name)
    return sorted(map(repr, duckdb.sql(query).fetchall()))


@pytest.mark.parametrize(
    ("groups", "sql"),
    [
        (lambda f: f.rollup("a", "b"), "rollup (a, b)"),
        (lambda f: f.cube("a", "b"), "cube (a, b)"),
        (lambda f: f.group_by("a", "b").rollup(), "rollup (a, b)"),
        (lambda f: f.grouping_sets([["a"], ["b"], []], "a", "b"), "grouping sets ((a), (b), ())"),
        (lambda f: f.group_by("a", "b").grouping_sets([["b"], "a"]), "grouping sets ((b), (a))"),
    ],
)  # fmt: skip
def test_grouping_sets(df: DataFrame, groups: Any, sql: str) -> None:
    ours = groups(df).agg(
        sum("n"), count().alias("c"), id=grouping_id(), left_out=grouping("b"),
        twice=sum("v") * 2 + grouping_id(),
    )  # fmt: skip
    assert ours.columns == ["a", "b", "n", "c", "id", "left_out", "twice"]
    assert rows(ours) == of_duckdb(
        "select a, b, sum(n)::bigint, count(*), grouping(a, b), grouping(b), "
        f"sum(v) * 2 + grouping(a, b) from data group by {sql}"
    )
    assert rows(groups(df).agg(id=grouping_id())) == of_duckdb(
        f"select a, b, grouping(a, b) from data group by {sql}"
    )


def test_grouping_sets_read_their_input_once(df: DataFrame) -> None:
    root = df.filter(col("n") > 1).rollup("a").count().plan.root
    assert isinstance(root, nodes.Union)
    inputs = {id(node.children[0].children[0]) for node in root.inputs}
    assert len(inputs) == 1


def test_every_aggregate_is_a_method_of_groups(df: DataFrame) -> None:
    from fabric.clients.dataframe.verbs.group_by import GroupBy

    assert all(hasattr(GroupBy, name) for name in AGGREGATES)
    groups = df.group_by("a")
    assert groups.median("n").columns == ["a", "n"]
    assert groups.quantile(0.5, "n", "v").columns == ["a", "n", "v"]
    assert groups.quantile(0.5, "n", interpolation="linear").columns == ["a", "n"]
    assert groups.std().columns == ["a", "b", "v", "n"]
    assert groups.first().columns == ["a", "b", "v", "n"]
    assert groups.corr("v", "n").columns == ["a", "v"]
    assert groups.max_by("v", "n").columns == ["a", "v"]
    assert groups.var("v", ddof=0).plan.root.aggs[0].function == "var_pop"


def test_groups_over_window_functions(df: DataFrame) -> None:
    firsts = df.group_by("a").agg(n=sum("n"), top=(col("n").max().over("b") - col("n")).max())
    assert rows(firsts) == of_duckdb(
        "select a, sum(n)::bigint, max(m - n) from "
        "(select *, max(n) over (partition by b) as m from data) group by a"
    )
    ranks = df.group_by(row_number().over("a", order_by="n").alias("place")).agg(count())
    assert rows(ranks) == of_duckdb(
        "select p, count(*) from (select row_number() over (partition by a order by n) as p "
        "from data) group by p"
    )


def test_value_counts(df: DataFrame) -> None:
    assert rows(df.value_counts("a")) == of_duckdb("select a, count(*) from data group by a")
    counts = df.value_counts("a", name="n", sort=True).collect()["n"].to_pylist()
    assert counts == [3, 2, 1]
    assert df.value_counts("a", "b").columns == ["a", "b", "count"]


def test_describe_as_polars(df: DataFrame) -> None:
    rows = df.describe().to_dicts()
    ours = {row["statistic"]: row for row in rows}
    frame = pl.from_arrow(DATA)
    assert isinstance(frame, pl.DataFrame)
    wanted = {row["statistic"]: row for row in frame.describe(interpolation="linear").to_dicts()}
    assert [row["statistic"] for row in rows] == list(wanted)
    for statistic, row in wanted.items():
        for name in ("v", "n", "b"):
            assert ours[statistic][name] == pytest.approx(row[name]), (statistic, name)
    assert ours["max"]["a"] == "y"
    assert df.summary().dtypes["a"] == pa.float64() or df.summary().dtypes["a"] == pa.string()


@pytest.mark.parametrize("parallelism", [1, 4])
def test_describe_has_one_order(parallelism: int) -> None:
    wanted = pl.DataFrame({"a": [1]}).describe()["statistic"].to_list()
    with fabric.connect(parallelism=parallelism) as session:
        rows = session.read_arrow({"order": [1, 2, 3], "statistic": ["x", "y", "z"]})
        for _ in range(3):
            assert rows.describe().collect()["statistic_2"].to_pylist() == wanted


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.rollup("aa").count(), r'no column "aa".*write: \.group_by\("a"\)'),
        (lambda f: f.cube("a").agg(count(), col("nn").sum()),
         r'write: \.agg\(count\(\), col\("n"\)\.sum\(\)\)'),
        (lambda f: f.group_by("a").pivot("b", [1, 2]).agg(col("nn").sum()),
         r'agg of a pivot: .*write: \.agg\(col\("n"\)\.sum\(\)\)'),
        (lambda f: f.grouping_sets([["a"], ["bb"]], "a", "b"),
         r'write: \.grouping_sets\(\[\["a"\], \["b"\]\]\)'),
        (lambda f: f.group_by("a").grouping_sets([]), "needs a set of keys"),
        (lambda f: f.rollup("a").agg(grouping("n")), r'which is not a key.*write: grouping\("a"\)'),
        (lambda f: f.group_by("a").agg(grouping_id()), "grouping_id"),
        (lambda f: f.cube(*[col("n").alias(str(i)) for i in range(13)]), "at most 12 keys"),
        (lambda f: f.value_counts("aa"), r'write: \.value_counts\("a"\)'),
        (lambda f: f.value_counts("a", name="a"), r'\.value_counts\("a", name="a_2"\)'),
        (lambda f: f.group_by("a").agg({"n": "summ"}), r'write: {"n": "sum"}'),
        (lambda f: f.group_by("a").agg(x=col("v") - col("v").mean()), r"puts a row's col\(\"v\"\)"),
        (lambda f: f.group_by("a").quantile(2, "n"), "fraction from 0 to 1"),
        (lambda f: f.select(col("n").std(ddof=2)), "ddof=1"),
        (lambda f: f.group_by("a").var("n", ddof=2), "ddof=1"),
        (lambda f: f.group_by("a").std("n", ddof=2), "ddof=1"),
        (lambda f: f.select(col("n").quantile(0.5, "mean")), "no interpolation 'mean'; use one of"),
        (lambda f: f.select(col("n").quantile("a")), "fraction from 0 to 1, got 'a'"),
        (lambda f: f.rollup("a").pivot("b", [1]), "plain groups"),
    ],
)  # fmt: skip
def test_refused(df: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(df)


@pytest.mark.parametrize(
    ("named", "says"),
    [
        (
            {"maintain_order": True},
            r"no order by themselves; write: \.group_by\(.*\.sort\(\.\.\.\)",
        ),
        ({"maintain_order": False}, "got maintain_order=False; leave it out"),
        ({"as_index": False}, "got as_index=False; leave it out"),
        ({"level": None}, "got level=None; leave it out"),
    ],
)
@pytest.mark.parametrize("verb", ["group_by", "groupby", "rollup", "cube"])
def test_an_option_of_another_library_is_no_key(verb: str, named: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        getattr(DataFrame({"k": [1]}), verb)("k", **named)


def test_pandas_calls_keys_by() -> None:
    df = DataFrame({"k": [1, 1], "j": [2, 2], "v": [3, 4]})
    assert df.groupby(by="k").agg(sum("v")).to_dicts() == [{"k": 1, "v": 7}]
    assert df.groupby(by=["k", "j"]).agg(sum("v")).columns == ["k", "j", "v"]
    assert df.group_by(by="k").agg(sum("v")).columns == ["by", "v"]

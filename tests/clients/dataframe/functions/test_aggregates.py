"""Every aggregate of the registry is a method, a function and a method of groups."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

import fabric
from fabric import col
from fabric import functions as F
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.clients.dataframe.functions.aggregates import ALIASES
from fabric.errors import PlanError
from fabric.plan import expr as plan
from fabric.plan.functions import AGGREGATES

X, Y = plan.Column("x"), plan.Column("y")
_MORE: dict[str, tuple[Any, ...]] = {
    "corr": ("y",), "covar_samp": ("y",), "covar_pop": ("y",), "min_by": ("y",), "max_by": ("y",),
    "quantile": (0.5,), "approx_quantile": (0.5,),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_method_and_function_are_the_same(name: str) -> None:
    more = _MORE.get(name, ())
    method = getattr(col("x"), name)(*more).node
    assert isinstance(method, plan.Agg)
    assert method.function == name
    assert method.input == X
    function = getattr(F, "collect_list" if name == "collect" else name)
    assert function("x", *more).node == method
    assert function(col("x"), *more).node == method


@pytest.mark.parametrize("alias", sorted(set(ALIASES) - {"len", "nunique"}))
def test_other_names_are_methods(alias: str) -> None:
    assert getattr(col("x"), alias)().node == plan.Agg(ALIASES[alias], X)
    assert ALIASES[alias] in AGGREGATES


def test_samples_and_all_values() -> None:
    assert col("x").std(ddof=0).node == col("x").std_pop().node == F.stddev_pop("x").node
    assert F.var("x", 0).node == plan.Agg("var_pop", X)
    assert col("x").null_count().node == plan.Agg("count_if", plan.Call("is_null", (X,)))
    assert F.count().node == plan.Agg("count", None)
    assert F.max_by("x", by=col("y") + 1).node == plan.Agg("max_by", X, ((col("y") + 1).node,))


def test_functions_are_public() -> None:
    functions = {name for name in F.__all__ if name in AGGREGATES}
    assert functions | {"collect"} == set(AGGREGATES)
    assert all(hasattr(fabric, name) for name in functions)
    assert issubclass(Expr, fabric.Expr)


@pytest.mark.parametrize("name", ["n_unique", "nunique"])
def test_null_is_a_value_for_polars_names_and_none_for_sparks(name: str) -> None:
    groups = fabric.from_dict({"k": ["a", "a", "b"], "v": [1, None, None]}).group_by("k")
    found = groups.agg({"v": name}).sort("k").collect().to_pydict()
    assert found == {"k": ["a", "b"], f"{name}(v)": [2, 1]}
    found = groups.agg({"v": "count_distinct"}).sort("k").collect().to_pydict()
    assert found == {"k": ["a", "b"], "count_distinct(v)": [1, 0]}


def test_different_values_of_a_stream() -> None:
    rows = fabric.streams.generator(n_rows=100, n_keys=7, start=datetime(2024, 1, 1))
    marked = rows.with_watermark("ts", "1 second").with_columns(
        v=fabric.when(col("key") > 2).then("key")
    )
    ours = (
        marked.group_by().window("1 hour").agg(a=col("v").n_unique(), b=col("v").count_distinct())
    )
    (row,) = ours.collect().to_pylist()
    assert row["a"] == row["b"] + 1


def test_three_columns_of_one_name_are_told_three_names() -> None:
    df = fabric.from_dict({"k": ["x"], "a": [1]})
    with pytest.raises(PlanError, match=r'"a_2"\), col\("a"\)\.alias\("a_3"\)'):
        df.select("a", "a", "a")
    spark = fabric.functions
    with pytest.raises(PlanError, match=r"write: \.agg\(.*list\.unique\(\)\.alias") as error:
        df.group_by("k").agg(spark.sum("a"), spark.count_distinct("a"), spark.collect_set("a"))
    assert "__" not in str(error.value)


def test_combinations_without_a_null_are_counted() -> None:
    """As Spark's count(DISTINCT k, s)."""
    nan = float("nan")
    df = fabric.DataFrame(
        {
            "g": [1, 1, 1, 1, 2, 2],
            "k": ["a", "a", "b", None, "a", "a"],
            "s": [1, 1, 2, 3, None, None],
            "f": [0.0, -0.0, nan, nan, nan, 1.0],
        }
    )
    two = fabric.functions.countDistinct("k", col("s") + 1)
    assert df.group_by("g").agg(n=two).sort("g").collect()["n"].to_pylist() == [2, 0]
    assert df.select(n=two.over("g")).collect()["n"].to_pylist() == [2, 2, 2, 2, 0, 0]
    both = df.agg(n=fabric.count_distinct("k", "f"), m=fabric.count_distinct("k", "k"))
    assert both.collect().to_pylist() == [{"n": 4, "m": 2}]
    assert df.agg(fabric.count_distinct("k", "s")).columns == ["k_s"]

"""Explode, unnest, pivot, unpivot and sub-contexts, beside Polars and plain Python."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from fabric import DataFrame, col, count, max, sum
from fabric.errors import PlanError

LISTS = pa.table(
    {
        "k": ["a", "b", "c", "d"],
        "i": [[1, 2], [], None, [3, None]],
        "j": [["x", "y"], [], None, ["z", None]],
    }
)
LONG = pl.DataFrame(
    {
        "k": ["a", "a", "b", "b", "c"],
        "m": ["x", "y", "x", "x", None],
        "v": [1, 2, 3, 4, 5],
        "w": [1.0, None, 3.0, 4.0, 5.0],
    }
)


def rows(frame: DataFrame) -> list[str]:
    return sorted(repr(tuple(row.values())) for row in frame.to_dicts())


def of_polars(frame: pl.DataFrame) -> list[str]:
    return sorted(map(repr, frame.rows()))


# ---- explode and unnest
def test_explode_one() -> None:
    df = DataFrame(LISTS)
    assert rows(df.explode("i").drop("j")) == sorted(
        ["('a', 1)", "('a', 2)", "('d', 3)", "('d', None)"]
    )
    outer = df.drop("j").explode("i", outer=True, position="at")
    assert outer.columns == ["k", "i", "at"]
    assert rows(outer) == sorted(
        ["('a', 1, 0)", "('a', 2, 1)", "('b', None, None)", "('c', None, None)", "('d', 3, 0)",
         "('d', None, 1)"]
    )  # fmt: skip


def test_explode_several_side_by_side() -> None:
    df = DataFrame({"k": [1, 2], "i": [[1, 2, 3], [4]], "j": [["x"], ["y", "z"]]})
    both = df.explode("i", "j", position="at")
    assert both.columns == ["k", "i", "j", "at"]
    assert rows(both) == sorted(
        ["(1, 1, 'x', 0)", "(1, 2, None, 1)", "(1, 3, None, 2)", "(2, 4, 'y', 0)",
         "(2, None, 'z', 1)"]
    )  # fmt: skip


def test_unnest() -> None:
    table = pa.table({"p": [{"x": 1, "y": "u"}, None, {"x": None, "y": "v"}], "q": [1, 2, 3]})
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    ours = DataFrame(table).unnest("p")
    assert ours.columns == ["x", "y", "q"]
    assert rows(ours) == of_polars(frame.unnest("p"))


# ---- pivot and unpivot
@pytest.mark.parametrize("function", ["sum", "min", "max", "mean", "median", "len", "count"])
def test_pivot_as_polars(function: Any) -> None:
    known = LONG.drop_nulls("m")
    how = pl.element().count() if function == "count" else function
    wanted = known.pivot("m", index="k", values="v", aggregate_function=how)
    wanted = wanted.with_columns(pl.col("x", "y").replace(0, None))  # no row: null here, as in SQL
    ours = DataFrame(known).pivot("m", index="k", values="v", aggregate_function=function)
    assert ours.columns == wanted.columns
    assert rows(ours) == of_polars(wanted)
    given = DataFrame(known).pivot(
        "m", ["y", "x"], index="k", values="v", aggregate_function=function
    )
    assert rows(given.select("k", "x", "y")) == rows(ours)


def test_pivot_of_several_values() -> None:
    df = DataFrame(LONG)
    wide = df.pivot("m", ["x", None], index="k", aggregate_function="max")
    assert wide.columns == ["k", "v_x", "v_null", "w_x", "w_null"]
    assert rows(wide) == sorted(
        ["('a', 1, None, 1.0, None)", "('b', 4, None, 4.0, None)", "('c', None, 5, None, 5.0)"]
    )
    first = df.filter(col("k") == "a").pivot("m", ["x", "y"], index="k", values="w").to_dicts()
    assert first == [{"k": "a", "x": 1.0, "y": None}]


def test_pyspark_pivot() -> None:
    groups = DataFrame(LONG).group_by("k").pivot("m", ["x", "y"])
    assert rows(groups.sum("v")) == sorted(["('a', 1, 2)", "('b', 7, None)", "('c', None, None)"])
    assert groups.agg(lo=col("v").min(), hi=col("v").max() * 2).columns == [
        "k", "x_lo", "x_hi", "y_lo", "y_hi",
    ]  # fmt: skip
    assert rows(groups.count()) == sorted(["('a', 1, 1)", "('b', 2, None)", "('c', None, None)"])
    assert DataFrame(LONG).group_by("k").pivot("m").mean("v").columns == ["k", "x", "y", "null"]
    assert groups.min("v", "w").columns == ["k", "x_v", "x_w", "y_v", "y_w"]
    assert groups.max("v").columns == ["k", "x", "y"]


def test_unpivot_as_polars() -> None:
    df = DataFrame(LONG)
    wanted = LONG.unpivot(["v", "w"], index=["k", "m"])
    assert rows(df.unpivot(["v", "w"], index=["k", "m"])) == of_polars(wanted)
    assert rows(df.melt(["k", "m"])) == of_polars(wanted)
    named = df.select("k", "v").unpivot("v", index="k", variable_name="var", value_name="val")
    assert named.columns == ["k", "var", "val"]
    assert df.unpivot("v").columns == ["variable", "value"]


# ---- sub-contexts
ORDERS = [
    {"id": 1, "prices": [5, 20, 30]},
    {"id": 1, "prices": [5, 20, 30]},
    {"id": 2, "prices": []},
    {"id": 3, "prices": None},
    {"id": 4, "prices": [7, None]},
]


@pytest.fixture
def orders() -> DataFrame:
    return DataFrame(pa.Table.from_pylist(ORDERS))


def by_id(frame: DataFrame) -> list[dict[str, Any]]:
    return frame.sort("id").to_dicts()


def test_there_and_back_is_the_same(orders: DataFrame) -> None:
    assert by_id(orders.explode("prices", context="item").gather("item")) == ORDERS


def test_added_columns_come_back_as_lists_in_item_order(orders: DataFrame) -> None:
    items = orders.explode("prices", context="item")
    assert items.columns == ["id", "prices", "item.parent", "item.copy", "item.position"]
    done = by_id(items.with_columns(twice=col("prices") * 2).gather("item"))
    assert done == [
        {**row, "twice": None if row["prices"] is None else [p and p * 2 for p in row["prices"]]}
        for row in ORDERS
    ]


def test_parents_without_items_survive_a_filter(orders: DataFrame) -> None:
    items = orders.explode("prices", context="item").filter(col("prices") > 10)
    assert by_id(items.gather("item")) == [
        {"id": 1, "prices": [20, 30]}, {"id": 1, "prices": [20, 30]}, {"id": 2, "prices": []},
        {"id": 3, "prices": None}, {"id": 4, "prices": []},
    ]  # fmt: skip
    counted = items.gather("item", n=count(), share=sum("prices") / count(), most=max("prices"))
    assert by_id(counted.drop("prices")) == [
        {"id": 1, "n": 2, "share": 25.0, "most": 30}, {"id": 1, "n": 2, "share": 25.0, "most": 30},
        {"id": 2, "n": 0, "share": None, "most": None},
        {"id": 3, "n": 0, "share": None, "most": None},
        {"id": 4, "n": 0, "share": None, "most": None},
    ]  # fmt: skip


def test_contexts_nest() -> None:
    data = [
        {"id": 1, "lines": [{"sku": "a", "parts": [1, 2]}, {"sku": "b", "parts": [3]}]},
        {"id": 2, "lines": [{"sku": "c", "parts": []}]},
        {"id": 2, "lines": [{"sku": "c", "parts": []}]},
    ]
    lines = DataFrame(pa.Table.from_pylist(data)).explode("lines", context="line").unnest("lines")
    parts = lines.explode("parts", context="part").with_columns(big=col("parts") > 1)
    lines_again = parts.gather("part", n_big=col("big").count_if())
    assert lines_again.columns == [
        "id", "sku", "parts", "line.parent", "line.copy", "line.position", "n_big",
    ]  # fmt: skip
    totals = lines_again.gather("line", n=count(), big=sum("n_big"))
    assert [(r["id"], r["n"], r["big"]) for r in by_id(totals)] == [(1, 2, 2), (2, 1, 0), (2, 1, 0)]
    lists = by_id(lines_again.gather("line"))
    assert lists[0]["sku"] == ["a", "b"]
    assert lists[0]["parts"] == [[1, 2], [3]]
    assert lists[0]["n_big"] == [1, 1]
    assert lists[1]["n_big"] == [0]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.explode(), r'for example explode\("items"\)'),
        (lambda f: f.explode("price"), r'write: \.explode\("prices"\)'),
        (lambda f: f.explode("id"), r'needs a list, and "id" is int64.*\.explode\("prices"'),
        (lambda f: f.explode("id", "prices"), r'"id" is int64; write: \.explode\("prices"\)'),
        (lambda f: f.explode("id", context="x"), r'\.explode\("prices", context="x"\)'),
        (lambda f: f.explode("prices", context="x", outer=True), "keeps parents without items"),
        (lambda f: f.explode("prices", context="x").with_columns(l=col("prices"))
         .explode("l", context="x"), 'there are columns "x.parent"'),
        (lambda f: f.gather("item"), 'there is no context "item" here'),
        (lambda f: f.explode("prices", context="item").gather("items"),
         r'write: \.gather\("item"\)'),
        (lambda f: f.explode("prices", context="item").select("id").gather("item"),
         'left out "item.parent", "item.copy", "item.position"'),
        (lambda f: f.explode("prices", context="item").with_columns(
            id=col("prices"), replace=True).gather("item"), '"id" belongs to the parent'),
        (lambda f: f.explode("prices", context="item").gather("item", id=count()),
         r'would overwrite "id".*alias\("id_2"\)'),
        (lambda f: f.explode("prices", context="item").gather("item", x=col("prices")),
         "one value an item, not one a parent"),
        (lambda f: f.explode("prices", context="item").gather("item", x=col("price").sum()),
         r'write: \.gather\("item", col\("prices"\)\.sum\(\)\.alias\("x"\)\)'),
        (lambda f: f.unnest(), "unnest needs a struct column"),
        (lambda f: f.unnest("id"), '"id" is int64'),
        (lambda f: f.pivot("idd"), r'write: \.pivot\(on="id"\)'),
        (lambda f: f.pivot("id"), "pivot needs index or values"),
        (lambda f: f.pivot("id", [1], values="prices", index="id", aggregate_function="frist"),
         'write: aggregate_function="first"'),
        (lambda f: f.group_by("id").pivot("price", [1]), r'write: \.pivot\(on="prices"\)'),
        (lambda f: f.group_by("prices").pivot("id", [1]).agg(), "agg needs an aggregate"),
        (lambda f: f.group_by("prices").pivot("id", [1]).sum(), "needs a column"),
        (lambda f: f.unpivot("idd"), r'write: \.unpivot\("id"\)'),
        (lambda f: f.unpivot(), "columns of one type"),
        (lambda f: f.unpivot("id", value_name="variable"), "two different names"),
        (lambda f: f.unpivot("id", index="prices", value_name="prices"), "another variable_name"),
    ],
)  # fmt: skip
def test_refused(orders: DataFrame, wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(orders)

"""Several columns at once, beside Polars' selectors and expressions."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

import polars as pl
import polars.selectors as pcs
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, col
from fabric import selectors as cs
from fabric.errors import PlanError

DATA = pa.table(
    {
        "i": [1, 2, 3],
        "f": [0.5, None, 1.5],
        "name": ["a", "b", None],
        "day": [date(2024, 1, 1)] * 3,
        "at": [datetime(2024, 1, 1, 1)] * 3,
        "long": [timedelta(hours=1)] * 3,
        "ok": [True, None, False],
        "l": [[1], [], None],
        "s": [{"x": 1, "y": "a"}, {"x": None, "y": "b"}, None],
    }
)
CHOSEN: dict[str, tuple[Any, Any]] = {
    "col": (col("i", "f"), pl.col("i", "f")),
    "col of a list": (col(["f", "i"]), pl.col(["f", "i"])),
    "all": (fabric.all(), pl.all()),
    "exclude": (fabric.exclude("i", "f"), pl.exclude("i", "f")),
    "all but": (fabric.all().exclude("l", "s"), pl.all().exclude("l", "s")),
    "all but those chosen": (fabric.all().exclude(cs.numeric()), pcs.all() - pcs.numeric()),
    "numeric": (cs.numeric(), pcs.numeric()),
    "integer": (cs.integer(), pcs.integer()),
    "float": (cs.float(), pcs.float()),
    "string": (cs.string(), pcs.string()),
    "boolean": (cs.boolean(), pcs.boolean()),
    "date": (cs.date(), pcs.date()),
    "datetime": (cs.datetime(), pcs.datetime()),
    "temporal": (cs.temporal(), pcs.temporal()),
    "list": (cs.list(), pcs.list()),
    "struct": (cs.struct(), pcs.struct()),
    "by_name": (cs.by_name("name", "i"), pcs.by_name("name", "i")),
    "by_dtype": (cs.by_dtype("int64", "float64"), pcs.by_dtype(pl.Int64, pl.Float64)),
    "starts_with": (cs.starts_with("n", "d"), pcs.starts_with("n", "d")),
    "ends_with": (cs.ends_with("e"), pcs.ends_with("e")),
    "contains": (cs.contains("a"), pcs.contains("a")),
    "matches": (cs.matches("^.$"), pcs.matches("^.$")),
    "or": (cs.boolean() | cs.integer(), pcs.boolean() | pcs.integer()),
    "and": (cs.numeric() & cs.by_name("f"), pcs.numeric() & pcs.by_name("f")),
    "minus": (cs.numeric() - cs.float(), pcs.numeric() - pcs.float()),
    "not": (~cs.numeric(), ~pcs.numeric()),
    "suffix": (cs.numeric().name.suffix("_x"), pcs.numeric().name.suffix("_x")),
    "prefix": ((col("i", "f") + 1).name.prefix("x_"), (pl.col("i", "f") + 1).name.prefix("x_")),
    "capitals": (col("i").name.to_uppercase(), pl.col("i").name.to_uppercase()),
    "keep": (col("i").alias("z").name.keep(), pl.col("i").alias("z").name.keep()),
    "map": (col("i").name.map(lambda n: n * 2), pl.col("i").name.map(lambda n: n * 2)),
    "arithmetic": (cs.numeric() * 2 - 10, pcs.numeric() * 2 - 10),
    "comparison": (cs.numeric() >= 1.5, pcs.numeric() >= 1.5),
    "negative": (-cs.numeric(), -pcs.numeric()),
    "methods": (cs.numeric().fill_null(0).cast("int32"), pcs.numeric().fill_null(0).cast(pl.Int32)),
    "namespace": (cs.string().str.upper(), pcs.string().str.to_uppercase()),
    "aggregates": (cs.numeric().max().name.suffix("_max"), pcs.numeric().max().name.suffix("_max")),
    "windows": (
        cs.numeric().max().over("ok").name.suffix("_s"),
        pcs.numeric().max().over("ok").name.suffix("_s"),
    ),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_beside_polars(name: str) -> None:
    ours, theirs = CHOSEN[name]
    expected = pl.from_arrow(DATA).select(theirs)
    found = DataFrame(DATA).select(ours)
    assert found.columns == expected.columns
    rows = [sorted(map(repr, table.to_dicts())) for table in (found.to_polars(), expected)]
    assert rows[0] == rows[1]


def test_wherever_columns_are_taken() -> None:
    df = DataFrame(DATA)
    assert df.drop(cs.numeric(), "l").columns == ["name", "day", "at", "long", "ok", "s"]
    assert df.with_columns(col("i", "f").name.suffix("_2")).columns[-2:] == ["i_2", "f_2"]
    small = df.select("i", "f", "ok")
    grouped = small.group_by("ok").agg(cs.all().sum().name.suffix("_sum"))
    assert grouped.columns == ["ok", "i_sum", "f_sum"]
    assert df.group_by(cs.boolean()).agg(n=fabric.count()).columns == ["ok", "n"]
    assert small.group_by("ok").agg(fabric.all().max()).columns == ["ok", "i", "f"]
    assert df.distinct(cs.boolean() | cs.integer()).count() == 3


def test_fields_of_structs_by_dots() -> None:
    df = DataFrame(DATA)
    assert df.select("i", "s.y").sort("i").to_dicts() == [
        {"i": 1, "y": "a"}, {"i": 2, "y": "b"}, {"i": 3, "y": None}
    ]  # fmt: skip
    assert df.filter(col("s.x") == 1).count() == 1
    assert df.select(z=col("s.x") + col("i")).columns == ["z"]
    assert df.with_columns(col("s.x").alias("x")).columns[-1] == "x"
    assert df.sort("s.y").select("s.y").columns == ["y"]
    assert df.group_by("s.y").agg(n=fabric.count()).columns == ["y", "n"]
    deep = DataFrame({"a": [{"b": {"c": 5}}]})
    assert deep.select("a.b.c").to_dicts() == [{"c": 5}]
    dotted = DataFrame({"s.x": [7], "s": [{"x": 1}]})
    assert dotted.select("s.x").to_dicts() == [{"s.x": 7}]
    with pytest.raises(PlanError, match=r'no column "s\.z" here'):
        df.select("s.z")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda f: f.select(cs.decimal()), r"cs\.decimal\(\) chooses none of the columns"),
        (lambda f: f.select(col("i", "zz")), 'there is no column "zz"; the columns are'),
        (lambda f: f.filter(col("i", "f") > 1), r"is several columns, and here is room for one"),
        (lambda f: f.select(col("i") + col("i", "f")), "is several columns"),
        (lambda f: f.select(col("i", "f").alias("x")), "x"),
        (lambda _: col("i", 5), r"name of a column, got 5"),
        (lambda _: cs.matches("("), "is not a valid pattern"),
        (lambda f: f.select(fabric.exclude("^(a$")), r"exclude: '\^\(a\$' is not a valid pattern"),
        (lambda _: fabric.exclude(5), "exclude takes names of columns and selectors, got 5"),
        (lambda _: bool(cs.numeric()), "has no truth value"),
    ],
)
def test_refused(wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong(DataFrame(DATA))


def test_typos_are_told() -> None:
    with pytest.raises(AttributeError, match=r"did you mean \.sum\?"):
        _ = cs.numeric().summ
    with pytest.raises(AttributeError, match=r"did you mean \.upper\?"):
        _ = cs.string().str.uper

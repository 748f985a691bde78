"""Mistakes that Python or a library would have told in its own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import fabric
from fabric import DataFrame, col
from fabric.errors import DataError, PlanError

ROWS = {"k": ["a", "b"], "x": [1, 2], "f": [1.4, 2.6], "l": [[1], [2]]}
MISTAKES: tuple[tuple[Callable[[Any], Any], str], ...] = (
    (lambda f: f.select(col("x").alias(1)), r'alias: name=1 is not text; write: name="1"'),
    (lambda f: f.join(f, how="cross", suffix=1), r"join: suffix=1 is not text"),
    (lambda f: f.join(f, on="k", how="anti", suffix=1), r"join: suffix=1 is not text"),
    (lambda f: f.group_by("k").agg({"x": ["sum", "max"]}), r'agg: "x" needs the name of one'),
    (lambda f: f.select(col("x").is_in(1)), r"is_in takes a list of constants, got 1"),
    (lambda f: f.rename(str.upper), r'rename takes old and new names, \{"old": "new"\}, got'),
    (lambda f: f.select(col("l")[0]), r"has no \[0\]; write: \.list\.get\(0\)"),
    (
        lambda f: f.select(col("x") ^ 1),
        r"\^ is not an operator of expressions; write: a\.bit",
    ),
    (lambda f: f.select(1 ^ col("x")), r"\^ is not an operator of expressions"),
    (lambda f: f[col("x") > 1], r'write: df\.filter\(col\("x"\) > 1\)'),
    (lambda f: f.group_by("k")["x"], r'groups have no columns; write: \.agg\(col\("x"\)\.sum'),
    (lambda f: f.__setitem__("y", 1), r"a frame never changes; write: df = df\.with_columns"),
    (
        lambda f: f.join(pl.DataFrame({"k": ["a"]}), on="k"),
        r"DataFrame of polars; write: join",
    ),
)


@pytest.mark.parametrize(("mistake", "message"), MISTAKES)
def test_it_is_told_in_our_words(mistake: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(PlanError, match=message):
        mistake(DataFrame(ROWS))


def test_round_of_python() -> None:
    found = DataFrame(ROWS).select(round(col("f")))
    assert found.to_dicts() == [{"f": 1.0}, {"f": 3.0}]


@pytest.mark.parametrize(
    ("mistake", "hint"),
    [
        (lambda f: f.sum(), r"write: df\.group_by\(\)\.sum\(\)"),
        (lambda f: f.std(), r"write: df\.group_by\(\)\.std\(\)"),
        (lambda f: col("x").unique(), r"write: df\.select\(\.\.\.\)\.distinct\(\)"),
        (lambda f: col("x").len(), r"write: \.count\(\), \.list\.len\(\)"),
        (lambda f: col("x").fillna(1), r"write: \.fill_null\(0\)"),
        (lambda f: col("x").filter(col("x") > 1), r"write: when\(condition\)"),
    ],
)
def test_methods_of_other_libraries(mistake: Callable[[Any], Any], hint: str) -> None:
    with pytest.raises(AttributeError, match=hint):
        mistake(DataFrame(ROWS))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([{"a": 1}, {"a": "x"}],
         r"^column 'a' has 'x' in row 1, counted from 0: it is a str, and the rows before are "
         r"int64; give all rows one type, for example str\(value\)$"),
        ({"a": 1}, r"^column 'a' has '1', not its values in a list; write: fabric\.from_dict\("
         r'\{"a": \[1\]\}\)$'),
        ({"a": "xy"}, r'write: fabric\.from_dict\(\{"a": \["xy"\]\}\)$'),
        ({"a": [1], "b": [1, 2]}, r"^column 'b' has 2 values, and column 'a' has 1; give each"),
        (pl.Series("a", [1]), r"is one column; write: fabric\.DataFrame\(series\.to_frame\(\)\)$"),
        (pa.array([1]), r'is one column; write: fabric\.from_dict\(\{"a": values\}\)$'),
    ],
)  # fmt: skip
def test_data_that_are_no_table_say_what_to_give(data: object, says: str) -> None:
    with pytest.raises(DataError, match=says):
        fabric.DataFrame(data)


def test_columns_may_be_whatever_has_values() -> None:
    made = fabric.from_dict({"a": range(2), "b": (n for n in "xy"), "c": pa.array([1, None])})
    assert made.collect().to_pydict() == {"a": [0, 1], "b": ["x", "y"], "c": [1, None]}

"""Values for others, beside Polars."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from fabric import DataFrame, col
from fabric.errors import PlanError

DATA = pa.table({"a": [1, 2, 3, 4, None, 10], "s": ["x", "y", None, "x", "z", ""],
                 "f": [0.2, 0.5, math.nan, None, math.inf, 0.7]})  # fmt: skip
X = {"x": "X", None: "-"}
ALIKE: dict[str, tuple[Any, Callable[[], pl.Expr]]] = {
    "replace": (col("s").replace(X), lambda: pl.col("s").replace(X)),
    "lists": (col("a").replace([1, 2], [2, 1]), lambda: pl.col("a").replace([1, 2], [2, 1])),
    "by one": (col("a").replace([1, 2], 9), lambda: pl.col("a").replace([1, 2], 9)),
    "by null": (col("s").replace("x", None), lambda: pl.col("s").replace("x", None)),
    "all": (
        col("s").replace({"x": 1, "y": 2}, default=0),
        lambda: pl.col("s").replace_strict({"x": 1, "y": 2}, default=0, return_dtype=pl.Int32),
    ),
    "by a column": (
        col("s").replace({"x": "X"}, default=col("a").cast("string")),
        lambda: pl.col("s").replace_strict({"x": "X"}, default=pl.col("a").cast(pl.String)),
    ),
    "cut": (col("a").cut([2, 3.5]), lambda: pl.col("a").cut([2, 3.5])),
    "cut NaN": (col("f").cut([0.5]), lambda: pl.col("f").cut([0.5])),
    "cut at the left": (
        col("a").cut([2, 3.5], left_closed=True),
        lambda: pl.col("a").cut([2, 3.5], left_closed=True),
    ),
    "cut with names": (
        col("a").cut([0.001, 3], ["a", "b", "c"]),
        lambda: pl.col("a").cut([0.001, 3], labels=["a", "b", "c"]),
    ),
    "cut at nothing": (
        col("a").cut([], ["all"]), lambda: pl.col("a").cut([], labels=["all"])
    ),
    "qcut": (
        col("a").qcut(2, ["low", "high"]), lambda: pl.col("a").qcut(2, labels=["low", "high"])
    ),
    "qcut by fractions": (
        col("a").qcut([0.25, 0.9], ["a", "b", "c"]),
        lambda: pl.col("a").qcut([0.25, 0.9], labels=["a", "b", "c"]),
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*deprecated")
@pytest.mark.parametrize("name", ALIKE)
def test_beside_polars(name: str) -> None:
    ours, theirs = ALIKE[name]
    expected = pl.from_arrow(DATA).select("a", v=theirs()).cast({"v": pl.String})
    found = DataFrame(DATA).select("a", v=ours).cast({"v": "string"})
    rows = [sorted(map(repr, rows)) for rows in (found.to_dicts(), expected.to_dicts())]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda: col("a").replace({}), r"write|needs values: \.replace"),
        (lambda: col("a").replace([1, 2], [3]), "got 2 values and 1 to replace them by"),
        (lambda: col("a").replace({1: 2}, 3), "a mapping alone"),
        (lambda: col("a").cut([2, 1]), r"rising breaks, got \[2, 1\]; write: \[1, 2\]"),
        (lambda: col("a").cut(["x"]), "takes numbers as breaks"),
        (lambda: col("a").cut([1], ["a"]), "needs 2 names for its parts"),
        (lambda: col("a").qcut(0, ["a"]), "a number of parts or rising fractions"),
        (lambda: col("a").qcut([2.0], ["a", "b"]), "rising fractions from 0 to 1"),
        (lambda: col("a").qcut(3, ["a"]), "needs 3 names"),
    ],
)
def test_refused(wrong: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        wrong()

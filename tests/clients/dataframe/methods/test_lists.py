"""List methods: the calls they build, their text, and Polars' answers."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import fabric
from fabric import Expr, array, col, functions, lit, sequence, struct
from fabric.errors import PlanError
from fabric.plan import expr as plan

L = col("l").list
X = plan.Column("l")
METHODS = [
    L.len(), L.get(0), L.get(col("i")), L.first(), L.last(), L.contains(1), L.position(1),
    L.n_unique(), L.sublist(2), L.sublist(-2, 1), L.slice(1), L.slice(-1, 1), L.head(2), L.tail(2),
    L.tail(0), L.drop_nulls(), L.concat(col("m"), col("l")), L.append(None), L.prepend(2),
    L.flatten(), L.reverse(), L.sort(), L.sort(descending=True, nulls_last=True), L.unique(),
    L.set_union(col("m")), L.set_intersection(col("m")), L.set_difference(col("m")), L.min(),
    L.max(), L.sum(), L.mean(), L.any(), L.all(), L.join(","), L.join(",", "?"),
    L.get(0).list.len(), array("i", 1, "l"), sequence(1, "i"), struct("l", x=1), lit([1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("expr", METHODS, ids=repr)
def test_text_can_be_pasted(expr: Expr) -> None:
    names = {
        name: getattr(fabric, name)
        for name in ("col", "lit", "when", "array", "sequence", "struct", "coalesce", "greatest")
    }
    names["array_contains"] = functions.array_contains  # fmt: skip
    assert eval(repr(expr), names).node == expr.node


def test_positions_count_from_0_as_in_polars() -> None:
    one, two = plan.Literal(1, pa.int32()), plan.Literal(2, pa.int32())
    assert L.slice(0, 2).node == plan.Call("list_slice", (X, one, two))
    with pytest.raises(PlanError, match="use sublist for columns"):
        L.slice(col("i"))  # type: ignore[arg-type]


DATA: dict[str, list[Any]] = {
    "l": [[3, 1, 2, 1], [], None, [None, 5]],
    "m": [[1, 9], [1], [2], [5, None]],
    "s": [["b", "a"], [], None, ["x", None]],
    "i": [1, 0, -1, -2],
}
SAME = [
    lambda c: c("l").list.first(),
    lambda c: c("l").list.last(),
    lambda c: c("l").list.slice(1, 2),
    lambda c: c("l").list.head(2),
    lambda c: c("l").list.tail(3),
    lambda c: c("l").list.drop_nulls(),
    lambda c: c("l").list.reverse(),
    lambda c: c("l").list.sort(),
    lambda c: c("l").list.sort(descending=True, nulls_last=True),
    lambda c: c("l").list.min(),
    lambda c: c("l").list.max(),
    lambda c: c("l").list.sum(),
    lambda c: c("l").list.mean(),
    lambda c: c("s").list.join("-"),
    lambda c: c("l").list.concat(c("m")),
    lambda c: c("l").list.len().cast(fabric.clients.dataframe.expressions.literal.to_dtype("int64"))
    if c is col else c("l").list.len().cast(pl.Int64),
]  # fmt: skip


@pytest.mark.parametrize("build", SAME)
def test_polars_answers_the_same(build: Any) -> None:
    ours = fabric.from_dict(DATA).select(build(col).alias("x")).collect().column("x").to_pylist()
    assert ours == pl.DataFrame(DATA).select(build(pl.col).alias("x"))["x"].to_list()

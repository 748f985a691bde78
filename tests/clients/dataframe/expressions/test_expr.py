"""Operators and methods build the plan expressions they should; misuse is refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fabric import col, concat_str, count, count_distinct, lit, mean, when
from fabric import functions as F
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.errors import PlanError
from fabric.plan import expr as plan

X, Y = plan.Column("x"), plan.Column("y")
ONE = plan.Literal(1, pa.int32())
DAY = plan.Literal("2013-01-01", pa.string())


@pytest.mark.parametrize(
    ("built", "function", "args"),
    [
        (col("x") + 1, "add", (X, ONE)),
        (1 + col("x"), "add", (ONE, X)),
        (col("x") - col("y"), "subtract", (X, Y)),
        (1 - col("x"), "subtract", (ONE, X)),
        (col("x") * 1, "multiply", (X, ONE)),
        (1 * col("x"), "multiply", (ONE, X)),
        (col("x") / 1, "divide", (X, ONE)),
        (1 / col("x"), "divide", (ONE, X)),
        (col("x") // 1, "floor_quotient", (X, ONE)),
        (1 // col("x"), "floor_quotient", (ONE, X)),
        (col("x") % 1, "floor_remainder", (X, ONE)),
        (1 % col("x"), "floor_remainder", (ONE, X)),
        (-col("x"), "negate", (X,)),
        (abs(col("x")), "abs", (X,)),
        (col("x") == 1, "eq", (X, ONE)),
        (col("x") != 1, "ne", (X, ONE)),
        (col("x") < 1, "lt", (X, ONE)),
        (col("x") <= 1, "le", (X, ONE)),
        (col("x") > 1, "gt", (X, ONE)),
        (col("x") >= 1, "ge", (X, ONE)),
        (col("x") & col("y"), "and", (X, Y)),
        (col("x") | col("y"), "or", (X, Y)),
        (~col("x"), "not", (X,)),
        (col("x").is_null(), "is_null", (X,)),
        (col("x").isNotNull(), "is_not_null", (X,)),
        (col("x").fill_null(1), "coalesce", (X, ONE)),
        (col("x").eq_null_safe(col("y")), "eq_null_safe", (X, Y)),
        (col("x").round(1), "round", (X, ONE)),
        (col("x").str.to_uppercase(), "upper", (X,)),
        (col("x").str.substr(1, 1), "substring", (X, ONE, ONE)),
        (col("x").str.slice(0, 1), "substring", (X, ONE, ONE)),
        (col("x").str.slice(-1, 1), "substring", (X, plan.Literal(-1, pa.int32()), ONE)),
        (col("x").str.contains(col("y"), literal=True), "contains", (X, Y)),
        (col("x").str.contains("a"), "contains", (X, plan.Literal("a", pa.string()))),
        (col("x").dt.year(), "year", (X,)),
        (col("x").dt.date_trunc("hour"), "date_trunc", (plan.Literal("hour", pa.string()), X)),
        (col("x").dt.add(1, "hour"), "add_interval", (X, ONE, plan.Literal("hour", pa.string()))),
        (col("x").dt.truncate("1h"), "as_time_of", (col("x").dt.date_trunc("hour").node, X)),
        (col("x").dt.offset_by("1h"), "as_time_of", (col("x").dt.add(1, "hour").node, X)),
        (concat_str("x", "y"), "concat", (X, Y)),
        (F.coalesce("x", col("y")), "coalesce", (X, Y)),
    ],
)  # fmt: skip
def test_calls(built: Expr, function: str, args: tuple[plan.Expr, ...]) -> None:
    assert built.node == plan.Call(function, args)


@pytest.mark.parametrize(
    ("built", "node"),
    [
        (col("x").sum(), plan.Agg("sum", X)),
        (mean("x"), plan.Agg("mean", X)),
        (F.avg(col("x") + 1), plan.Agg("mean", plan.Call("add", (X, ONE)))),
        (count(), plan.Agg("count", None)),
        (count("x"), plan.Agg("count", X)),
        (count_distinct("x"), plan.Agg("count_distinct", X)),
        (col("x").alias("y"), plan.Alias(X, "y")),
        (col("x").alias("y").alias("z"), plan.Alias(X, "z")),
        (col("x").alias("y") + 1, plan.Call("add", (X, ONE))),
        (col("x").cast("int64"), plan.Cast(X, pa.int64())),
        (col("x").try_cast(int), plan.Cast(X, pa.int64(), True)),
        (col("x").is_in([1]), plan.IsIn(X, (ONE,))),
        (col("x").isin(1), plan.IsIn(X, (ONE,))),
        (col("x").isin([1]), plan.IsIn(X, (ONE,))),
        (lit(1), ONE),
        (lit(1, "int8"), plan.Literal(1, pa.int8())),
        (lit("2013-01-01", "date"), plan.Cast(DAY, pa.date32())),
        (col("x").between(1, 1), (((col("x") >= 1) & (col("x") <= 1)).node)),
    ],
)  # fmt: skip
def test_other_nodes(built: Expr, node: plan.Expr) -> None:
    assert built.node == node


def test_case_branch_by_branch() -> None:
    a, b = plan.Column("a"), plan.Literal("b", pa.string())
    null = plan.Literal(None, pa.null())
    case = when(col("x")).then("a").when(col("y")).then(lit("b"))
    assert case.node == plan.Case(((X, a), (Y, b)), null)
    assert case.otherwise("a").node == plan.Case(((X, a), (Y, b)), a)
    assert when(col("x"), "a").when(col("y"), lit("b")).node == case.node
    assert when(col("x"), None).node == plan.Case(((X, null),), null)
    assert "without .then" in repr(when(col("x")))


def test_orders() -> None:
    assert col("x").desc().key == plan.SortKey(X, True, True)
    assert col("x").asc().key == plan.SortKey(X, False, False)
    assert col("x").desc().nulls_first().key == plan.SortKey(X, True, False)
    assert col("x").asc().nulls_last().key == plan.SortKey(X, False, True)


@pytest.mark.parametrize(
    "misuse",
    [
        lambda x: x > 1 and x < 2,
        lambda x: not x,
        lambda x: 1 < x < 5,
        lambda x: x in [1, 2],
        bool,
    ],
)
def test_truth_is_refused_with_the_mended_line(misuse: Any) -> None:
    with pytest.raises(PlanError, match=r"write & for 'and', \| for 'or', ~ for 'not'"):
        misuse(col("x"))


@pytest.mark.parametrize(
    ("misuse", "says"),
    [
        (lambda: col(1), "col takes the name of a column, got 1"),  # type: ignore[arg-type]
        (lambda: col("x") == [1, 2], r'write col\("x"\).is_in'),
        (lambda: col("x").is_in("abc"), "is_in takes a list"),
        (lambda: col("x") + col("y").desc(), "use it in sort"),
        (lambda: list(col("x")), "can't be iterated"),  # type: ignore[call-overload]
        (lambda: col("x").dt.offset_by("soon"), "not a valid duration"),
        (lambda: col("x").str.substring(1, -1), "at least 0"),
    ],
)
def test_refusals(misuse: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says):
        misuse()


def test_an_expression_is_no_key() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        {col("x"): 1}  # type: ignore[dict-item]

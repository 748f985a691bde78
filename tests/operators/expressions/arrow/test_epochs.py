"""Arithmetic of durations at the ends of int64."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fabric.errors import ExpressionError
from fabric.operators.expressions.arrow import compile_expr
from fabric.plan.expr import Call, Column, Expr, Literal

SPAN, STAMP = pa.duration("us"), pa.timestamp("us", "UTC")
HIGH = pa.array([2**63 - 1])
BATCH = pa.record_batch({"d": HIGH.view(SPAN), "t": HIGH.view(STAMP), "l": pa.array([-(2**63)])})
D, T = Column("d"), Column("t")
ONE = Literal(1, SPAN)


@pytest.mark.parametrize(
    "expr",
    [Call("add", (D, ONE)), Call("add", (T, ONE)), Call("add", (D, T)),
     Call("multiply", (D, Literal(2, pa.int32()))),
     Call("subtract", (Call("timestamp_micros", (Column("l"),)), T))],
)  # fmt: skip
def test_what_does_not_fit_is_an_overflow(expr: Expr) -> None:
    with pytest.raises(ExpressionError, match="overflow"):
        compile_expr(expr, BATCH.schema)(BATCH)


def test_constants_alone() -> None:
    total = Call(
        "total_seconds", (Call("multiply", (Literal(1_500_000, SPAN), Literal(3, pa.int8()))),)
    )
    assert compile_expr(total, BATCH.schema)(BATCH).to_pylist() == [4]

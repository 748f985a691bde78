"""Methods of numbers that are made of several functions."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from fabric import col, lit
from fabric.clients.dataframe.expressions.expr import Expr
from fabric.operators.expressions.arrow import compile_expr
from fabric.plan import expr as plan

INF, NAN = math.inf, math.nan
X = [1.5, -2.0, None, NAN, INF, -INF, 0.0]


def values(expr: Expr) -> list[Any]:
    batch = pa.record_batch({"x": pa.array(X, pa.float64()), "i": pa.array(range(7), pa.int32())})
    answers = compile_expr(expr.node, batch.schema)(batch).to_pylist()
    return ["nan" if isinstance(v, float) and math.isnan(v) else v for v in answers]


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (col("x").clip(-1, 1), [1.0, -1.0, None, "nan", 1.0, -1.0, 0.0]),
        (col("x").clip(0), [1.5, 0.0, None, "nan", INF, 0.0, 0.0]),
        (col("x").clip(upper=0.0), [0.0, -2.0, None, "nan", 0.0, -INF, 0.0]),
        (col("i").clip(2, 4), [2, 2, 2, 3, 4, 4, 4]),
        (col("i").clip(), list(range(7))),
        (col("x").fill_nan(7), [1.5, -2.0, None, 7.0, INF, -INF, 0.0]),
        (col("x").fill_nan(None), [1.5, -2.0, None, None, INF, -INF, 0.0]),
        (col("x").is_finite(), [True, True, None, False, False, False, True]),
        (col("x").is_infinite(), [False, False, None, False, True, True, False]),
        (col("i").is_finite(), [True] * 7),
        (col("x").is_not_nan(), [True, True, True, False, True, True, True]),
        (col("i") ** 2, [0.0, 1.0, 4.0, 9.0, 16.0, 25.0, 36.0]),
        (2 ** col("i"), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]),
        (lit(-7).pmod(col("i") + 1), [0, 1, 2, 1, 3, 5, 0]),
        (col("i").shift_left(1), [0, 2, 4, 6, 8, 10, 12]),
        (col("i").bitwiseAND(1), [0, 1, 0, 1, 0, 1, 0]),
    ],
)
def test_values(expr: Expr, expected: list[Any]) -> None:
    assert values(expr) == expected


def test_logarithms() -> None:
    x = plan.Column("x")
    assert col("x").log().node == plan.Call("ln", (x,))
    assert col("x").log(10).node == plan.Call("log", (plan.Literal(10, pa.int32()), x))


def test_hash_is_the_kernels() -> None:
    from fabric._cython.kernels.hash import hash_columns

    hashes = hash_columns([pa.array(X, pa.float64()), pa.array(range(7), pa.int32())])
    assert values(col("x").hash(col("i"))) == hashes.view("int64").tolist()

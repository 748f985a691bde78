"""Constants as tasks would compute them."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from fabric.coordinator.submit.constants import constant_value
from fabric.operators.expressions.arrow import compile
from fabric.plan.expr import Call, Cast, Expr, Literal

S, ONE = pa.string(), Literal(1, pa.int64())

X = Literal("x", S)


def number(value: int) -> Literal:
    return Literal(value, pa.int32())


def doubled(times: int) -> Expr:
    expr: Expr = X
    for _ in range(times):
        expr = Call("concat", (expr, expr))
    return Call("length", (expr,))


def forbidden(*_: object) -> None:
    raise AssertionError("it was computed")


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Call("add", (ONE, ONE)), Literal(2, pa.int64())),
        (Call("gt", (ONE, Literal(None, pa.int64()))), Literal(None, pa.bool_())),
        (Cast(Literal("2024-02-29", S), pa.date32()), Literal(date(2024, 2, 29), pa.date32())),
        (Call("divide", (ONE, Literal(0, pa.int64()))), None),
        (Cast(Literal("x", S), pa.int64()), None),
        (Cast(Literal("2024-02-29", S), pa.timestamp("ns")), None),
    ],
)
def test_values(expr: Expr, expected: Literal | None) -> None:
    assert constant_value(expr) == expected


@pytest.mark.parametrize(
    "expr",
    [
        Call("repeat", (X, number(1 << 30))),
        Call("length", (Call("repeat", (X, number(1 << 30))),)),
        Call("length", (Call("repeat", (Call("repeat", (X, number(9_999))), number(9_999))),)),
        Call("length", (Call("lpad", (X, number(1 << 30), X)),)),
        Call("list_len", (Call("sequence", (ONE, Literal(1 << 28, pa.int64()))),)),
        Call("list_len", (Call("list_repeat", (X, number(1 << 28))),)),
        Call("length", (Call("replace", (Literal("x" * 999, S), X, Literal("y" * 999, S))),)),
        Call("levenshtein", (Literal("x" * 999, S), Literal("y" * 999, S))),
        doubled(12),
    ],
    ids=["text", "below", "nested", "lpad", "sequence", "list", "replace", "distance", "doubled"],
)
def test_what_may_be_large_is_left_to_tasks(expr: Expr, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is computed: of the first 3 GB were, by a coordinator."""
    monkeypatch.setattr(compile, "compile_expr", forbidden)
    assert constant_value(expr) is None


def test_small_texts_are_constants() -> None:
    text = Call("upper", (Call("concat", (X, Call("repeat", (X, number(3))))),))
    assert constant_value(text) == Literal("XXXX", S)

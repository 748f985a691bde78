"""What rules ask of expressions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabric.coordinator.optimizer.expressions import (
    conjoin,
    conjuncts,
    fits,
    named,
    passed_through,
    split,
    substitute,
    total,
    widens,
    with_children,
)
from fabric.plan.expr import Agg, Alias, Call, Case, Cast, Column, Expr, IsIn, Literal, children

SCHEMA = pa.schema(
    {"i": pa.int64(), "j": pa.int32(), "f": pa.float64(), "s": pa.string(), "d": pa.date32()}
)


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=40))
def test_conjoin_keeps_order_and_does_not_nest_deep(names: list[str]) -> None:
    joined = conjoin([Column(name) for name in names])
    assert [part.name for part in conjuncts(joined) if isinstance(part, Column)] == names
    assert fits(joined)


@pytest.mark.parametrize(
    "expr",
    [
        Column("i"),
        Literal(1, pa.int64()),
        Call("eq", (Column("i"), Column("j"))),
        Call("and", (Call("is_null", (Column("i"),)), Call("not", (Column("i"),)))).args[0],
        Call("add", (Column("f"), Column("f"))),
        Call("coalesce", (Column("i"), Literal(0, pa.int64()))),
        Cast(Column("i"), pa.int32(), try_=True),
        Cast(Column("j"), pa.int64()),
        Cast(Column("i"), pa.float64()),
        IsIn(Column("i"), (Literal(1, pa.int64()),)),
        Call("upper", (Column("s"),)),
        Call("year", (Column("d"),)),
        Case(((Call("gt", (Column("i"), Column("j"))), Column("s")),), Column("s")),
    ],
)
def test_can_not_fail(expr: Expr) -> None:
    assert total(expr, SCHEMA)


@pytest.mark.parametrize(
    "expr",
    [
        Call("add", (Column("i"), Column("i"))),
        Call("divide", (Column("f"), Column("f"))),
        Call("modulo", (Column("i"), Literal(2, pa.int64()))),
        Call("negate", (Column("i"),)),
        Cast(Column("i"), pa.int32()),
        Cast(Column("s"), pa.int64()),
        Call("gt", (Cast(Column("s"), pa.int64()), Column("i"))),
        Case(
            ((Call("gt", (Column("i"), Column("j"))), Cast(Column("s"), pa.int64())),), Column("i")
        ),
        Call("to_timestamp", (Column("s"),)),
    ],
)
def test_can_fail(expr: Expr) -> None:
    assert not total(expr, SCHEMA)


def test_a_part_that_can_fail_does_not_overtake_what_may_protect_it() -> None:
    protect = Call("ne", (Column("i"), Literal(0, pa.int64())))
    risky = Call("gt", (Call("divide", (Literal(1, pa.int64()), Column("i"))), Column("f")))
    safe = Call("gt", (Column("i"), Literal(5, pa.int64())))

    def movable(expr: Expr) -> bool:
        return expr is not protect

    assert split(conjoin([protect, risky, safe]), SCHEMA, movable) == ([safe], [protect, risky])
    assert split(conjoin([risky, safe]), SCHEMA, movable) == ([risky, safe], [])
    assert split(conjoin([risky, safe]), SCHEMA, movable, only_total=True) == ([safe], [risky])


EXPRS: list[Any] = [
    Column("i"),
    Literal(1, pa.int64()),
    Call("add", (Column("i"), Column("j"))),
    Case(((Column("i"), Column("j")), (Column("s"), Column("d"))), Column("f")),
    Cast(Column("i"), pa.int32(), True),
    IsIn(Column("i"), (Literal(1, pa.int64()),)),
    Alias(Column("i"), "x"),
    Agg("sum", Column("i")),
    Agg("count", None),
]


@pytest.mark.parametrize("expr", EXPRS, ids=lambda e: type(e).__name__)
def test_with_its_own_children_an_expression_is_itself(expr: Expr) -> None:
    assert with_children(expr, children(expr)) == expr


def test_substitute() -> None:
    expr = Call("add", (Column("i"), Call("negate", (Column("j"),))))
    found = substitute(expr, {"j": Column("k")})
    assert found == Call("add", (Column("i"), Call("negate", (Column("k"),))))


def test_passed_through_and_named() -> None:
    exprs = (Column("a"), Alias(Column("b"), "c"), Alias(Literal(1, pa.int64()), "one"))
    assert passed_through(exprs) == {"a": Column("a"), "c": Column("b")}
    assert named(Alias(Column("a"), "x"), "a") == Column("a")
    assert named(Call("add", (Column("a"), Column("b"))), "z") == Alias(
        Call("add", (Column("a"), Column("b"))), "z"
    )


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (pa.uint8(), pa.int16(), True),
        (pa.int8(), pa.uint16(), False),
        (pa.float64(), pa.float32(), False),
        (pa.int64(), pa.decimal128(20, 0), True),
        (pa.int64(), pa.decimal128(10, 0), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), True),
        (pa.decimal128(10, 2), pa.decimal128(11, 4), False),
        (pa.string(), pa.large_string(), True),
        (pa.string(), pa.int64(), False),
        (pa.dictionary(pa.int8(), pa.int32()), pa.int64(), True),
    ],
)
def test_widens(source: pa.DataType, target: pa.DataType, expected: bool) -> None:
    assert widens(source, target) is expected
